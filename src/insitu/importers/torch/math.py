"""aten ops that compute: linear layers and products, arithmetic, activations, reductions, softmax, dropout."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np

from insitu.graph import Value
from insitu.importers.canonical.einsum import einsum
from insitu.importers.torch.call import Call, axes_of

# products


def linear(c: Call, x, w, b=None):
    return c.make("linear", x, w, *(() if b is None else (b,)))


def matmul(c: Call, a, b):
    return c.make("matmul", a, b)


def addmm(c: Call, bias, a, b, beta=1, alpha=1):
    if beta != 1 or alpha != 1:
        raise c.refuse(f"beta={beta}, alpha={alpha}")
    if bias.shape != (b.shape[1],):
        return c.make("add", c.step("matmul", a, b), bias)
    return c.make("linear", a, c.weight(b, (1, 0)), bias)


def product_and_sum(c: Call, x, a, b, beta=1, alpha=1):
    """torch.baddbmm"""
    if beta != 1 or alpha != 1:
        raise c.refuse(f"beta={beta}, alpha={alpha}")
    return c.make("add", c.step("matmul", a, b), x)


def contraction(c: Call, equation, operands, path=None):
    """torch.einsum: the product has the call's name, and the ops around it names of their own."""

    def step(op: str, *inputs: Value, **attrs):
        return (c.make if op in ("matmul", "mul") else c.step)(op, *inputs, **attrs)

    return einsum(equation, operands, step, lambda v: c.builder.array(v) is not None)


# arithmetic


def arithmetic(op: str, turned: bool = False):
    def rule(c: Call, x, y, alpha=1, rounding_mode=None):
        if rounding_mode is not None:
            raise c.refuse(f"rounding_mode={rounding_mode!r}")
        x, y = c.value(x), c.value(y)
        if alpha != 1:
            y = c.step("mul", y, c.scalar(alpha))
        return c.make(op, y, x) if turned else c.make(op, x, y)

    return rule


def power(c: Call, x, exponent):
    """x ** n, for the few n that are ops of their own."""
    if not isinstance(x, Value) or isinstance(exponent, Value):
        raise c.refuse("an exponent that is not a constant number")
    if exponent == 1:
        return x
    if exponent == 3:
        return c.make("mul", c.step("square", x), x)
    op = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(exponent)
    if op is None:
        raise c.refuse(f"the exponent {exponent}", hint="1, 2, 3, 0.5, -0.5 or -1")
    return c.make(op, x)


# activations


def unary(op: str):
    return lambda c, x: c.make(op, x)


def clamp(c: Call, x, lo=None, hi=None):
    if isinstance(lo, Value) or isinstance(hi, Value):
        raise c.refuse("bounds that are tensors", hint="plain numbers")
    return c.make("clamp", x, lo=-inf if lo is None else float(lo), hi=inf if hi is None else float(hi))


def maximum(c: Call, a, b):
    """A clamp if one of them is one number; else a + relu(b - a), whose gradient goes to a where both are equal."""
    for x, y in ((a, b), (b, a)):
        if (number := one_number(c, y)) is not None and isinstance(x, Value):
            return clamp(c, x, lo=number)
    return c.make("add", a, c.step("relu", c.step("sub", b, a)))


def minimum(c: Call, a, b):
    """The same from above."""
    for x, y in ((a, b), (b, a)):
        if (number := one_number(c, y)) is not None and isinstance(x, Value):
            return clamp(c, x, hi=number)
    return c.make("sub", a, c.step("relu", c.step("sub", a, b)))


def one_number(c: Call, x: Value | float) -> float | None:
    """The number that this is everywhere; None if it is not a constant, or has several."""
    array = c.builder.array(x) if isinstance(x, Value) else np.asarray(x)
    return None if array is None or array.size != 1 else float(array.reshape(-1)[0])


def hardtanh(c: Call, x, lo=-1.0, hi=1.0):
    return clamp(c, x, lo, hi)


def relu6(c: Call, x):
    return clamp(c, x, 0.0, 6.0)


def leaky_relu(c: Call, x, slope=0.01):
    return c.make("leaky_relu", x, slope=float(slope))


def prelu(c: Call, x, slope):
    """One slope, or one per channel (axis 1)."""
    if slope.type.size > 1 and x.type.rank > 2:
        slope = c.step("reshape", slope, shape=(slope.type.size, *(1,) * (x.type.rank - 2)))
    return c.make("prelu", x, slope)


def gelu(c: Call, x, approximate="none"):
    return c.make("gelu", x, approximate=approximate)


def elu(c: Call, x, alpha=1.0, scale=1.0, input_scale=1.0):
    if input_scale != 1:
        raise c.refuse(f"input_scale={input_scale}")
    y = c.make("elu", x, alpha=float(alpha))
    return y if scale == 1 else c.step("mul", y, c.scalar(scale))


def selu(c: Call, x):
    return elu(c, x, 1.6732632423543772, 1.0507009873554805)


def celu(c: Call, x, alpha=1.0):
    """alpha elu(x / alpha)"""
    if alpha == 1:
        return c.make("elu", x, alpha=1.0)
    return c.make("mul", c.step("elu", c.step("mul", x, c.scalar(1 / alpha)), alpha=1.0), c.scalar(alpha))


def softplus(c: Call, x, beta=1.0, threshold=20.0):
    """log(1 + exp(beta x)) / beta. Above the threshold torch gives x; the difference is below float32 precision."""
    if beta == 1:
        return c.make("softplus", x)
    y = c.step("softplus", c.step("mul", x, c.scalar(beta)))
    return c.make("mul", y, c.scalar(1 / beta))


def log_sigmoid(c: Call, x):
    return c.make("neg", c.step("softplus", c.step("neg", x)))


def mish(c: Call, x):
    return c.make("mul", x, c.step("tanh", c.step("softplus", x)))


def softsign(c: Call, x):
    return c.make("div", x, c.step("add", c.step("abs", x), c.scalar(1.0)))


def glu(c: Call, x, dim=-1):
    half = x.shape[dim] // 2
    a, b = c.step("split", x, sizes=(half, half), axis=dim % x.type.rank)
    return c.make("mul", a, c.step("sigmoid", b))


def along(op: str):
    """An op that works along one axis."""

    def rule(c: Call, x, dim, dtype=None, **_):
        return c.make(op, x, axis=dim)

    return rule


# reductions


def reduce(op: str, **attrs):
    def rule(c: Call, x, dim=None, keepdim=False, dtype=None):
        return c.make(op, x, axes=axes_of(dim, x.type.rank), keepdims=keepdim, **attrs)

    return rule


def maximum_along(c: Call, x, dim=None, keepdim=False):
    """torch.max: of two tensors, over everything, or (values, indices) along an axis; gradients go to these indices."""
    if isinstance(dim, Value):
        return maximum(c, x, dim)
    if dim is None:
        return c.make("amax", x, axes=axes_of(None, x.type.rank), ties="even")
    return c.make("amax", x, axes=(dim % x.type.rank,), keepdims=keepdim), None


def amin(c: Call, x, dim=None, keepdim=False):
    y = c.step("amax", c.step("neg", x), axes=axes_of(dim, x.type.rank), keepdims=keepdim, ties="even")
    return c.make("neg", y)


def minimum_along(c: Call, x, dim=None, keepdim=False):
    """torch.min, as torch.max"""
    if isinstance(dim, Value):
        return minimum(c, x, dim)
    if dim is None:
        return amin(c, x)
    return c.make("neg", c.step("amax", c.step("neg", x), axes=(dim % x.type.rank,), keepdims=keepdim)), None


def vector_norm(c: Call, x, ord=2, dim=None, keepdim=False, dtype=None):
    """The root of the sum of squares, or the sum of magnitudes."""
    if ord not in (1, 2):
        raise c.refuse(f"the norm of order {ord}", hint="1 or 2")
    how = {"axes": axes_of(dim, x.type.rank), "keepdims": keepdim}
    if ord == 1:
        return c.make("sum", c.step("abs", x), **how)
    return c.make("sqrt", c.step("sum", c.step("square", x), **how))


def variance(c: Call, x, dim=None, unbiased=None, keepdim=False, correction=1):
    if isinstance(dim, bool):  # torch.var(x, unbiased)
        dim, unbiased = None, dim
    axes = axes_of(dim, x.type.rank)
    correction = int(unbiased) if unbiased is not None else 1 if correction is None else correction
    n = int(np.prod([x.shape[a] for a in axes]))
    if n <= correction:
        raise c.refuse(f"{n} elements with correction {correction}")
    centred = c.step("sub", x, c.step("mean", x, axes=axes, keepdims=True))
    y = c.step("mean", c.step("square", centred), axes=axes, keepdims=keepdim)
    return y if not correction else c.make("mul", y, c.scalar(n / (n - correction)))


def deviation(c: Call, x, *args, **kwargs):
    return c.step("sqrt", variance(c, x, *args, **kwargs))


def variance_and_mean(c: Call, x, dim=None, unbiased=None, keepdim=False, correction=1):
    mean = c.step("mean", x, axes=axes_of(dim, x.type.rank), keepdims=keepdim)
    return variance(c, x, dim, unbiased, keepdim, correction), mean


# dropout: its probability is kept; training decides whether it drops anything


def dropout(c: Call, x, p=0.5, train=False):
    return c.make("dropout", x, p=float(p))


def native_dropout(c: Call, x, p, train):
    return dropout(c, x, p), None


def channel_dropout(c: Call, x, p=0.5, train=False):
    c.builder.note(f"{c.name} drops whole channels in torch, but single elements here")
    return dropout(c, x, p)


# attention: small enough to spell out


def attention(c: Call, q, k, v, mask=None, p=0.0, causal=False, scale=None, enable_gqa=False):
    if causal or mask is not None or enable_gqa:
        raise c.refuse("a mask", hint="use attention over all positions")
    scaled = c.step("mul", q, c.scalar(1 / sqrt(q.shape[-1]) if scale is None else scale))
    rank = k.type.rank
    turned = c.step("transpose", k, perm=(*range(rank - 2), rank - 1, rank - 2))
    return c.make("matmul", c.step("softmax", c.step("matmul", scaled, turned)), v)


SAME = "relu sigmoid tanh silu exp log sqrt rsqrt reciprocal neg abs square erf".split()
TABLE = {
    **{name: unary(name) for name in SAME},
    "special_expit": unary("sigmoid"),
    "hardsigmoid": unary("hard_sigmoid"),
    "hardswish": unary("hard_swish"),
    "linear": linear,
    "matmul": matmul,
    "mm": matmul,
    "bmm": matmul,
    "baddbmm": product_and_sum,
    "addmm": addmm,
    "einsum": contraction,
    "add": arithmetic("add"),
    "sub": arithmetic("sub"),
    "rsub": arithmetic("sub", turned=True),
    "mul": arithmetic("mul"),
    "div": arithmetic("div"),
    "subtract": arithmetic("sub"),
    "multiply": arithmetic("mul"),
    "divide": arithmetic("div"),
    "true_divide": arithmetic("div"),
    "negative": unary("neg"),
    "absolute": unary("abs"),
    "clip": clamp,
    "pow": power,
    "relu6": relu6,
    "hardtanh": hardtanh,
    "clamp": clamp,
    "clamp_min": clamp,
    "clamp_max": lambda c, x, hi: clamp(c, x, None, hi),
    "maximum": maximum,
    "minimum": minimum,
    "leaky_relu": leaky_relu,
    "prelu": prelu,
    "_prelu_kernel": lambda c, x, slope: c.make("prelu", x, slope),
    "gelu": gelu,
    "elu": elu,
    "selu": selu,
    "celu": celu,
    "softplus": softplus,
    "log_sigmoid": log_sigmoid,
    "log_sigmoid_forward": lambda c, x: (log_sigmoid(c, x), None),
    "mish": mish,
    "softsign": softsign,
    "glu": glu,
    "softmax": along("softmax"),
    "_softmax": along("softmax"),
    "log_softmax": along("log_softmax"),
    "_log_softmax": along("log_softmax"),
    "mean": reduce("mean"),
    "sum": reduce("sum"),
    "cumsum": along("cumsum"),
    "amax": reduce("amax", ties="even"),
    "amin": amin,
    "max": maximum_along,
    "min": minimum_along,
    "linalg_vector_norm": vector_norm,
    "var": variance,
    "std": deviation,
    "var_mean": variance_and_mean,
    "dropout": dropout,
    "native_dropout": native_dropout,
    "feature_dropout": channel_dropout,
    "alpha_dropout": dropout,
    "scaled_dot_product_attention": attention,
}
