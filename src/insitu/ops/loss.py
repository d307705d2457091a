"""Losses: one number per batch, the mean over its samples; and their gradients.

Cross-entropy takes logits, not probabilities: combined, the two are exact where each alone is not.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, Value, f32, op
from insitu.graph.call import Call
from insitu.graph.op import Grads
from insitu.ops._types import Array


def log_probabilities(x):
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _matrix(name: str, x: Type) -> Type:
    if x.rank != 2:
        raise GraphError(f"{name} needs logits[samples, classes], not {x}")
    return x


def _labels(*values) -> np.ndarray:
    return np.array(values, np.int32)


softmax_cross_entropy = op(
    "softmax_cross_entropy",
    "loss = mean over samples of -sum over c of t[c] log softmax(x[n])[c], t[c] = (1 - smoothing) (c == label[n]) + "
    "smoothing / classes",
    cases=[
        Case("one", (f32(1, 5), _labels(3))),
        Case("batch", (f32(3, 5), _labels(0, 4, 2))),
        Case("many classes", (f32(2, 37), _labels(36, 0))),
        Case("smoothing", (f32(3, 7), _labels(0, 6, 2)), {"smoothing": 0.1}),
    ],
)


@softmax_cross_entropy.infer
def _(x: Type, labels: Type, *, smoothing: float = 0.0) -> Type:
    _matrix("softmax_cross_entropy", x)
    if not 0 <= smoothing < 1:
        raise GraphError(f"smoothing must be at least 0 and below 1, not {smoothing}")
    if labels.dtype != "s32" or labels.shape not in ((x.shape[0],), ()):
        raise GraphError(f"{labels} must have one s32 label per sample ({x.shape[0]})")
    return Type(x.dtype, ())


@softmax_cross_entropy.eval
def _(x: Array, labels: Array, *, smoothing: float) -> Array:
    labels = np.reshape(labels, -1)
    if ((labels < 0) | (labels >= x.shape[1])).any():
        return np.asarray(np.nan, x.dtype)  # not a class: the step is skipped, and counted
    logs = log_probabilities(x)
    own = logs[np.arange(x.shape[0]), labels]
    return -((1 - smoothing) * own + smoothing * logs.mean(1)).mean() if smoothing else -own.mean()


@softmax_cross_entropy.grad
def _(g: Value, y: Value, x: Value, labels: Value, *, smoothing: float) -> Grads:
    return softmax_cross_entropy_dx(g, x, labels, smoothing=smoothing, name=f"{x.name}.grad"), None


@softmax_cross_entropy.emit
def _(y: Value, x: Value, labels: Value, *, smoothing: float) -> Call:
    if smoothing:
        return Call("smooth_cross_entropy_f32", y, x, labels, *x.shape, float(smoothing))
    return Call("softmax_cross_entropy_f32", y, x, labels, *x.shape)


softmax_cross_entropy_dx = op(
    "softmax_cross_entropy_dx",
    "dx[n,c] = g (softmax(x[n])[c] - t[c]) / samples, t as in softmax_cross_entropy",
    cases=[
        Case("one", (np.array(1.0, np.float32), f32(1, 5), _labels(3))),
        Case("batch", (np.array(0.5, np.float32), f32(3, 5), _labels(0, 4, 2))),
        Case("smoothing", (np.array(0.5, np.float32), f32(3, 7), _labels(0, 6, 2)), {"smoothing": 0.1}),
    ],
)
softmax_cross_entropy_dx.may(in_place=(1,))


@softmax_cross_entropy_dx.infer
def _(g: Type, x: Type, labels: Type, *, smoothing: float = 0.0) -> Type:
    return x


@softmax_cross_entropy_dx.eval
def _(g: Array, x: Array, labels: Array, *, smoothing: float) -> Array:
    p = np.exp(log_probabilities(x))
    labels = np.reshape(labels, -1)
    known = (labels >= 0) & (labels < x.shape[1])
    p[np.flatnonzero(known), labels[known]] -= 1 - smoothing
    return g * (p - smoothing / x.shape[1] if smoothing else p) / x.shape[0]


@softmax_cross_entropy_dx.emit
def _(dx: Value, g: Value, x: Value, labels: Value, *, smoothing: float) -> Call:
    if smoothing:
        return Call("smooth_cross_entropy_dx_f32", dx, g, x, labels, *x.shape, float(smoothing))
    return Call("softmax_cross_entropy_dx_f32", dx, g, x, labels, *x.shape)


soft_cross_entropy = op(
    "soft_cross_entropy",
    "loss = mean over samples of -sum over c of target[n,c] log softmax(x[n])[c]; targets sum to one",
    cases=[Case("batch", (f32(3, 5), np.full((3, 5), 0.2, np.float32)))],
)


@soft_cross_entropy.infer
def _(x: Type, target: Type) -> Type:
    if _matrix("soft_cross_entropy", x).shape != target.shape:
        raise GraphError(f"targets {target} do not match logits {x}")
    return Type(x.dtype, ())


@soft_cross_entropy.eval
def _(x: Array, target: Array) -> Array:
    return -(target * log_probabilities(x)).sum() / x.shape[0]


@soft_cross_entropy.grad
def _(g: Value, y: Value, x: Value, target: Value) -> Grads:
    return soft_cross_entropy_dx(g, x, target, name=f"{x.name}.grad"), None


@soft_cross_entropy.emit
def _(y: Value, x: Value, target: Value) -> Call:
    return Call("soft_cross_entropy_f32", y, x, target, *x.shape)


soft_cross_entropy_dx = op(
    "soft_cross_entropy_dx",
    "dx = g (softmax(x) sum(target) - target) / samples",
    cases=[Case("batch", (np.array(0.5, np.float32), f32(3, 5), np.full((3, 5), 0.2, np.float32)))],
)
soft_cross_entropy_dx.may(in_place=(1,))


@soft_cross_entropy_dx.infer
def _(g: Type, x: Type, target: Type) -> Type:
    return x


@soft_cross_entropy_dx.eval
def _(g: Array, x: Array, target: Array) -> Array:
    p = np.exp(log_probabilities(x))
    return g * (p * target.sum(-1, keepdims=True) - target) / x.shape[0]


@soft_cross_entropy_dx.emit
def _(dx: Value, g: Value, x: Value, target: Value) -> Call:
    return Call("soft_cross_entropy_dx_f32", dx, g, x, target, *x.shape)


binary_cross_entropy = op(
    "binary_cross_entropy",
    "loss = mean over elements of log(1 + exp(-|x|)) + max(x, 0) - x target, with logits x",
    cases=[Case("batch", (f32(3, 5), np.eye(3, 5, dtype=np.float32)))],
)


@binary_cross_entropy.infer
def _(x: Type, target: Type) -> Type:
    if x.shape != target.shape:
        raise GraphError(f"targets {target} do not match logits {x}")
    return Type(x.dtype, ())


@binary_cross_entropy.eval
def _(x: Array, target: Array) -> Array:
    return (np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0) - x * target).mean()


@binary_cross_entropy.grad
def _(g: Value, y: Value, x: Value, target: Value) -> Grads:
    return binary_cross_entropy_dx(g, x, target, name=f"{x.name}.grad"), None


@binary_cross_entropy.emit
def _(y: Value, x: Value, target: Value) -> Call:
    return Call("binary_cross_entropy_f32", y, x, target, x.type.size)


binary_cross_entropy_dx = op(
    "binary_cross_entropy_dx",
    "dx = g (sigmoid(x) - target) / elements",
    cases=[Case("batch", (np.array(0.5, np.float32), f32(3, 5), np.eye(3, 5, dtype=np.float32)))],
)
binary_cross_entropy_dx.may(in_place=(1,))


@binary_cross_entropy_dx.infer
def _(g: Type, x: Type, target: Type) -> Type:
    return x


@binary_cross_entropy_dx.eval
def _(g: Array, x: Array, target: Array) -> Array:
    return g * (1 / (1 + np.exp(-x)) - target) / x.size


@binary_cross_entropy_dx.emit
def _(dx: Value, g: Value, x: Value, target: Value) -> Call:
    return Call("binary_cross_entropy_dx_f32", dx, g, x, target, x.type.size)


mean_squared_error = op(
    "mean_squared_error",
    "loss = mean over elements of (x - target)^2",
    cases=[Case("batch", (f32(3, 5), f32(3, 5))), Case("map", (f32(1, 3, 3, 2), f32(1, 3, 3, 2)))],
)


@mean_squared_error.infer
def _(x: Type, target: Type) -> Type:
    if x.shape != target.shape:
        raise GraphError(f"targets {target} do not match outputs {x}")
    return Type(x.dtype, ())


@mean_squared_error.eval
def _(x: Array, target: Array) -> Array:
    return np.square(x - target).mean()


@mean_squared_error.grad
def _(g: Value, y: Value, x: Value, target: Value) -> Grads:
    return mean_squared_error_dx(g, x, target, name=f"{x.name}.grad"), None


@mean_squared_error.emit
def _(y: Value, x: Value, target: Value) -> Call:
    return Call("mean_squared_error_f32", y, x, target, x.type.size)


mean_squared_error_dx = op(
    "mean_squared_error_dx",
    "dx = 2 g (x - target) / elements",
    cases=[Case("batch", (np.array(0.5, np.float32), f32(3, 5), f32(3, 5)))],
)
mean_squared_error_dx.may(in_place=(1,))


@mean_squared_error_dx.infer
def _(g: Type, x: Type, target: Type) -> Type:
    return x


@mean_squared_error_dx.eval
def _(g: Array, x: Array, target: Array) -> Array:
    return 2 * g * (x - target) / x.size


@mean_squared_error_dx.emit
def _(dx: Value, g: Value, x: Value, target: Value) -> Call:
    return Call("mean_squared_error_dx_f32", dx, g, x, target, x.type.size)
