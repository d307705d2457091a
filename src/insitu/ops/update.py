"""Updates: what an optimizer does to a parameter, as ordinary ops that work in place on lasting values.

Rates, decay and clips are in real units whatever the arithmetic: an s8 weight w stands for scale * w, and a
step of the real parameter moves the integer by step / scale. With `qas=False` (quantisation-aware scaling
off) the step is taken in integer units instead, as a framework unaware of the scales would.

Every update is skipped, and counted, when its gradient is not finite; a gradient whose norm exceeds `clip`
is scaled down to it. `count` holds [skipped, clipped, saturated].
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, f32, op, s8
from insitu.graph.call import Call, Struct, Table
from insitu.graph.types import s32

COUNTERS = ("skipped", "clipped", "saturated")
FRACTION = 256  # one step of an s8 weight in units of its residual byte


def factor_of(grad: np.ndarray, clip: float) -> tuple[float, int, int]:
    """(what to multiply the gradient with, skipped, clipped). Squares are added in eight lanes, as the C does."""
    flat = grad.reshape(-1)
    squares = np.zeros(-(-flat.size // 8) * 8, flat.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        squares[: flat.size] = flat * flat
        lane = np.add.accumulate(squares.reshape(-1, 8), axis=0, dtype=flat.dtype)[-1]
        total = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]))
    if not np.isfinite(total):
        return 0.0, 1, 0
    norm = np.sqrt(total)
    return (float(flat.dtype.type(clip) / norm), 0, 1) if clip and norm > clip else (1.0, 0, 0)


def counted(count, skipped=0, clipped=0, saturated=0) -> np.ndarray:
    return (count + np.array([skipped, clipped, saturated])).astype(np.int32)


def _same(w: Type, dw: Type) -> None:
    if w.shape != dw.shape:
        raise GraphError(f"a gradient {dw} for a parameter {w}")


def scalar(x: float) -> np.ndarray:
    return np.array(x, np.float32)


def zeros() -> np.ndarray:
    return np.zeros(3, np.int32)


@op
class sgd:
    """w' = w - rate (factor dw + decay w), factor from `clip`; gives w and the counters"""

    overwrites = True
    cases = [
        Case("plain", (f32(3, 5), f32(3, 5), scalar(0.1), zeros())),
        Case("decay, clip", (f32(37), f32(37), scalar(0.05), zeros()), {"decay": 0.01, "clip": 0.5}),
        Case("not finite", (f32(4), np.array([1, np.inf, 2, 3], np.float32), scalar(0.05), zeros())),
    ]

    def infer(w, dw, rate, count, *, decay=0.0, clip=0.0):
        _same(w, dw)
        return w, count

    def eval(w, dw, rate, count, *, decay, clip):
        factor, skipped, clipped = factor_of(dw, clip)
        if skipped:
            return w, counted(count, 1)
        return w - rate * (factor * dw + decay * w), counted(count, 0, clipped)

    def emit(w_new, count_new, w, dw, rate, count, *, decay, clip):
        return Call("sgd_f32", w_new, count_new, dw, rate, decay, clip, w.type.size)

    def in_place(w_new, count_new, w, dw, rate, count):
        return 0, 3


@op
class sgd_momentum:
    """m' = momentum m + factor dw + decay w; w' = w - rate m' (or, with nesterov, w - rate (dw.. + momentum m'))"""

    overwrites = True
    cases = [
        Case("plain", (f32(3, 5), f32(3, 5), f32(3, 5), scalar(0.1), zeros())),
        Case("decay, nesterov", (f32(37), f32(37), f32(37), scalar(0.1), zeros()), {"decay": 0.01, "nesterov": True}),
    ]

    def infer(w, m, dw, rate, count, *, momentum=0.9, decay=0.0, clip=0.0, nesterov=False):
        _same(w, dw)
        _same(w, m)
        return w, m, count

    def eval(w, m, dw, rate, count, *, momentum, decay, clip, nesterov):
        factor, skipped, clipped = factor_of(dw, clip)
        if skipped:
            return w, m, counted(count, 1)
        d = factor * dw + decay * w
        m = momentum * m + d
        return w - rate * (d + momentum * m if nesterov else m), m, counted(count, 0, clipped)

    def emit(w_new, m_new, count_new, w, m, dw, rate, count, *, momentum, decay, clip, nesterov):
        n = w.type.size
        return Call(
            "sgd_momentum_f32", w_new, m_new, count_new, dw, rate, momentum, decay, clip, int(nesterov), n
        )  # fmt: skip

    def in_place(w_new, m_new, count_new, w, m, dw, rate, count):
        return 0, 1, 4


@op
class adam:
    """m' = b1 m + (1-b1) d, v' = b2 v + (1-b2) d^2, w' = w - rate (m'/(1-b1^t) / (sqrt(v'/(1-b2^t)) + eps) + decay w)

    d = factor dw; decay is decoupled (AdamW). `bias` holds 1 - b1^t and 1 - b2^t: kept as such, because 1 - 0.999 in
    single precision would be off by 1e-5.
    """

    overwrites = True
    cases = [
        Case("first", (f32(3, 5), np.zeros((3, 5), np.float32), np.zeros((3, 5), np.float32), np.zeros(2, np.float32),
                       f32(3, 5), scalar(0.1), zeros())),
        Case("tenth", (f32(37), f32(37), np.full(37, 0.3, np.float32), np.array([1 - 0.9**9, 1 - 0.999**9], np.float32),
                       f32(37), scalar(0.01), zeros()), {"decay": 0.01}),
    ]  # fmt: skip

    def infer(w, m, v, bias, dw, rate, count, *, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.0, clip=0.0):
        _same(w, dw)
        if bias.shape != (2,):
            raise GraphError(f"adam keeps 1 - beta1^t and 1 - beta2^t in f32[2], not {bias}")
        return w, m, v, bias, count

    def eval(w, m, v, bias, dw, rate, count, *, beta1, beta2, epsilon, decay, clip):
        factor, skipped, clipped = factor_of(dw, clip)
        if skipped:
            return w, m, v, bias, counted(count, 1)
        d = factor * dw
        betas = np.array([beta1, beta2])
        bias = bias * betas + (1 - betas)
        m, v = beta1 * m + (1 - beta1) * d, beta2 * v + (1 - beta2) * d * d
        step = (m / bias[0]) / (np.sqrt(v / bias[1]) + epsilon)
        return w - rate * (step + decay * w), m, v, bias, counted(count, 0, clipped)

    def emit(w_new, m_new, v_new, p_new, count_new, w, m, v, bias, dw, rate, count, *, beta1, beta2, epsilon,
             decay, clip):  # fmt: skip
        options = Struct("adam_options", beta1=beta1, beta2=beta2, rest1=1 - beta1, rest2=1 - beta2, epsilon=epsilon,
                         decay=decay, clip=clip)  # fmt: skip
        return Call("adam_f32", w_new, m_new, v_new, p_new, count_new, dw, rate, options, w.type.size)

    def in_place(w_new, m_new, v_new, p_new, count_new, w, m, v, bias, dw, rate, count):
        return 0, 1, 2, 3, 6


def per_channel(w: Type, qas: bool) -> np.ndarray:
    """What a real step is multiplied with to move the integer, one number a channel of the weight's axis."""
    assert w.quant is not None
    scale = np.array(w.quant.scale, np.float64)
    return (1.0 / scale if qas else scale).astype(np.float32)


def spread(values: np.ndarray, w: Type) -> np.ndarray:
    """Per-channel numbers shaped to broadcast against the weight."""
    axis = w.quant.axis if w.quant else None
    return values if axis is None else values.reshape([-1 if d == axis else 1 for d in range(w.rank)])


def axis_sizes(w: Type) -> tuple[int, int]:
    """(channels, inner): element i belongs to channel i // inner % channels."""
    axis = w.quant.axis if w.quant else None
    return (1, w.size) if axis is None else (w.shape[axis], int(np.prod(w.shape[axis + 1 :])))


@op
class sgd_residual_s8:
    """(w, r)' = (w, r) - rate factor dw / scale, with r the fraction of w in 1/256: 16-bit fixed point, nearest

    Saturates at +-127, counted.
    """

    overwrites = True
    cases = [
        Case("per channel", (s8(3, 1, 1, 5, s=(0.01, 0.02, 0.5), axis=0), s8(3, 1, 1, 5), f32(3, 1, 1, 5), scalar(0.01),
                             zeros())),
        Case("depthwise", (s8(3, 3, 5, s=np.linspace(0.01, 0.2, 5), axis=2), s8(3, 3, 5), f32(3, 3, 5), scalar(0.1),
                           zeros()), {"clip": 1.0}),
        Case("not finite", (s8(2, s=0.1), s8(2), np.array([np.nan, 1], np.float32), scalar(0.1), zeros())),
        Case("no scaling", (s8(4, 7, s=0.1), s8(4, 7), f32(4, 7), scalar(3.0), zeros()), {"qas": False}),
    ]  # fmt: skip

    def infer(w, r, dw, rate, count, *, clip=0.0, qas=True):
        _same(w, dw)
        _same(w, r)
        return w, r, count

    def eval(w, r, dw, rate, count, *, clip, qas, node):
        factor, skipped, clipped = factor_of(dw.astype(np.float32), clip)
        if skipped:
            return w, r, counted(count, 1)
        type = node.inputs[0].type
        step = np.float32(rate) * np.float32(factor) * dw.astype(np.float32) * spread(per_channel(type, qas), type)
        return _fixed_step(w, r, step, count, clipped)

    def emit(w_new, r_new, count_new, w, r, dw, rate, count, *, clip, qas):
        return Call("sgd_residual_s8", w_new, r_new, count_new, dw, rate, clip, Table(per_channel(w.type, qas)),
                    *axis_sizes(w.type), w.type.size)  # fmt: skip

    def in_place(w_new, r_new, count_new, w, r, dw, rate, count):
        return 0, 1, 4


def _fixed_step(w, r, step, count, clipped):
    """Move the 16-bit number w + r/256 by -step, to the nearest 1/256; r lies in -128..127."""
    limit = 127 * FRACTION
    moved = np.clip(np.floor(step.astype(np.float32) * np.float32(FRACTION) + np.float32(0.5)), -65536.0, 65536.0)
    now = w.astype(np.int64) * FRACTION + r - moved.astype(np.int64)
    saturated = int((np.abs(now) > limit).sum())
    now = np.clip(now, -limit, limit)
    whole = (now + FRACTION // 2) >> 8
    return whole.astype(np.int8), (now - (whole << 8)).astype(np.int8), counted(count, 0, clipped, saturated)


@op
class sgd_nearest_s8:
    """w' = w - round(rate factor dw / scale): steps below half of one are lost. Saturates at +-127, counted"""

    overwrites = True
    cases = [
        Case("per channel", (s8(3, 1, 1, 5, s=(0.01, 0.02, 0.5), axis=0), f32(3, 1, 1, 5), scalar(0.01), zeros())),
        Case("clip", (s8(4, 7, s=0.1), f32(4, 7), scalar(3.0), zeros()), {"clip": 2.0}),
    ]

    def infer(w, dw, rate, count, *, clip=0.0, qas=True):
        _same(w, dw)
        return w, count

    def eval(w, dw, rate, count, *, clip, qas, node):
        factor, skipped, clipped = factor_of(dw.astype(np.float32), clip)
        if skipped:
            return w, counted(count, 1)
        type = node.inputs[0].type
        step = np.float32(rate) * np.float32(factor) * dw.astype(np.float32) * spread(per_channel(type, qas), type)
        moved = np.clip(np.floor(step.astype(np.float32) + np.float32(0.5)), -65536.0, 65536.0)
        now = w.astype(np.int64) - moved.astype(np.int64)
        saturated = int((np.abs(now) > 127).sum())
        return np.clip(now, -127, 127).astype(np.int8), counted(count, 0, clipped, saturated)

    def emit(w_new, count_new, w, dw, rate, count, *, clip, qas):
        return Call("sgd_nearest_s8", w_new, count_new, dw, rate, clip, Table(per_channel(w.type, qas)),
                    *axis_sizes(w.type), w.type.size)  # fmt: skip

    def in_place(w_new, count_new, w, dw, rate, count):
        return 0, 3


@op
class sgd_bias_s32:
    """b' = b - round(rate factor db / scale): a bias integer is fine enough to be stepped in place"""

    overwrites = True
    cases = [
        Case("per channel", (s32(3, s=(1e-3, 2e-3, 5e-2), axis=0), f32(3), scalar(0.01), zeros())),
        Case("clip", (s32(37, s=1e-4), f32(37), scalar(3.0), zeros()), {"clip": 2.0}),
    ]

    def infer(b, db, rate, count, *, clip=0.0, qas=True):
        _same(b, db)
        return b, count

    def eval(b, db, rate, count, *, clip, qas, node):
        factor, skipped, clipped = factor_of(db.astype(np.float32), clip)
        if skipped:
            return b, counted(count, 1)
        step = np.float32(rate) * np.float32(factor) * db.astype(np.float32) * per_channel(node.inputs[0].type, qas)
        limit = np.float32(2**30)
        moved = np.clip(np.floor(step.astype(np.float32) + np.float32(0.5)), -limit, limit).astype(np.int64)
        info = np.iinfo(np.int32)
        return np.clip(b.astype(np.int64) - moved, info.min, info.max).astype(np.int32), counted(count, 0, clipped)

    def emit(b_new, count_new, b, db, rate, count, *, clip, qas):
        return Call("sgd_bias_s32", b_new, count_new, db, rate, clip, Table(per_channel(b.type, qas)),
                    *axis_sizes(b.type), b.type.size)  # fmt: skip

    def in_place(b_new, count_new, b, db, rate, count):
        return 0, 3


@op
class accumulate:
    """total' = total + dw"""

    overwrites = True
    cases = [Case("odd", (f32(3, 5), f32(3, 5)))]

    def infer(total, dw):
        _same(total, dw)
        return total

    def eval(total, dw):
        return total + dw

    def emit(new, total, dw):
        return Call("accumulate_f32", new, dw, total.type.size)

    def in_place(new, total, dw):
        return 0


@op
class take_sum:
    """mean = share total; total' = 0"""

    overwrites = True
    cases = [Case("odd", (f32(3, 5), scalar(0.25)))]

    def infer(total, share):
        return total, total

    def eval(total, share):
        return share * total, np.zeros_like(total)

    def emit(mean, new, total, share):
        return Call("take_sum_f32", mean, new, share, total.type.size)

    def in_place(mean, new, total, share):
        return None, 0
