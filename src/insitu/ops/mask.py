"""Where a value was clamped: one bit per element, written by the forward kernel, read by the gradient.

An int8 op with `mask=True` has a second output, u8[rows, ceil(C / 8)]. Rows are all dimensions before the last, C; bit
c % 8 of byte c // 8 is one if the value before clamping is within lo..hi. The gradient passes where the bit is one: it
treats `round` as the identity, but not `clamp`.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op
from insitu.graph.call import Call
from insitu.graph.op import Grads
from insitu.ops._types import Array, Masked


def pack_mask(inside: np.ndarray) -> np.ndarray:
    """The bits of a boolean array, as the kernels write them."""
    rows = inside.reshape(-1, inside.shape[-1] if inside.ndim else 1)
    return np.packbits(rows, axis=1, bitorder="little")


def channels_of(y: Type) -> int:
    """Bits per row."""
    return y.shape[-1] if y.rank else 1


def mask_type(y: Type) -> Type:
    """The type of the mask of a value of this type."""
    c = channels_of(y)
    return Type("u8", (y.size // c, (c + 7) // 8))


def beside(y: Type, mask: bool) -> Type | tuple[Type, ...]:
    """infer: the output, with its mask if wanted."""
    return (y, mask_type(y)) if mask else y


def clamped(values: np.ndarray, lo: int, hi: int, mask: bool) -> Array | tuple[Array, ...]:
    """eval: integers as s8 within lo..hi, with the mask if wanted."""
    y = np.clip(values, lo, hi).astype(np.int8)
    return (y, pack_mask((values >= lo) & (values <= hi))) if mask else y


def apart(values: tuple, inputs: int) -> tuple:
    """emit: (y, mask or None, *inputs) of a node's outputs and inputs."""
    y, *rest = values
    return y, rest[0] if len(rest) > inputs else None, *rest[-inputs:]


def with_mask(node: Node) -> tuple:
    """emit: (y, mask or None, x, w, bias or None) of a layer with parameters."""
    y, *mask = node.outputs
    return y, mask[0] if mask else None, *node.inputs, *(None,) * (3 - len(node.inputs))


def unclamped(g: Masked, y: Masked) -> Value:
    """grad: the gradient before the clamp; g itself if there is no mask."""
    if not isinstance(g, tuple) or not isinstance(y, tuple):
        assert isinstance(g, Value)
        return g
    return mask_grad(g[0], y[1], name=f"{y[0].name}.grad.masked")


mask_grad = op(
    "mask_grad",
    "y = g where the mask's bit is one, else 0",
    cases=[
        Case("image", (f32(1, 2, 3, 5), Type("u8", (6, 1)))),
        Case("wide", (f32(2, 19), Type("u8", (2, 3)))),
        Case("whole bytes", (f32(3, 16), Type("u8", (3, 2)))),
        Case("scalar", (f32(), Type("u8", (1, 1)))),
    ],
)
mask_grad.may(in_place=True)


@mask_grad.infer
def _(g: Type, mask: Type) -> Type:
    if mask != mask_type(g):
        raise GraphError(f"{mask} is not a mask of {g}")
    return g


@mask_grad.eval
def _(g: Array, mask: Array) -> Array:
    rows = g.reshape(mask.shape[0], -1)
    bits = np.unpackbits(mask, axis=1, count=rows.shape[1], bitorder="little")
    return np.where(bits, rows, 0).reshape(g.shape)


@mask_grad.emit
def _(y: Value, g: Value, mask: Value) -> Call:
    return Call("mask_grad_f32", y, g, mask, mask.shape[0], channels_of(g.type))


def straight_through(g: Masked, y: Masked, x: Value) -> Grads:
    """grad of a change of scale: the same reals, except those that were clamped."""
    return (unclamped(g, y),)


def mask_cases(cases: list[Case]) -> list[Case]:
    """The same calls with a mask."""
    return [Case(f"{c.name}, mask", c.inputs, {**c.attrs, "mask": True}, c.out) for c in cases]


def with_masks(cases: list[Case]) -> list[Case]:
    """Every call, without and with a mask."""
    return cases + mask_cases(cases)
