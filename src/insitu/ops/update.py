"""Updates: what an optimizer does to a float parameter, as ordinary ops that work in place on persistent values.

Integer parameters have their own, in update_int.py. If the rate is zero or not finite, no update changes anything,
counters included; a guard sets the rate to zero if the loss is not finite. An update is skipped, and counted, if its
gradient is not finite. A gradient whose norm exceeds `clip` is scaled down to it; if `clip` is negative, -clip bounds
the norm of the step, rate times gradient, instead. `count` is [skipped, clipped, saturated].
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, Value, f32, op
from insitu.graph.call import Call, Struct
from insitu.ops._types import Array

COUNTERS = ("skipped", "clipped", "saturated")
# Below these, numbers count as zero. Where nothing is learned any more, averages would halve until they are subnormal,
# and processors are many times slower with those. No weight can tell: epsilon, 1e-8, is far above their roots.
TINY, TINY_SQUARE = 2.0**-55, 2.0**-110


def factor_of(grad: np.ndarray, rate, clip: float) -> tuple[float, int, int]:
    """(factor of the gradient, skipped, clipped); a factor of 0 means that nothing changes.

    Squares are added in eight lanes, as in C.
    """
    if rate == 0 or not np.isfinite(rate):
        return 0.0, 0, 0
    flat = grad.reshape(-1)
    squares = np.zeros(-(-flat.size // 8) * 8, flat.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        squares[: flat.size] = flat * flat
        lane = np.add.accumulate(squares.reshape(-1, 8), axis=0, dtype=flat.dtype)[-1]
        total = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]))
    if not np.isfinite(total):
        return 0.0, 1, 0
    return limited(np.sqrt(total), flat.dtype.type(rate), flat.dtype.type(clip))


def limited(norm, rate, clip) -> tuple[float, int, int]:
    """(factor, 0, is it below 1) for a gradient of this norm; a negative clip bounds rate * norm."""
    with np.errstate(over="ignore"):
        length = norm * rate if clip < 0 else norm
    return (float(abs(clip) / length), 0, 1) if clip and length > abs(clip) else (1.0, 0, 0)


def settled(x: np.ndarray, tiny: float) -> np.ndarray:
    """x with 0 in place of numbers below `tiny`."""
    return np.where(np.abs(x) < tiny, np.zeros_like(x), x)


def counted(count, skipped=0, clipped=0, saturated=0) -> np.ndarray:
    """Counters stop at the largest number: a device may run for years."""
    return np.minimum(np.int64(count) + [skipped, clipped, saturated], 2**31 - 1).astype(np.int32)


def same_shape(w: Type, *others: Type) -> None:
    for other in others:
        if w.shape != other.shape:
            raise GraphError(f"{other} does not fit a parameter {w}: the shapes differ")


def scalar(x: float) -> np.ndarray:
    return np.array(x, np.float32)


def zeros() -> np.ndarray:
    return np.zeros(3, np.int32)


def small(count: int) -> np.ndarray:
    """From 1 down to numbers that are subnormal as floats."""
    return np.logspace(0, -44, count).astype(np.float32)


sgd = op(
    "sgd",
    "w' = w - rate (factor dw + decay w), factor from `clip`; gives w and the counters",
    cases=[
        Case("plain", (f32(3, 5), f32(3, 5), scalar(0.1), zeros())),
        Case("decay, clip", (f32(37), f32(37), scalar(0.05), zeros()), {"decay": 0.01, "clip": 0.5}),
        Case("long step", (f32(37), f32(37), scalar(0.05), zeros()), {"clip": -0.02}),
        Case("short step", (f32(37), f32(37), scalar(0.05), zeros()), {"clip": -2.0}),
        Case("not finite", (f32(4), np.array([1, np.inf, 2, 3], np.float32), scalar(0.05), zeros())),
        Case("rate of zero", (f32(4), f32(4), scalar(0.0), zeros()), {"clip": 0.01}),
        Case("infinite rate", (f32(4), f32(4), scalar(np.inf), zeros()), {"decay": 0.1}),
    ],
)
sgd.must(in_place=(0, 3))


@sgd.infer
def _(w: Type, dw: Type, rate: Type, count: Type, *, decay: float = 0.0, clip: float = 0.0) -> tuple[Type, ...]:
    same_shape(w, dw)
    return w, count


@sgd.eval
def _(w: Array, dw: Array, rate: Array, count: Array, *, decay: float, clip: float) -> tuple[Array, ...]:
    factor, skipped, clipped = factor_of(dw, rate, clip)
    if not factor:
        return w, counted(count, skipped, clipped)
    return w - rate * (factor * dw + decay * w), counted(count, 0, clipped)


@sgd.emit
def _(
    w_new: Value, count_new: Value, w: Value, dw: Value, rate: Value, count: Value, *, decay: float, clip: float
) -> Call:
    return Call("sgd_f32", w_new, count_new, dw, rate, decay, clip, w.type.size)


sgd_momentum = op(
    "sgd_momentum",
    """m' = momentum m + factor dw + decay w; w' = w - rate m' (or, with nesterov, w - rate (dw.. + momentum m'))

    An m' below 2^-110 is 0.
    """,
    cases=[
        Case("plain", (f32(3, 5), f32(3, 5), f32(3, 5), scalar(0.1), zeros())),
        Case("decay, nesterov", (f32(37), f32(37), f32(37), scalar(0.1), zeros()), {"decay": 0.01, "nesterov": True}),
        Case("tiny", (np.zeros(9, np.float32), small(9), small(9)[::-1].copy(), scalar(0.1), zeros())),
    ],
)
sgd_momentum.must(in_place=(0, 1, 4))


@sgd_momentum.infer
def _(
    w: Type, m: Type, dw: Type, rate: Type, count: Type, *, momentum: float = 0.9, decay: float = 0.0,
    clip: float = 0.0, nesterov: bool = False,
) -> tuple[Type, ...]:  # fmt: skip
    same_shape(w, dw, m)
    return w, m, count


@sgd_momentum.eval
def _(
    w: Array, m: Array, dw: Array, rate: Array, count: Array, *, momentum: float, decay: float, clip: float,
    nesterov: bool,
) -> tuple[Array, ...]:  # fmt: skip
    factor, skipped, clipped = factor_of(dw, rate, clip)
    if not factor:
        return w, m, counted(count, skipped, clipped)
    d = factor * dw + decay * w
    m = settled(momentum * m + d, TINY_SQUARE)
    return w - rate * (d + momentum * m if nesterov else m), m, counted(count, 0, clipped)


@sgd_momentum.emit
def _(
    w_new: Value, m_new: Value, count_new: Value, w: Value, m: Value, dw: Value, rate: Value, count: Value, *,
    momentum: float, decay: float, clip: float, nesterov: bool,
) -> Call:  # fmt: skip
    n = w.type.size
    return Call(
        "sgd_momentum_f32", w_new, m_new, count_new, dw, rate, momentum, decay, clip, int(nesterov), n
    )  # fmt: skip


adam = op(
    "adam",
    """m' = b1 m + (1-b1) d, v' = b2 v + (1-b2) d^2, w' = w - rate (m'/(1-b1^t) / (sqrt(v'/(1-b2^t)) + eps) + decay w)

    `early` is an epsilon that is added before the correction, as Keras does: eps = epsilon + early / sqrt(1-b2^t).
    d = factor dw, 0 if below 2^-55; m' and v' are 0 if below 2^-110. Decay is decoupled (AdamW). `bias` is 1 - b1^t and
    1 - b2^t, stored in this form because 1 - 0.999 in single precision would be off by 1e-5.
    """,
    cases=[
        Case("first", (f32(3, 5), np.zeros((3, 5), np.float32), np.zeros((3, 5), np.float32), np.zeros(2, np.float32),
                       f32(3, 5), scalar(0.1), zeros())),
        Case("tenth", (f32(37), f32(37), np.full(37, 0.3, np.float32), np.array([1 - 0.9**9, 1 - 0.999**9], np.float32),
                       f32(37), scalar(0.01), zeros()), {"decay": 0.01}),
        Case("tiny", (np.zeros(9, np.float32), small(9), small(9), np.array([0.1, 0.001], np.float32),
                      small(9)[::-1].copy(), scalar(0.01), zeros())),
        Case("early", (f32(5), np.zeros(5, np.float32), np.zeros(5, np.float32), np.zeros(2, np.float32),
                       np.linspace(-1e-7, 1e-7, 5, dtype=np.float32), scalar(0.01), zeros()),
             {"epsilon": 0.0, "early": 1e-7}),
    ],
)  # fmt: skip
adam.must(in_place=(0, 1, 2, 3, 6))


@adam.infer
def _(
    w: Type, m: Type, v: Type, bias: Type, dw: Type, rate: Type, count: Type, *, beta1: float = 0.9,
    beta2: float = 0.999, epsilon: float = 1e-08, decay: float = 0.0, clip: float = 0.0, early: float = 0.0,
) -> tuple[Type, ...]:  # fmt: skip
    same_shape(w, dw)
    if bias.shape != (2,):
        raise GraphError(f"the bias of adam (1 - beta1^t, 1 - beta2^t) must be f32[2], not {bias}")
    return w, m, v, bias, count


@adam.eval
def _(
    w: Array, m: Array, v: Array, bias: Array, dw: Array, rate: Array, count: Array, *, beta1: float, beta2: float,
    epsilon: float, decay: float, clip: float, early: float,
) -> tuple[Array, ...]:  # fmt: skip
    factor, skipped, clipped = factor_of(dw, rate, clip)
    if not factor:
        return w, m, v, bias, counted(count, skipped, clipped)
    d = settled(factor * dw, TINY)
    betas = np.array([beta1, beta2])
    bias = bias * betas + (1 - betas)
    m = settled(beta1 * m + (1 - beta1) * d, TINY_SQUARE)
    v = settled(beta2 * v + (1 - beta2) * d * d, TINY_SQUARE)
    step = (m / bias[0]) / (np.sqrt(v / bias[1]) + epsilon + early / np.sqrt(bias[1]))
    return w - rate * (step + decay * w), m, v, bias, counted(count, 0, clipped)


@adam.emit
def _(
    w_new: Value, m_new: Value, v_new: Value, p_new: Value, count_new: Value, w: Value, m: Value, v: Value, bias: Value,
    dw: Value, rate: Value, count: Value, *, beta1: float, beta2: float, epsilon: float, decay: float, clip: float,
    early: float,
) -> Call:  # fmt: skip
    options = Struct("adam_options", beta1=beta1, beta2=beta2, rest1=1 - beta1, rest2=1 - beta2, epsilon=epsilon,
                     decay=decay, clip=clip, early=early)  # fmt: skip
    return Call("adam_f32", w_new, m_new, v_new, p_new, count_new, dw, rate, options, w.type.size)


accumulate = op(
    "accumulate",
    "total' = total + dw; if there is a gate and it is zero, total' = total",
    cases=[
        Case("odd", (f32(3, 5), f32(3, 5))),
        Case("open", (f32(3, 5), f32(3, 5), scalar(1.0))),
        Case("shut", (f32(4), np.array([1, np.nan, 2, np.inf], np.float32), scalar(0.0))),
    ],
)
accumulate.must(in_place=True)


@accumulate.infer
def _(total: Type, dw: Type, gate: Type | None = None) -> Type:
    same_shape(total, dw)
    return total


@accumulate.eval
def _(total: Array, dw: Array, gate: Array | None = None) -> Array:
    return total if gate is not None and gate == 0 else total + dw


@accumulate.emit
def _(new: Value, total: Value, dw: Value, gate: Value | None = None) -> Call:
    return Call("accumulate_f32", new, dw, gate, total.type.size)


take_sum = op("take_sum", "mean = share total; total' = 0", cases=[Case("odd", (f32(3, 5), scalar(0.25)))])
take_sum.must(in_place=(None, 0))


@take_sum.infer
def _(total: Type, share: Type) -> tuple[Type, ...]:
    return total, total


@take_sum.eval
def _(total: Array, share: Array) -> tuple[Array, ...]:
    return share * total, np.zeros_like(total)


@take_sum.emit
def _(mean: Value, new: Value, total: Value, share: Value) -> Call:
    return Call("take_sum_f32", mean, new, share, total.type.size)


guard = op(
    "guard",
    "rate' = rate; 0, and counted as skipped, if the loss or the rate is not finite: nothing is updated",
    cases=[
        Case("finite", (scalar(2.5), scalar(0.1), zeros())),
        Case("infinite loss", (scalar(np.inf), scalar(0.1), np.array([4, 5, 6], np.int32))),
        Case("no number", (scalar(np.nan), scalar(0.1), zeros())),
        Case("infinite rate", (scalar(2.5), scalar(-np.inf), zeros())),
    ],
)
guard.must(in_place=(None, 2))


@guard.infer
def _(loss: Type, rate: Type, count: Type) -> tuple[Type, ...]:
    if loss.size != 1 or rate.size != 1:
        raise GraphError(f"guard needs one loss and one rate, not {loss} and {rate}")
    return rate, count


@guard.eval
def _(loss: Array, rate: Array, count: Array) -> tuple[Array, ...]:
    finite = np.isfinite(loss).all() and np.isfinite(rate).all()
    return rate if finite else np.zeros_like(rate), counted(count, int(not finite))


@guard.emit
def _(rate_new: Value, count_new: Value, loss: Value, rate: Value, count: Value) -> Call:
    return Call("guard_rate", rate_new, count_new, loss, rate)


share_rate = op(
    "share_rate",
    "rate' = rate share: some parameters learn at a share of the rate that is given",
    cases=[
        Case("a tenth", (scalar(0.5), np.array([0.1], np.float32))),
        Case("all of it", (scalar(0.3), np.array([1], np.float32))),
        Case("rate of zero", (scalar(0.0), np.array([0.1], np.float32))),
    ],
)


@share_rate.infer
def _(rate: Type, share: Type) -> Type:
    if rate.size != 1 or share.size != 1:
        raise GraphError(f"share_rate wants one rate and one share, not {rate} and {share}")
    return rate


@share_rate.eval
def _(rate: Array, share: Array) -> Array:
    return rate * share.reshape(rate.shape)


@share_rate.emit
def _(rate_new: Value, rate: Value, share: Value) -> Call:
    return Call("share_rate", rate_new, rate, share)


limit = op(
    "limit",
    "rate' = rate min(1, clip / |g|): one gradient's norm limits the whole step; 0 if g is not finite; counted",
    cases=[
        Case("below", (scalar(0.1), f32(3, 5), zeros()), {"clip": 100.0}),
        Case("above", (scalar(0.1), f32(37), zeros()), {"clip": 0.5}),
        Case("not finite", (scalar(0.1), np.array([1, np.inf], np.float32), zeros()), {"clip": 0.5}),
        Case("rate of zero", (scalar(0.0), f32(37), zeros()), {"clip": 0.5}),
    ],
)
limit.must(in_place=(None, 2))


@limit.infer
def _(rate: Type, g: Type, count: Type, *, clip: float) -> tuple[Type, ...]:
    return rate, count


@limit.eval
def _(rate: Array, g: Array, count: Array, *, clip: float) -> tuple[Array, ...]:
    factor, skipped, clipped = factor_of(g, rate, clip)
    return rate * factor, counted(count, skipped, clipped)


@limit.emit
def _(rate_new: Value, count_new: Value, rate: Value, g: Value, count: Value, *, clip: float) -> Call:
    return Call("limit_rate", rate_new, count_new, rate, g, clip, g.type.size)
