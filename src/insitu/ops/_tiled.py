"""Updates of a parameter by tiles of its gradient: calls that do to a part what the op of the same name does to all.

Two passes over the tiles: the first adds up the squares of the norm, by which the gradient is clipped, the second takes
the step. `norm` holds what the first leaves. The bytes are those of the whole update. No op is declared here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from insitu.graph import Node, Type, Value, f32
from insitu.graph.call import Call, Struct
from insitu.graph.tiles import Count
from insitu.ops.block import channel_runs
from insitu.ops.block_update import scale_of
from insitu.ops.update_int import options


@dataclass(frozen=True)
class TiledUpdate:
    """How an update works on tiles of its gradient; `grad` are the indices of the inputs that are the gradient."""

    grad: tuple[int, ...]
    norm: Type
    add: Callable[[Node, Value, tuple[Value, ...]], Call]  # squares of a tile
    factor: Callable[[Node, Value], Call]
    step: Callable[[Node, Value, tuple[Value, ...]], Call]


def _add(node: Node, norm: Value, grad: tuple[Value, ...]) -> Call:
    n = grad[0].type.size
    return Call("norm_tile_f32", norm, grad[0], Count(n), n)


def _factor(node: Node, norm: Value) -> Call:
    rate = node.inputs[3]
    return Call("norm_factor_f32", norm, node.outputs[2], rate, float(node.attrs["clip"]))


def _residual(node: Node, norm: Value, grad: tuple[Value, ...]) -> Call:
    n = grad[0].type.size
    return Call("sgd_residual_tile_s8", *node.outputs, grad[0], node.inputs[3], norm, Count(n), n, _options(node))


def _add_block(node: Node, norm: Value, grad: tuple[Value, ...]) -> Call:
    n, (_, inner) = grad[0].type.size, channel_runs(grad[0].type)
    return Call("norm_tile_s32b", norm, *grad, scale_of(grad[0].type), inner, Count(n), n)


def _factor_block(node: Node, norm: Value) -> Call:
    return Call("norm_factor_s32b", norm, node.outputs[2], node.inputs[4], float(node.attrs["clip"]))


def _residual_block(node: Node, norm: Value, grad: tuple[Value, ...]) -> Call:
    n, (_, inner) = grad[0].type.size, channel_runs(grad[0].type)
    sizes = (scale_of(grad[0].type), inner, Count(n), n, _options(node))
    return Call("sgd_residual_block_tile_s8", *node.outputs, *grad, node.inputs[4], norm, *sizes)


def _options(node: Node) -> Struct:
    given = (node.attrs[name] for name in ("clip", "qas", "decay"))
    return options(node.inputs[0].type, *given, target="mcu")  # tiles are made where memory is short


TILED_UPDATES = {
    "sgd_residual_s8": TiledUpdate((2,), f32(9), _add, _factor, _residual),
    "sgd_residual_block_s8": TiledUpdate((2, 3), f32(2), _add_block, _factor_block, _residual_block),
}
