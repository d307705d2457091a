"""Updates of integer parameters, in place: int8 weights in five arithmetics, int32 biases.

Rates, decay and clips are in real units whatever the arithmetic: an s8 weight w represents scale * w, and a step of the
real parameter moves the integer by step / scale. With `qas=False` (quantisation-aware scaling off) the gradient's step
is in integer units instead, as in a framework that ignores the scales.

    nearest      only the weight: steps below one half are lost
    stochastic   only the weight: the mean of many steps is right
    residual     a byte of fraction beside the weight
    residual4    half a byte of fraction, and the rest at random
    master       a float copy of the weight, in the weight's own unit

All saturate at +-127, which is counted. update.py says when updates are skipped or clipped. The meaning is exact: every
float operation is done in float32, in the order of the C.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Scales, Struct, Table
from insitu.graph.loops import Count, TiledUpdate
from insitu.graph.types import s32
from insitu.ops._random import random_u32
from insitu.ops._types import Array
from insitu.ops.update import counted, factor_of, same_shape, scalar, zeros

MOST = 127  # a weight saturates at +-127
FAR = 65536.0  # no step is longer: far enough from one end to the other


def per_channel(w: Type, qas: bool) -> np.ndarray:
    """The factor from a real step to a step of the integer, one number per channel of the weight's axis."""
    if w.quant is None:
        raise GraphError(f"an update of {w} needs its scale")
    scale = np.array(w.quant.scale, np.float64)
    return np.minimum(1.0 / scale if qas else scale, np.finfo(np.float32).max).astype(np.float32)


def spread(values: np.ndarray, w: Type) -> np.ndarray:
    """Per-channel numbers shaped to broadcast against the weight."""
    axis = w.quant.axis if w.quant else None
    return values if axis is None else values.reshape([-1 if d == axis else 1 for d in range(w.rank)])


def options(w: Type, clip: float, qas: bool, decay: float = 0.0, stream: int = 0, target: str = "host") -> Struct:
    """The C struct: element i belongs to channel i // inner % channels. On small machines the table may be computed
    from others: that takes little time compared with a step, and flash is short."""
    axis = w.quant.axis if w.quant else None
    channels, inner = (1, w.size) if axis is None else (w.shape[axis], int(np.prod(w.shape[axis + 1 :])))
    table = (Scales if target == "mcu" and channels > 1 else Table)(per_channel(w, qas))
    return Struct("integer_update", channel=table, channels=channels, inner=inner, n=w.size,
                  clip=float(clip), decay=float(decay), stream=stream)  # fmt: skip


def step_of(full, dw, rate, factor: float, w: Type, qas: bool, decay: float = 0.0, unit: int = 1) -> np.ndarray:
    """How far the integer moves, in units of 1/unit, as float32; `full` is its position in the same unit."""
    rate = np.float32(rate)
    with np.errstate(over="ignore"):
        step = rate * np.float32(factor) * dw.astype(np.float32) * spread(per_channel(w, qas), w) * np.float32(unit)
        return step + rate * np.float32(decay) * full.astype(np.float32)


def nearest(x: np.ndarray, limit: float) -> np.ndarray:
    """Ties go up; limited to +-limit."""
    with np.errstate(over="ignore"):
        return np.clip(np.floor(x + np.float32(0.5)), -limit, limit).astype(np.int64)


def round_random(x: np.ndarray, limit: float, bits: np.ndarray) -> np.ndarray:
    """x rounded to one of its two neighbours, so that the mean over all bits is x (to 2^-31); limited to +-limit.

    Works on the magnitude, whose fraction is exact.
    """
    size = np.minimum(np.abs(x), np.float32(limit))
    whole = np.floor(size)
    chance = ((size - whole) * np.float32(2**31)).astype(np.int64)
    steps = whole.astype(np.int64) + ((bits.reshape(x.shape) >> np.uint32(1)) < chance)
    return np.where(x < 0, -steps, steps)


def moved(full: np.ndarray, by: np.ndarray, unit: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(weight, its remainder in 1/unit, how many saturated) after the fixed-point number `full` moved."""
    now = full.astype(np.int64) - by
    kept = np.clip(now, -MOST * unit, MOST * unit)
    whole = (kept + unit // 2) // unit
    return whole.astype(np.int8), (kept - whole * unit).astype(np.int8), int((now != kept).sum())


WEIGHTS = (s8(3, 1, 1, 5, s=(0.01, 0.02, 0.5), axis=0), f32(3, 1, 1, 5))  # every kind of run: a channel's elements,
DEPTHWISE = (s8(3, 3, 5, s=(0.01, 0.05, 0.1, 0.15, 0.2), axis=2), f32(3, 3, 5))  # one of each channel,
MIDDLE = (s8(2, 3, 7, s=(0.01, 0.02, 0.5), axis=1), f32(2, 3, 7))  # several of each, several times,
WHOLE = (s8(4, 67, s=0.1), f32(4, 67))  # all of one


def usual(state, *last) -> list[Case]:
    """The cases for every arithmetic: `state(w)` gives the values between weight and gradient."""

    def case(name, types, rate, **attrs):
        w, dw = types
        return Case(name, (w, *state(w), dw, scalar(rate), zeros(), *last), attrs)

    broken = (s8(2, s=0.1), np.array([np.nan, 1], np.float32))
    return [
        case("one channel per row", WEIGHTS, 0.01),
        case("depthwise, clip", DEPTHWISE, 0.1, clip=1.0),
        case("depthwise, long step", DEPTHWISE, 0.1, clip=-0.1),
        case("middle axis, decay", MIDDLE, 0.05, decay=0.3),
        case("no scaling, decay", WHOLE, 3.0, qas=False, decay=0.1),
        case("saturates", WHOLE, 10.0),
        case("beyond all numbers", (s8(3, s=1e-30), f32(3)), 1e30),
        case("not finite", broken, 0.1),
        case("rate of zero", WHOLE, 0.0, clip=0.1, decay=0.1),
        case("infinite rate", WHOLE, np.inf, decay=0.1),
    ]


sgd_nearest_s8 = op(
    "sgd_nearest_s8",
    "w' = w - round(rate (factor dw / scale + decay w)): steps below one half are lost",
    cases=usual(lambda w: ()),
)
sgd_nearest_s8.must(in_place=(0, 3))


@sgd_nearest_s8.infer
def _(
    w: Type, dw: Type, rate: Type, count: Type, *, clip: float = 0.0, qas: bool = True, decay: float = 0.0
) -> tuple[Type, ...]:
    same_shape(w, dw)
    return w, count


@sgd_nearest_s8.eval
def _(
    w: Array, dw: Array, rate: Array, count: Array, *, clip: float, qas: bool, decay: float, node: Node
) -> tuple[Array, ...]:
    factor, skipped, clipped = factor_of(dw.astype(np.float32), rate, clip)
    if not factor:
        return w, counted(count, skipped, clipped)
    step = step_of(w, dw, rate, factor, node.inputs[0].type, qas, decay)
    w, _, saturated = moved(w, nearest(step, FAR), 1)
    return w, counted(count, 0, clipped, saturated)


@sgd_nearest_s8.emit
def _(
    w_new: Value, count_new: Value, w: Value, dw: Value, rate: Value, count: Value, *, clip: float, qas: bool,
    decay: float,
) -> Call:  # fmt: skip
    return Call("sgd_nearest_s8", w_new, count_new, dw, rate, options(w.type, clip, qas, decay))


sgd_stochastic_s8 = op(
    "sgd_stochastic_s8",
    """w' = w - rate (factor dw / scale + decay w), rounded to a neighbour at random so that the mean is right

    The random numbers are hashes of (step, stream, element): a stream is a parameter's own number, and the seed sets
    the start of the counter of steps.
    """,
    cases=usual(lambda w: (), np.array([7], np.int32))
    + [Case("stream", (*WHOLE, scalar(0.01), zeros(), np.array([-3], np.int32)), {"stream": 2**31 - 1})],
)
sgd_stochastic_s8.must(in_place=(0, 3))


@sgd_stochastic_s8.infer
def _(
    w: Type, dw: Type, rate: Type, count: Type, step: Type, *, clip: float = 0.0, qas: bool = True, decay: float = 0.0,
    stream: int = 0,
) -> tuple[Type, ...]:  # fmt: skip
    same_shape(w, dw)
    return w, count


@sgd_stochastic_s8.eval
def _(
    w: Array, dw: Array, rate: Array, count: Array, step: Array, *, clip: float, qas: bool, decay: float, stream: int,
    node: Node,
) -> tuple[Array, ...]:  # fmt: skip
    factor, skipped, clipped = factor_of(dw.astype(np.float32), rate, clip)
    if not factor:
        return w, counted(count, skipped, clipped)
    by = step_of(w, dw, rate, factor, node.inputs[0].type, qas, decay)
    by = round_random(by, FAR, random_u32(int(step[0]), stream, w.size))
    w, _, saturated = moved(w, by, 1)
    return w, counted(count, 0, clipped, saturated)


@sgd_stochastic_s8.emit
def _(
    w_new: Value, count_new: Value, w: Value, dw: Value, rate: Value, count: Value, step: Value, *, clip: float,
    qas: bool, decay: float, stream: int,
) -> Call:  # fmt: skip
    given = options(w.type, clip, qas, decay, stream)
    return Call("sgd_stochastic_s8", w_new, count_new, dw, rate, step, given)


sgd_residual_s8 = op(
    "sgd_residual_s8",
    "w + r/256 moves by -rate (factor dw / scale + decay (w + r/256)), to the nearest 1/256: 16-bit fixed point",
    cases=usual(lambda w: (s8(*w.shape),)),
)
sgd_residual_s8.must(in_place=(0, 1, 4))


@sgd_residual_s8.infer
def _(
    w: Type, r: Type, dw: Type, rate: Type, count: Type, *, clip: float = 0.0, qas: bool = True, decay: float = 0.0
) -> tuple[Type, ...]:
    same_shape(w, dw, r)
    return w, r, count


@sgd_residual_s8.eval
def _(
    w: Array, r: Array, dw: Array, rate: Array, count: Array, *, clip: float, qas: bool, decay: float, node: Node
) -> tuple[Array, ...]:
    factor, skipped, clipped = factor_of(dw.astype(np.float32), rate, clip)
    if not factor:
        return w, r, counted(count, skipped, clipped)
    full = w.astype(np.int32) * 256 + r
    step = step_of(full, dw, rate, factor, node.inputs[0].type, qas, decay, 256)
    w, r, saturated = moved(full, nearest(step, FAR), 256)
    return w, r, counted(count, 0, clipped, saturated)


@sgd_residual_s8.emit
def _(
    w_new: Value, r_new: Value, count_new: Value, w: Value, r: Value, dw: Value, rate: Value, count: Value, *,
    clip: float, qas: bool, decay: float, target: str = "host",
) -> Call:  # fmt: skip
    given = options(w.type, clip, qas, decay, target=target)
    return Call("sgd_residual_s8", w_new, r_new, count_new, dw, rate, given)


def norm_tile(node: Node, norm: Value, grad: tuple[Value, ...]) -> Call:
    n = grad[0].type.size
    return Call("norm_tile_f32", norm, grad[0], Count(n), n)


def norm_factor(node: Node, norm: Value) -> Call:
    return Call("norm_factor_f32", norm, node.outputs[2], node.inputs[3], float(node.attrs["clip"]))


def residual_tile(node: Node, norm: Value, grad: tuple[Value, ...]) -> Call:
    n = grad[0].type.size
    sizes = (Count(n), n, tile_options(node))
    return Call("sgd_residual_tile_s8", *node.outputs, grad[0], node.inputs[3], norm, *sizes)


def tile_options(node: Node) -> Struct:
    given = (node.attrs[name] for name in ("clip", "qas", "decay"))
    return options(node.inputs[0].type, *given, target="mcu")  # tiles are used if memory is short


sgd_residual_s8.may(tiles=TiledUpdate((2,), f32(9), norm_tile, norm_factor, residual_tile))


def unpack4(packed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Residuals -8..7, two per byte, that of the even element in the low half."""
    halves = np.stack([packed & 15, packed >> 4], -1).reshape(-1)[: int(np.prod(shape))]
    return ((halves.astype(np.int32) ^ 8) - 8).reshape(shape)


def pack4(r: np.ndarray) -> np.ndarray:
    halves = np.zeros(-(-r.size // 2) * 2, np.uint8)
    halves[: r.size] = r.reshape(-1).astype(np.uint8) & 15
    return halves[0::2] | halves[1::2] << 4


sgd_residual4_s8 = op(
    "sgd_residual4_s8",
    """w + r/16 moves by -rate (factor dw / scale + decay (w + r/16)), rounded to a neighbouring 1/16 at random

    r is u8[ceil(n/2)]: two residuals -8..7 per byte. The random numbers are those of sgd_stochastic_s8.
    """,
    cases=usual(lambda w: (Type("u8", (-(-w.size // 2),)),), np.array([7], np.int32)),
)
sgd_residual4_s8.must(in_place=(0, 1, 4))


@sgd_residual4_s8.infer
def _(
    w: Type, r: Type, dw: Type, rate: Type, count: Type, step: Type, *, clip: float = 0.0, qas: bool = True,
    decay: float = 0.0, stream: int = 0,
) -> tuple[Type, ...]:  # fmt: skip
    same_shape(w, dw)
    if r.dtype != "u8" or r.shape != (-(-w.size // 2),):
        raise GraphError(f"the residuals of {w} must be u8[{-(-w.size // 2)}], not {r}")
    return w, r, count


@sgd_residual4_s8.eval
def _(
    w: Array, r: Array, dw: Array, rate: Array, count: Array, step: Array, *, clip: float, qas: bool, decay: float,
    stream: int, node: Node,
) -> tuple[Array, ...]:  # fmt: skip
    factor, skipped, clipped = factor_of(dw.astype(np.float32), rate, clip)
    if not factor:
        return w, r, counted(count, skipped, clipped)
    full = w.astype(np.int32) * 16 + unpack4(r, w.shape)
    by = step_of(full, dw, rate, factor, node.inputs[0].type, qas, decay, 16)
    by = round_random(by, FAR, random_u32(int(step[0]), stream, w.size))
    w, rest, saturated = moved(full, by, 16)
    return w, pack4(rest), counted(count, 0, clipped, saturated)


@sgd_residual4_s8.emit
def _(
    w_new: Value, r_new: Value, count_new: Value, w: Value, r: Value, dw: Value, rate: Value, count: Value, step: Value,
    *, clip: float, qas: bool, decay: float, stream: int,
) -> Call:  # fmt: skip
    given = options(w.type, clip, qas, decay, stream)
    return Call("sgd_residual4_s8", w_new, r_new, count_new, dw, rate, step, given)


sgd_master_s8 = op(
    "sgd_master_s8",
    "m' = m - rate (factor dw / scale + decay m); w' = round(m'), where m is a float copy of w in the same unit",
    cases=usual(lambda w: (f32(*w.shape),)),
)
sgd_master_s8.must(in_place=(0, 1, 4))


@sgd_master_s8.infer
def _(
    w: Type, m: Type, dw: Type, rate: Type, count: Type, *, clip: float = 0.0, qas: bool = True, decay: float = 0.0
) -> tuple[Type, ...]:
    same_shape(w, dw, m)
    return w, m, count


@sgd_master_s8.eval
def _(
    w: Array, m: Array, dw: Array, rate: Array, count: Array, *, clip: float, qas: bool, decay: float, node: Node
) -> tuple[Array, ...]:
    factor, skipped, clipped = factor_of(dw.astype(np.float32), rate, clip)
    if not factor:
        return w, m, counted(count, skipped, clipped)
    now = m.astype(np.float32) - step_of(m, dw, rate, factor, node.inputs[0].type, qas, decay)
    kept = np.clip(now, np.float32(-MOST), np.float32(MOST))
    return nearest(kept, MOST).astype(np.int8), kept, counted(count, 0, clipped, int((now != kept).sum()))


@sgd_master_s8.emit
def _(
    w_new: Value, m_new: Value, count_new: Value, w: Value, m: Value, dw: Value, rate: Value, count: Value, *,
    clip: float, qas: bool, decay: float,
) -> Call:  # fmt: skip
    return Call("sgd_master_s8", w_new, m_new, count_new, dw, rate, options(w.type, clip, qas, decay))


sgd_bias_s32 = op(
    "sgd_bias_s32",
    "b' = b - round(rate factor db / scale): integer biases are fine enough to be updated in place",
    cases=[
        Case("per channel", (s32(3, s=(1e-3, 2e-3, 5e-2), axis=0), f32(3), scalar(0.01), zeros())),
        Case("clip", (s32(37, s=1e-4), f32(37), scalar(3.0), zeros()), {"clip": 2.0}),
        Case("rate of zero", (s32(37, s=1e-4), f32(37), scalar(0.0), zeros()), {"clip": 2.0}),
    ],
)
sgd_bias_s32.must(in_place=(0, 3))


@sgd_bias_s32.infer
def _(b: Type, db: Type, rate: Type, count: Type, *, clip: float = 0.0, qas: bool = True) -> tuple[Type, ...]:
    same_shape(b, db)
    return b, count


@sgd_bias_s32.eval
def _(b: Array, db: Array, rate: Array, count: Array, *, clip: float, qas: bool, node: Node) -> tuple[Array, ...]:
    factor, skipped, clipped = factor_of(db.astype(np.float32), rate, clip)
    if not factor:
        return b, counted(count, skipped, clipped)
    now = b.astype(np.int64) - nearest(step_of(b, db, rate, factor, node.inputs[0].type, qas), 2.0**30)
    kept = np.clip(now, -(2**31), 2**31 - 1)
    return kept.astype(np.int32), counted(count, 0, clipped, int((now != kept).sum()))


@sgd_bias_s32.emit
def _(
    b_new: Value, count_new: Value, b: Value, db: Value, rate: Value, count: Value, *, clip: float, qas: bool,
    target: str = "host",
) -> Call:  # fmt: skip
    return Call("sgd_bias_s32", b_new, count_new, db, rate, options(b.type, clip, qas, target=target))
