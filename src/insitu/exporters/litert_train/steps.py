"""Losses, updates and dropout: the rows of table.py that only a training step has.

They follow ops/loss.py, ops/update.py and ops/dropout.py in everything: clipping, skipped steps, the counters, and the
very same random numbers.
"""

from __future__ import annotations

import numpy as np

from insitu.exporters.litert_train.elements import FLOAT_MAX
from insitu.exporters.litert_train.moves import one_hot
from insitu.exporters.litert_train.norms import log_softmax, softmax
from insitu.exporters.litert_train.table import means
from insitu.exporters.litert_train.tensor import (
    Tensor,
    absolute,
    average,
    call,
    cast,
    exp,
    join,
    log,
    logistic,
    maximum,
    reshape,
    sqrt,
    square,
    total,
    where,
)
from insitu.ops import dropout, loss, update
from insitu.ops._random import MIX, WEYL

# losses -----------------------------------------------------------------------------------------


@means(loss.softmax_cross_entropy)
def _(x: Tensor, labels: Tensor, *, smoothing: float) -> Tensor:
    """A label that is no class makes the loss NaN: the step is skipped, and counted."""
    chosen = one_hot(reshape(labels, (x.shape[0],)), x.shape[1])
    mean = total(log_softmax(x) * smoothed(chosen, smoothing)) * (-1 / x.shape[0])
    return where(total(chosen) >= float(x.shape[0]), mean, float("nan"))


@means(loss.softmax_cross_entropy_dx)
def _(g: Tensor, x: Tensor, labels: Tensor, *, smoothing: float) -> Tensor:
    chosen = one_hot(reshape(labels, (x.shape[0],)), x.shape[1])
    return (softmax(x) - smoothed(chosen, smoothing)) * (g * (1 / x.shape[0]))


def smoothed(chosen: Tensor, smoothing: float) -> Tensor:
    return chosen * (1 - smoothing) + smoothing / chosen.shape[1] if smoothing else chosen


@means(loss.soft_cross_entropy)
def _(x: Tensor, target: Tensor) -> Tensor:
    return total(target * log_softmax(x)) * (-1 / x.shape[0])


@means(loss.soft_cross_entropy_dx)
def _(g: Tensor, x: Tensor, target: Tensor) -> Tensor:
    return (softmax(x) * total(target, (1,), keep=True) - target) * (g * (1 / x.shape[0]))


@means(loss.binary_cross_entropy)
def _(x: Tensor, target: Tensor) -> Tensor:
    return average(log(exp(-absolute(x)) + 1.0) + maximum(x, 0.0) - x * target)


@means(loss.binary_cross_entropy_dx)
def _(g: Tensor, x: Tensor, target: Tensor) -> Tensor:
    return (logistic(x) - target) * (g * (1 / x.size))


@means(loss.mean_squared_error)
def _(x: Tensor, target: Tensor) -> Tensor:
    return average(square(x - target))


@means(loss.mean_squared_error_dx)
def _(g: Tensor, x: Tensor, target: Tensor) -> Tensor:
    return (x - target) * (g * (2 / x.size))


# updates ----------------------------------------------------------------------------------------


def finite(x: Tensor) -> Tensor:
    """Neither NaN nor infinite."""
    return absolute(x) <= FLOAT_MAX


def usable(rate: Tensor) -> Tensor:
    return finite(rate) & (absolute(rate) > 0)


def factor_of(grad: Tensor, rate: Tensor, count: Tensor, clip: float) -> tuple[Tensor, Tensor, Tensor]:
    """Does anything change, the factor of the gradient, and the counters."""
    squares = total(square(grad))
    sound = usable(rate) & finite(squares)
    skipped = usable(rate) & ~finite(squares)
    if not clip:
        return sound, grad.const(1.0), counted(count, skipped, None)
    length = sqrt(squares) if clip > 0 else sqrt(squares) * rate
    clipped = sound & (length > abs(clip))
    return sound, where(clipped, abs(clip) / length, 1.0), counted(count, skipped, clipped)


def counted(count: Tensor, skipped: Tensor, clipped: Tensor | None = None) -> Tensor:
    """[skipped, clipped, saturated] one higher where it happened; they stop at the largest number."""
    steps = [reshape(cast(v, "s32"), (1,)) if v is not None else count.const([0], np.int32) for v in (skipped, clipped)]
    new = count + join([*steps, count.const([0], np.int32)], 0)
    return where(new >= count, new, count)


def scaled(grad: Tensor, factor: Tensor, clip: float) -> Tensor:
    return grad * factor if clip else grad


@means(update.guard)
def _(value: Tensor, rate: Tensor, count: Tensor) -> tuple[Tensor, ...]:
    sound = reshape(finite(value), ()) & reshape(finite(rate), ())
    return reshape(where(sound, rate, 0), rate.shape), counted(count, ~sound)


@means(update.share_rate)
def _(rate: Tensor, share: Tensor) -> Tensor:
    return rate * reshape(share, rate.shape)


@means(update.limit)
def _(rate: Tensor, g: Tensor, count: Tensor, *, clip: float) -> tuple[Tensor, ...]:
    sound, factor, new = factor_of(g, rate, count, clip)
    return where(sound, rate * factor, 0), new


@means(update.sgd)
def _(w: Tensor, dw: Tensor, rate: Tensor, count: Tensor, *, decay: float, clip: float) -> tuple[Tensor, ...]:
    sound, factor, new = factor_of(dw, rate, count, clip)
    d = decayed(scaled(dw, factor, clip), w, decay)
    return where(sound, w - d * rate, w), new


def decayed(d: Tensor, w: Tensor, decay: float) -> Tensor:
    return d + w * decay if decay else d


@means(update.sgd_momentum)
def _(w: Tensor, m: Tensor, dw: Tensor, rate: Tensor, count: Tensor, *, momentum: float, decay: float, clip: float,
      nesterov: bool) -> tuple[Tensor, ...]:  # fmt: skip
    sound, factor, new = factor_of(dw, rate, count, clip)
    d = decayed(scaled(dw, factor, clip), w, decay)
    moved = m * momentum + d
    step = d + moved * momentum if nesterov else moved
    return where(sound, w - step * rate, w), where(sound, moved, m), new


@means(update.adam)
def _(w: Tensor, m: Tensor, v: Tensor, bias: Tensor, dw: Tensor, rate: Tensor, count: Tensor, *, beta1: float,
      beta2: float, epsilon: float, decay: float, clip: float, early: float) -> tuple[Tensor, ...]:  # fmt: skip
    sound, factor, new = factor_of(dw, rate, count, clip)
    d = scaled(dw, factor, clip)
    betas = np.array([beta1, beta2])
    right = bias * w.const(betas) + w.const(1 - betas)
    m_new, v_new = m * beta1 + d * (1 - beta1), v * beta2 + square(d) * (1 - beta2)
    first, second = (total(right * w.const(one)) for one in ([1, 0], [0, 1]))
    added = w.const(early) / sqrt(second) + epsilon if early else epsilon
    step = decayed((m_new / first) / (sqrt(v_new / second) + added), w, decay)
    kept = [(w - step * rate, w), (m_new, m), (v_new, v), (right, bias)]
    return *(where(sound, after, before) for after, before in kept), new


# dropout ----------------------------------------------------------------------------------------


@means(dropout.count_up)
def _(counter: Tensor, *, samples: int) -> Tensor:
    return counter + samples


@means(dropout.dropout_train)
def _(x: Tensor, counter: Tensor, *, p: float, layer: int, samples: int) -> Tensor:
    """One row of numbers per sample: the first draws those of `counter`, the next those of `counter + 1`, ..."""
    with np.errstate(over="ignore"):
        places = (np.arange(x.size // samples, dtype=np.uint32) * WEYL).view(np.int32)
        stream = (np.uint32(layer) * WEYL).view(np.int32)
    counts = counter.const(np.arange(samples)[:, None], np.int32) + counter
    key = mixed(mixed(counts) + int(stream))
    drawn = as_s32(shifted(mixed(counter.const(places[None], np.int32) + key), 1))
    return where(reshape(drawn, x.shape) >= dropout.threshold(p), x * (1 / (1 - p)), 0)


def mixed(h: Tensor) -> Tensor:
    """_random.mixed, on s32: sums need that type, products and shifts u32."""
    h = as_u32(h)
    for shift, factor in zip((16, 15), MIX):
        h = xor(h, shifted(h, shift)) * int(factor)
    return as_s32(xor(h, shifted(h, 16)))


def shifted(h: Tensor, bits: int) -> Tensor:
    h = as_u32(h)
    return call("RIGHT_SHIFT", [h, h.const(bits, np.uint32)], h.shape)


def xor(a: Tensor, b: Tensor) -> Tensor:
    return call("BITWISE_XOR", [a, b], a.shape)


def as_u32(h: Tensor) -> Tensor:
    return h if h.dtype == "u32" else call("BITCAST", [h], h.shape, "u32")


def as_s32(h: Tensor) -> Tensor:
    return h if h.dtype == "s32" else call("BITCAST", [h], h.shape, "s32")
