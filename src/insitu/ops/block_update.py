"""Updates of integer parameters by integer gradients (s32b), in place: weights with a byte of fraction, biases.

Twins of sgd_residual_s8 and sgd_bias_s32 (update_int.py) that use only a few floats per tensor and one product per
channel. The factor of a channel's gradient is split into 24 bits and an exponent, and every element moves by a 64-bit
product, shifted and rounded half up. The other arithmetics read an integer gradient as f32.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, quant, s8
from insitu.graph.call import Call
from insitu.graph.loops import Count, TiledUpdate
from insitu.graph.types import GROUP, s32
from insitu.ops._block import MOST as ENDLESS
from insitu.ops._block import bit_length, exponents
from insitu.ops._types import Array
from insitu.ops.block import channel_runs, float_parts, power, spread_groups
from insitu.ops.update import counted, limited, same_shape, scalar, zeros
from insitu.ops.update_int import FAR, moved, options, per_channel, spread, tile_options

BIAS_FAR = 1 << 30


def group_norm(m: np.ndarray, e: int, scale: float) -> np.float32:
    """The norm of scale * m * 2^e: squares of the upper 15 bits, added as integers; a 24-bit square root."""
    size = np.abs(m.astype(np.int64))
    d = max(0, bit_length(size.max(initial=0)) - 15)
    total = int(((size >> d) ** 2).sum())
    z = max(0, bit_length(total) - 24)
    z += z & 1
    with np.errstate(over="ignore"):
        return np.sqrt(np.float32(total >> z)) * power(z // 2 + d + e) * np.float32(scale)


def squares_of(m: np.ndarray, e: np.ndarray, t: Type) -> np.float32:
    """The square of the norm: those of the groups of channels, added one after the other, so that tiles of them can be
    added one at a time; infinite if a group's is."""
    total, by_channel = np.float32(0), np.moveaxis(m, t.channel_axis, 0)
    with np.errstate(over="ignore"):
        for i, exponent in enumerate(e.tolist()):
            norm = group_norm(by_channel[i * GROUP : (i + 1) * GROUP], exponent, scale_of(t))
            total = total + (np.float32(np.inf) if exponent == ENDLESS else norm * norm)
    return total


def factor_of(m, e, t: Type, rate, clip: float) -> tuple[float, int, int]:
    """(factor of the gradient, skipped, clipped); a factor of 0 means that nothing changes."""
    if rate == 0 or not np.isfinite(rate):
        return 0.0, 0, 0
    squares = squares_of(m, e, t)
    if not np.isfinite(squares):
        return 0.0, 1, 0
    return limited(np.sqrt(squares), np.float32(rate), np.float32(clip))


def times(x: np.ndarray, by: np.ndarray, e, limit: int) -> np.ndarray:
    """round(x * by * 2^e), ties up, limited to +-limit; x are 32-bit integers, by is float32."""
    whole, exponent, finite = float_parts(np.asarray(by, np.float32))
    product, d = x.astype(np.int64) * whole, -(exponent + e)
    right = np.clip(d, 1, 62)
    small = ((product >> (right - 1)) + 1) >> 1
    large = np.clip(product, -limit, limit) << np.clip(-d, 0, 31)
    return np.clip(np.where(finite, np.where(d > 0, small, large), np.sign(product) * limit), -limit, limit)


def step_of(m, e, t: Type, rate, factor, w: Type, qas: bool, unit_bits: int, limit: int) -> np.ndarray:
    """How far each integer moves, in units of 1/2^unit_bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        by = np.float32(rate) * np.float32(factor) * np.float32(scale_of(t)) * spread(per_channel(w, qas), w)
    return times(m, np.broadcast_to(by, m.shape), spread_groups(e.astype(np.int64), t) + unit_bits, limit)


def scale_of(dw: Type) -> float:
    return dw.scale if dw.quant else 1.0


def want_sums(w: Type, dw: Type, e: Type) -> None:
    same_shape(w, dw)
    if dw.dtype != "s32b" or e != exponents(dw):
        raise GraphError(f"{dw} and {e} are not an integer gradient")
    if w.quant and w.quant.axis not in (None, dw.channel_axis):
        raise GraphError(f"the scales of {w} are not along axis {dw.channel_axis}, the channels of {dw}")


def sums(shape, scale: float | None = 0.03) -> Type:
    return Type("s32b", tuple(shape), quant(scale) if scale else None)


def at(*e: int) -> np.ndarray:
    return np.array(e, np.int8)


WEIGHTS = s8(3, 1, 1, 5, s=(0.01, 0.02, 0.5), axis=0)
DEPTHWISE = s8(3, 3, 5, s=(0.01, 0.05, 0.1, 0.15, 0.2), axis=2)
WHOLE = s8(4, 67, s=0.1)


def usual(name: str, w: Type, e: int, rate: float, **attrs) -> Case:
    dw = sums(w.shape)
    each = at(*(e - 3 * (i % 2) for i in range(dw.blocks)))
    return Case(name, (w, s8(*w.shape), dw, each, scalar(rate), zeros()), attrs)


sgd_residual_block_s8 = op(
    "sgd_residual_block_s8",
    "w + r/256 moves by -rate (factor scale dw 2^e / s_w + decay (w + r/256)), each to the nearest 1/256",
    kind="int8",
    cases=[
        usual("one channel per row", WEIGHTS, -36, 0.01),
        usual("depthwise, clip", DEPTHWISE, -30, 0.1, clip=1.0),
        usual("decay", WEIGHTS, -36, 0.05, decay=0.3),
        usual("groups", s8(37, 3, s=np.linspace(0.01, 0.2, 37), axis=0), -34, 0.05, clip=1.0),
        usual("groups, long step", s8(37, 3, s=np.linspace(0.01, 0.2, 37), axis=0), -34, 0.05, clip=-0.01),
        usual("groups, one scale", s8(37, 3, s=0.1), -30, 0.05),
        usual("groups, depthwise", s8(1, 3, 37, s=np.linspace(0.01, 0.2, 37), axis=2), -34, 0.05, clip=1.0),
        usual("no scaling", WHOLE, -29, 3.0, qas=False),
        usual("saturates", WHOLE, -20, 10.0),
        usual("hardly moves", s8(24, 64, s=np.linspace(0.01, 0.2, 24), axis=0), -42, 0.05),
        usual("dead channels", s8(24, 9, s=np.geomspace(1e-9, 0.1, 24), axis=0), -36, 0.05),
        usual("beyond all numbers", s8(3, s=1e-30), 90, 1e30, decay=1e30),
        usual("too small to move", WHOLE, -110, 1e-20),
        usual("not finite", WHOLE, 127, 0.1),
        usual("rate of zero", WHOLE, -30, 0.0, clip=0.1, decay=0.1),
    ],
)
sgd_residual_block_s8.must(in_place=(0, 1, 5))


@sgd_residual_block_s8.infer
def _(
    w: Type, r: Type, dw: Type, e: Type, rate: Type, count: Type, *, clip: float = 0.0, qas: bool = True,
    decay: float = 0.0,
) -> tuple[Type, ...]:  # fmt: skip
    want_sums(w, dw, e)
    same_shape(w, r)
    return w, r, count


@sgd_residual_block_s8.eval
def _(
    w: Array, r: Array, dw: Array, e: Array, rate: Array, count: Array, *, clip: float, qas: bool, decay: float,
    node: Node,
) -> tuple[Array, ...]:  # fmt: skip
    t = node.inputs[2].type
    factor, skipped, clipped = factor_of(dw, e, t, rate, clip)
    if not factor:
        return w, r, counted(count, skipped, clipped)
    full = w.astype(np.int64) * 256 + r
    by = step_of(dw, e, t, rate, factor, node.inputs[0].type, qas, 8, int(FAR))
    with np.errstate(over="ignore"):
        by = by + times(full, np.full(full.shape, np.float32(rate) * np.float32(decay)), 0, int(FAR))
    w, r, saturated = moved(full, by, 256)
    return w, r, counted(count, 0, clipped, saturated)


@sgd_residual_block_s8.emit
def _(
    w_new: Value, r_new: Value, count_new: Value, w: Value, r: Value, dw: Value, e: Value, rate: Value, count: Value, *,
    clip: float, qas: bool, decay: float, target: str = "host",
) -> Call:  # fmt: skip
    given = options(w.type, clip, qas, decay, target=target)
    runs = channel_runs(dw.type)
    return Call("sgd_residual_block_s8", w_new, r_new, count_new, dw, e, rate, scale_of(dw.type), *runs, given)


def norm_tile(node: Node, norm: Value, grad: tuple[Value, ...]) -> Call:
    n, (_, inner) = grad[0].type.size, channel_runs(grad[0].type)
    return Call("norm_tile_s32b", norm, *grad, scale_of(grad[0].type), inner, Count(n), n)


def norm_factor(node: Node, norm: Value) -> Call:
    return Call("norm_factor_s32b", norm, node.outputs[2], node.inputs[4], float(node.attrs["clip"]))


def residual_tile(node: Node, norm: Value, grad: tuple[Value, ...]) -> Call:
    n, (_, inner) = grad[0].type.size, channel_runs(grad[0].type)
    sizes = (scale_of(grad[0].type), inner, Count(n), n, tile_options(node))
    return Call("sgd_residual_block_tile_s8", *node.outputs, *grad, node.inputs[4], norm, *sizes)


sgd_residual_block_s8.may(tiles=TiledUpdate((2, 3), f32(2), norm_tile, norm_factor, residual_tile))


sgd_bias_block_s32 = op(
    "sgd_bias_block_s32",
    "b' = b - round(rate factor scale db 2^e / s_b)",
    kind="int8",
    cases=[
        Case("per channel", (s32(3, s=(1e-3, 2e-3, 5e-2), axis=0), sums((3,), None), at(-30), scalar(0.01), zeros())),
        Case("clip", (s32(37, s=1e-4), sums((37,), None), at(-20, -22, -19), scalar(3.0), zeros()), {"clip": 2.0}),
        Case("far", (s32(5, s=1e-9), sums((5,)), at(20), scalar(3.0), zeros())),
    ],
)
sgd_bias_block_s32.must(in_place=(0, 4))


@sgd_bias_block_s32.infer
def _(b: Type, db: Type, e: Type, rate: Type, count: Type, *, clip: float = 0.0, qas: bool = True) -> tuple[Type, ...]:
    want_sums(b, db, e)
    return b, count


@sgd_bias_block_s32.eval
def _(
    b: Array, db: Array, e: Array, rate: Array, count: Array, *, clip: float, qas: bool, node: Node
) -> tuple[Array, ...]:
    t = node.inputs[1].type
    factor, skipped, clipped = factor_of(db, e, t, rate, clip)
    if not factor:
        return b, counted(count, skipped, clipped)
    now = b.astype(np.int64) - step_of(db, e, t, rate, factor, node.inputs[0].type, qas, 0, BIAS_FAR)
    kept = np.clip(now, -(2**31), 2**31 - 1)
    return kept.astype(np.int32), counted(count, 0, clipped, int((now != kept).sum()))


@sgd_bias_block_s32.emit
def _(
    b_new: Value, count_new: Value, b: Value, db: Value, e: Value, rate: Value, count: Value, *, clip: float, qas: bool,
    target: str = "host",
) -> Call:  # fmt: skip
    given = options(b.type, clip, qas, target=target)
    runs = channel_runs(db.type)
    return Call("sgd_bias_block_s32", b_new, count_new, db, e, rate, scale_of(db.type), *runs, given)
