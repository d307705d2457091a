"""ONNX ops that compute: arithmetic, products of matrices, activations, reductions, normalisations, quantisation."""

from __future__ import annotations

from functools import reduce
from math import inf, isfinite, prod

import numpy as np

from insitu.errors import ModelError, Unsupported
from insitu.graph import Type, Value, quant
from insitu.importers.canonical.einsum import einsum
from insitu.importers.onnx.node import Call, Comparison, axes_of, axis_of, ops
from insitu.ops.quant import usual_rounding

# --- element by element --------------------------------------------------------------------------


def unary(name: str):
    return lambda n: getattr(ops, name)(n.x(), name=n.name)


def binary(name: str):
    return lambda n: getattr(ops, name)(n.x(0), n.x(1), name=n.name)


def leaky_relu(n: Call) -> Value:
    return ops.leaky_relu(n.x(), slope=n.attr("alpha", 0.01), name=n.name)


def elu(n: Call) -> Value:
    return ops.elu(n.x(), alpha=n.attr("alpha", 1.0), name=n.name)


def selu(n: Call) -> Value:
    y = ops.elu(n.x(), alpha=n.attr("alpha", 1.6732632423543772), name=n.name)
    return _scaled(n, y, n.attr("gamma", 1.0507009873554805))


def celu(n: Call) -> Value:
    """alpha elu(x / alpha)"""
    alpha = n.attr("alpha", 1.0)
    if alpha == 0:
        raise ModelError("alpha must not be 0")
    return _scaled(n, ops.elu(_scaled(n, n.x(), 1 / alpha), alpha=1.0, name=n.name), alpha)


def prelu(n: Call) -> Value:
    x, slope = n.x(), n.array(1, "the slope")
    return ops.prelu(x, n.constant(slope, n.record.inputs[1], 1), name=n.name)


def gelu(n: Call) -> Value:
    return ops.gelu(n.x(), approximate=n.attr("approximate", "none"), name=n.name)


def hard_sigmoid(n: Call) -> Value:
    alpha, beta = n.attr("alpha", 0.2), n.attr("beta", 0.5)
    if np.float32(alpha) == np.float32(1 / 6):  # the file stores 32 bits of it
        alpha = 1 / 6
    return ops.hard_sigmoid(n.x(), alpha=alpha, beta=beta, name=n.name)


def swish(n: Call) -> Value:
    x, alpha = n.x(), n.attr("alpha", 1.0)
    return ops.silu(x, name=n.name) if alpha == 1 else ops.mul(x, ops.sigmoid(_scaled(n, x, alpha)), name=n.name)


def mish(n: Call) -> Value:
    return ops.mul(n.x(), ops.tanh(ops.softplus(n.x())), name=n.name)


def _number(n: Call, value: float) -> Value:
    return n.constant(np.array(value, np.float32), f"{n.name}.number")


def _scaled(n: Call, x: Value, factor: float) -> Value:
    return x if factor == 1 else ops.mul(x, _number(n, factor))


def clip(n: Call) -> Value:
    lo, hi = n.scalar(1, "min", -inf), n.scalar(2, "max", inf)
    return clamped(n.x(), min(lo, hi) if lo != -inf else lo, hi, n.name)


def clamped(x: Value, lo: float, hi: float, name: str) -> Value:
    """clamp, under the name that its bounds have, if any."""
    if lo <= -3.4e38:
        lo = -inf
    if hi >= 3.4e38:
        hi = inf
    if lo != lo or hi != hi:
        raise ModelError(f"bounds {lo} and {hi} are not valid")
    named = {(0.0, inf): "relu", (0.0, 6.0): "relu6"}.get((lo, hi))
    if named:
        return getattr(ops, named)(x, name=name)
    return x if (lo, hi) == (-inf, inf) else ops.clamp(x, lo=lo, hi=hi, name=name)


def extreme(largest: bool):
    """Max or Min of any number of tensors; with a single number it is a clamp."""

    def two(n: Call, a: Value, b: Value) -> Value:
        for x, other in ((a, b), (b, a)):
            known = n.builder.array(other)
            if known is not None and known.size == 1 and known.ndim <= x.type.rank:
                bound = float(known.reshape(()))
                return clamped(x, bound, inf, n.name) if largest else clamped(x, -inf, bound, n.name)
        # max(a, b) = a + relu(b - a), min(a, b) = a - relu(a - b)
        if largest:
            return ops.add(a, ops.relu(ops.sub(b, a)), name=n.name)
        return ops.sub(a, ops.relu(ops.sub(a, b)), name=n.name)

    return lambda n: reduce(lambda a, b: two(n, a, b), n.xs())


def sum_(n: Call) -> Value:
    return reduce(lambda a, b: ops.add(a, b, name=n.name), n.xs())


def mean_(n: Call) -> Value:
    return _scaled(n, sum_(n), 1 / len(n.xs()))


POWERS = {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}


def power(n: Call) -> Value:
    x, exponent = n.x(), n.array(1, "the exponent")
    if exponent.size != 1 or exponent.ndim > x.type.rank:
        raise Unsupported(f"the exponent must be one number, not of shape {list(exponent.shape)}")
    e = float(exponent.reshape(()))
    if e in POWERS:
        return getattr(ops, POWERS[e])(x, name=n.name)
    if e == int(e) and 1 <= e <= 16:
        return reduce(lambda a, _: ops.mul(a, x, name=n.name), range(int(e) - 1), x)
    raise Unsupported(f"the exponent {e} is not supported", hint="1 to 16, 0.5, -0.5 or -1")


def where(n: Call) -> Value:
    """If the condition is known at import: the chosen elements of one, plus the chosen elements of the other."""
    if isinstance(n.compared(0), Comparison):
        return _long_softplus(n)
    chosen = n.array(0, "the condition").astype(bool)
    if chosen.all() or not chosen.any():
        x = n.x(1 if chosen.all() else 2)
        shape = np.broadcast_shapes(*(np.shape(n.tensor(i)) for i in range(3)))
        if shape == x.shape:
            return x
    for i in (1, 2):
        if n.known(i) and not np.isfinite(n.array(i)).all():
            raise Unsupported("choosing between a tensor and infinity is not supported")
    yes, no = (n.constant(a.astype(np.float32), f"{n.name}.{k}") for k, a in (("yes", chosen), ("no", ~chosen)))
    return ops.add(ops.mul(n.x(1), yes), ops.mul(n.x(2), no), name=n.name)


def greater(n: Call) -> Comparison:
    bound = n.array(1, "the bound")
    if bound.size != 1:
        raise Unsupported("a comparison with more than one number is not supported")
    return Comparison(n.x(0), float(bound.reshape(())))


def _long_softplus(n: Call) -> Value:
    """torch writes softplus as `x if x > 20 else softplus(x)`: above 20 the two are equal in 32 bits."""
    test, x, other = n.compared(0), n.x(1), n.x(2)
    made = n.builder.producer(other)
    alike = made is not None and made.op is ops.softplus and made.inputs[0] == x
    if alike and isinstance(test, Comparison) and test.bound >= 20 and test.value == x:
        return other
    raise Unsupported("a condition that the network computes is not supported", hint="use relu, clamp or a product")


def cast(n: Call) -> Value:
    """Floats of any width are f32 here. A cast to integers would have to be computed."""
    x, to = n.any(0), n.attr("to", 1)
    same = {"f32": (1, 10, 11), "s8": (3,), "u8": (2,), "s16": (5,), "s32": (6,), "s64": (7,), "b1": (9,)}
    if to in same.get(x.dtype, ()):
        return x
    hint = "export a model that takes and computes floats"
    raise Unsupported(f"a cast of {x.type} inside the network is not supported", hint=hint)


def dropout(n: Call):
    ratio = n.scalar(1, "ratio", 0.5)
    if not 0 <= ratio < 1:
        raise ModelError(f"the dropout ratio must be in [0, 1), not {ratio}")
    y = ops.dropout(n.x(), p=ratio, name=n.name)
    return (y, np.ones(y.shape, bool)) if n.wants(1) and prod(y.shape) < 1 << 20 else y


# --- products of matrices --------------------------------------------------------------------------


def matmul(n: Call) -> Value:
    a, b = n.x(0), n.x(1)
    if min(a.type.rank, b.type.rank) > 1:
        return ops.matmul(a, b, name=n.name)
    # a vector on either side: numpy adds an axis and removes it again
    shape = np.matmul(np.empty(a.shape, bool), np.empty(b.shape, bool)).shape if _small(a, b) else ()
    a = ops.reshape(a, shape=(1, *a.shape)) if a.type.rank == 1 else a
    b = ops.reshape(b, shape=(*b.shape, 1)) if b.type.rank == 1 else b
    return ops.reshape(ops.matmul(a, b), shape=shape, name=n.name)


def _small(a: Value, b: Value) -> bool:
    if a.type.rank == 0 or b.type.rank == 0 or a.type.size * b.type.size > 1 << 24:
        raise Unsupported(f"a product of {a.type} and {b.type} is not supported")
    return True


def gemm(n: Call) -> Value:
    """y = alpha a' b' + beta c"""
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    a = ops.transpose(n.x(0), perm=(1, 0)) if n.attr("transA", 0) else n.x(0)
    if not n.known(1):
        b = ops.transpose(n.x(1), perm=(1, 0)) if n.attr("transB", 0) else n.x(1)
        y = _scaled(n, ops.matmul(a, b, name=n.name), alpha)
        return ops.add(y, _scaled(n, n.x(2), beta)) if n.given(2) else y
    if n.array(1).ndim != 2 or a.type.rank != 2:
        raise ModelError(f"{a.type} does not fit weights {n.array(1).shape}")
    w = n.array(1) if n.attr("transB", 0) else n.array(1).T
    w = n.constant(np.ascontiguousarray(w if alpha == 1 else w * np.float32(alpha)), n.parameter(1), 1)
    if not n.given(2):
        return ops.linear(a, w, name=n.name)
    if n.known(2) and n.array(2).size in (1, w.shape[0]) and n.array(2).shape[:-1] in ((), (1,)):
        c = np.broadcast_to(n.array(2).reshape(-1), (w.shape[0],))
        bias = n.constant(np.ascontiguousarray(c if beta == 1 else c * np.float32(beta)), n.parameter(2), 2)
        return ops.linear(a, w, bias, name=n.name)
    return ops.add(ops.linear(a, w, name=n.name), _scaled(n, n.x(2), beta))


def contraction(n: Call) -> Value:
    """Einsum: the product has the node's name."""

    def step(op: str, *inputs: Value, **attrs) -> Value:
        return getattr(ops, op)(*inputs, **attrs, **({"name": n.name} if op in ("matmul", "mul") else {}))

    return einsum(n.attr("equation", ""), n.xs(), step, lambda v: n.builder.array(v) is not None)


# --- along axes --------------------------------------------------------------------------------


def softmax(name: str):
    def function(n: Call) -> Value:
        op, x = getattr(ops, name), n.x()
        axis = axis_of(n.attr("axis", -1 if n.opset >= 13 else 1), x.type.rank)
        if n.opset >= 13 or axis == x.type.rank - 1:
            return op(x, axis=axis - x.type.rank if axis == x.type.rank - 1 else axis, name=n.name)
        # before opset 13, everything from the axis on was one row
        flat = ops.reshape(x, shape=(prod(x.shape[:axis]), prod(x.shape[axis:])))
        return ops.reshape(op(flat, axis=-1), shape=x.shape, name=n.name)

    return function


def cumsum(n: Call) -> Value:
    axis = axis_of(int(n.scalar(1, "axis", 0)), n.x().type.rank)
    how = {key: bool(n.attr(key, 0)) for key in ("reverse", "exclusive")}
    return ops.cumsum(n.x(), axis=axis, **how, name=n.name)


def reduction(name: str, before=None, after=None, **attrs):
    """A reduction over `axes` (an attribute, later an input), with an op before or after it if given."""

    def function(n: Call) -> Value:
        x = n.x()
        axes = n.moved("axes", 1)
        if not axes and n.attr("noop_with_empty_axes", 0):
            return x
        axes = tuple(sorted(axes_of(axes or range(x.type.rank), x.type.rank)))
        x = before(x) if before else x
        how = {"axes": axes, "keepdims": bool(n.attr("keepdims", 1)), "name": n.name, **attrs}
        y = getattr(ops, name)(x, **how) if axes else x
        return after(y) if after else y

    return function


# --- normalisations ------------------------------------------------------------------------------


def batch_norm(n: Call) -> Value:
    n.refuse_outputs(1, "running statistics")
    if not n.attr("spatial", 1):
        raise Unsupported("batch norm with spatial=0 is not supported")
    settings = {"epsilon": n.attr("epsilon", 1e-5), "momentum": round(1 - n.attr("momentum", 0.9), 7)}
    return ops.batch_norm(n.x(), *(n.weight(i) for i in range(1, 5)), axis=1, name=n.name, **settings)


def layer_norm(n: Call):
    x, epsilon = n.x(), n.attr("epsilon", 1e-5)
    axis = axis_of(n.attr("axis", -1), x.type.rank)
    scale = np.broadcast_to(n.array(1, "the scale"), x.shape[axis:])
    weights = [n.constant(np.ascontiguousarray(scale), n.record.inputs[1], 1)]
    if n.given(2):
        bias = np.broadcast_to(n.array(2, "the bias"), x.shape[axis:])
        weights.append(n.constant(np.ascontiguousarray(bias), n.record.inputs[2], 2))
    y = ops.layer_norm(x, *weights, dims=x.type.rank - axis, epsilon=epsilon, name=n.name)
    if not n.wants(1) and not n.wants(2):
        return y
    axes = tuple(range(axis, x.type.rank))
    mean = ops.mean(x, axes=axes, keepdims=True)
    spread = ops.mean(ops.square(ops.sub(x, mean)), axes=axes, keepdims=True)
    return y, mean, ops.rsqrt(ops.add(spread, _number(n, epsilon)))


def instance_norm(n: Call) -> Value:
    return _grouped(n, n.x(), n.x().shape[1])


def group_norm(n: Call) -> Value:
    """Before opset 21 the scale had one number per group, not per channel."""
    x, groups = n.x(), n.attr("num_groups", 1)
    if groups < 1 or x.shape[1] % groups:
        raise ModelError(f"{x.shape[1]} channels do not divide into {groups} groups")
    return _grouped(n, x, groups)


def _grouped(n: Call, x: Value, groups: int) -> Value:
    """layer_norm of each group of channels, then one scale and one bias per channel."""
    flat = ops.reshape(x, shape=(x.shape[0], groups, x.type.size // x.shape[0] // groups))
    normal = ops.reshape(ops.layer_norm(flat, dims=1, epsilon=n.attr("epsilon", 1e-5)), shape=x.shape)
    # torch exports a group norm as this op without scale and bias, followed by its own
    if x.type.rank == 3 and np.all(n.array(1, "the scale") == 1) and not np.any(n.array(2, "the bias")):
        return normal
    scale, bias = (_per_channel(n, i, x) for i in (1, 2))
    return ops.add(ops.mul(normal, scale), bias, name=n.name)


def _per_channel(n: Call, i: int, x: Value) -> Value:
    array = n.array(i).reshape(-1)
    if not array.size or x.shape[1] % array.size:
        raise ModelError(f"{array.size} numbers do not fit {x.shape[1]} channels")
    array = np.repeat(array, x.shape[1] // array.size)
    return n.constant(array.reshape(-1, *[1] * (x.type.rank - 2)), n.record.inputs[i], i)


# --- int8 --------------------------------------------------------------------------------------


def _numerics(n: Call) -> tuple[float, int, bool]:
    """Scale, zero point, and whether the integers are unsigned; one of each per tensor."""
    scale = n.array(1, "the scale")
    zero = n.array(2, "the zero point") if n.given(2) else np.zeros((), np.uint8)
    if scale.size != 1 or zero.size != 1:
        raise Unsupported("one scale per channel of a computed tensor is not supported")
    if zero.dtype not in (np.int8, np.uint8):
        raise Unsupported(f"quantisation to {zero.dtype} is not supported", hint="int8 or uint8")
    if not isfinite(float(scale.reshape(()))) or float(scale.reshape(())) <= 0:
        raise ModelError(f"the scale must be positive and finite, not {scale}")
    return float(scale.reshape(())), int(zero.reshape(())), zero.dtype == np.uint8


def quantize(n: Call) -> Value:
    """Unsigned integers become signed: the numbers and the zero point both shift by 128."""
    x = n.x()
    scale, zero, unsigned = _numerics(n)
    if unsigned and n.record.outputs[0] in n.results:
        raise Unsupported("a uint8 output of the graph is not supported", hint="end the graph with DequantizeLinear")
    out = Type("s8", x.shape, quant(scale, zero - 128 if unsigned else zero))
    return ops.quantize(x, rounding=usual_rounding(out), out=out, name=n.name)


def dequantize(n: Call) -> Value:
    x = n.any(0)
    scale, zero, unsigned = _numerics(n)
    q = x.type.quant
    if x.dtype != "s8" or q is None:
        raise Unsupported(f"{x.type} must come from a QuantizeLinear, not from an input or integer arithmetic")
    if not np.isclose(q.scale[0], scale, rtol=1e-6) or q.zero != (zero - 128 if unsigned else zero):
        raise Unsupported("the scale or zero point differs from that of the QuantizeLinear")
    return ops.dequantize(x, name=n.name)
