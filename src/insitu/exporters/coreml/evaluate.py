"""What a saved Core ML network computes, in numpy: Core ML itself runs on Apple's systems only.

Reads the specification as protobuf and nothing else, so it sees what a phone would see. It knows the layers that
layers.py writes, refuses every other, and checks the network on the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from insitu.errors import ModelError
from insitu.ops._functions import erf
from insitu.ops._windows import conv_eval, patches, window_counts

Array = np.ndarray


def network(spec: Any) -> Any:
    return getattr(spec, spec.WhichOneof("Type"))


def evaluated(spec: Any, feeds: dict[str, Array]) -> dict[str, Array]:
    """Every blob by name; a feed has [channels, height, width] or fewer axes."""
    env = {name: _blob(x) for name, x in feeds.items()}
    for layer in network(spec).layers:
        kind = layer.WhichOneof("layer")
        if kind not in LAYERS:
            raise ModelError(f"layer {layer.name} is {kind}, which the evaluator does not know")
        for name in layer.input:
            if name not in env:
                raise ModelError(f"layer {layer.name} reads {name}, which no layer before it makes")
        env[layer.output[0]] = LAYERS[kind](getattr(layer, kind), *(env[name] for name in layer.input))
    return env


def _blob(x: Array) -> Array:
    return np.asarray(x, np.float64).reshape(x.shape if x.ndim == 3 else (x.size, 1, 1))


def _floats(params: Any, shape: tuple[int, ...] = (-1,)) -> Array:
    return np.array(params.floatValue, np.float64).reshape(shape)


def _padding(amounts: Any) -> tuple[int, int, int, int]:
    (top, bottom), (left, right) = ((e.startEdgeSize, e.endEdgeSize) for e in amounts.borderAmounts)
    return top, bottom, left, right


def deconvolution(p: Any, x: Array) -> Array:
    """Every input pixel adds its kernel to the output; the padding is cut off."""
    (kh, kw), (sh, sw), (top, bottom, left, right) = p.kernelSize, p.stride, _padding(p.valid.paddingAmounts)
    w = _floats(p.weights, (p.kernelChannels, p.outputChannels, kh, kw))
    _, h, wide = x.shape
    y = np.zeros((p.outputChannels, (h - 1) * sh + kh, (wide - 1) * sw + kw))
    for i, j in np.ndindex(h, wide):
        y[:, i * sh : i * sh + kh, j * sw : j * sw + kw] += np.tensordot(x[:, i, j], w, 1)
    y = y[:, top : y.shape[1] - bottom, left : y.shape[2] - right]
    return y + _floats(p.bias, (-1, 1, 1)) if p.hasBias else y


def convolution(p: Any, x: Array) -> Array:
    if p.isDeconvolution:
        return deconvolution(p, x)
    w = _floats(p.weights, (p.outputChannels, p.kernelChannels, *p.kernelSize)).transpose(0, 2, 3, 1)
    y = conv_eval(x.transpose(1, 2, 0)[None], w, tuple(p.stride), _padding(p.valid.paddingAmounts),
                  tuple(p.dilationFactor) or (1, 1), p.nGroups)[0]  # fmt: skip
    return (y + _floats(p.bias) if p.hasBias else y).transpose(2, 0, 1)


def inner_product(p: Any, x: Array) -> Array:
    y = _floats(p.weights, (p.outputChannels, p.inputChannels)) @ x.reshape(-1)
    return (y + _floats(p.bias) if p.hasBias else y).reshape(-1, 1, 1)


def pooling(p: Any, x: Array) -> Array:
    average = p.type == p.AVERAGE
    if p.globalPooling:
        return x.mean((1, 2), keepdims=True) if average else x.max((1, 2), keepdims=True)
    kernel, stride, padding = tuple(p.kernelSize), tuple(p.stride), _padding(p.valid.paddingAmounts)
    windows = patches(x.transpose(1, 2, 0)[None], kernel, stride, padding, (1, 1), 0.0 if average else -np.inf)
    counts = window_counts(x.shape[1:], kernel, stride, padding, not p.avgPoolExcludePadding)
    y = windows.sum((3, 4)) / counts if average else windows.max((3, 4))
    return y[0].transpose(2, 0, 1)


ACTIVATIONS = {
    "ReLU": lambda p, x: np.maximum(x, 0),
    "sigmoid": lambda p, x: 1 / (1 + np.exp(-x)),
    "tanh": lambda p, x: np.tanh(x),
    "softplus": lambda p, x: np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0),
    "leakyReLU": lambda p, x: np.where(x > 0, x, p.alpha * x),
    "ELU": lambda p, x: np.where(x > 0, x, p.alpha * np.expm1(np.minimum(x, 0))),
    "sigmoidHard": lambda p, x: np.clip(p.alpha * x + p.beta, 0, 1),
    "linear": lambda p, x: p.alpha * x + p.beta,
    "PReLU": lambda p, x: np.where(x > 0, x, _floats(p.alpha, (-1, 1, 1)) * x),
}


def activation(p: Any, x: Array) -> Array:
    kind = p.WhichOneof("NonlinearityType")
    return ACTIVATIONS[kind](getattr(p, kind), x)


def softmax(p: Any, x: Array) -> Array:
    e = np.exp(x - x.max(0, keepdims=True))
    return e / e.sum(0, keepdims=True)


def batchnorm(p: Any, x: Array) -> Array:
    gamma, beta, mean, variance = (_floats(v, (-1, 1, 1)) for v in (p.gamma, p.beta, p.mean, p.variance))
    return (x - mean) / np.sqrt(variance + p.epsilon) * gamma + beta


UNARY = {"SQRT": np.sqrt, "RSQRT": lambda x: 1 / np.sqrt(x), "INVERSE": lambda x: 1 / x, "EXP": np.exp, "LOG": np.log,
         "ABS": np.abs}  # fmt: skip


def unary(p: Any, x: Array) -> Array:
    return UNARY[p.Operation.Name(p.type)](p.scale * x + p.shift)


def padding(p: Any, x: Array) -> Array:
    top, bottom, left, right = _padding(p.paddingAmounts)
    return np.pad(x, ((0, 0), (top, bottom), (left, right)), constant_values=p.constant.value)


def gelu(p: Any, x: Array) -> Array:
    if p.mode != p.EXACT:
        raise ModelError("a GELU of another mode than EXACT")
    return x * 0.5 * (1 + erf(x / np.sqrt(2)))


def sliced(p: Any, x: Array) -> Array:
    axis = {p.CHANNEL_AXIS: 0, p.HEIGHT_AXIS: 1, p.WIDTH_AXIS: 2}[p.axis]
    return x[(slice(None),) * axis + (slice(p.startIndex, p.endIndex, p.stride),)]


def reduced(p: Any, x: Array) -> Array:
    if p.mode not in (p.AVG, p.MAX) or p.axis != p.C:
        raise ModelError("a reduction other than the mean or maximum of the channels")
    return x.mean(0, keepdims=True) if p.mode == p.AVG else x.max(0, keepdims=True)


def scaled(p: Any, x: Array) -> Array:
    y = x * _floats(p.scale, tuple(p.shapeScale))
    return y + _floats(p.bias, tuple(p.shapeBias)) if p.hasBias else y


def product(p: Any, *xs: Array) -> Array:
    return xs[0] * (xs[1] if len(xs) > 1 else p.alpha)


LAYERS = {
    "convolution": convolution,
    "innerProduct": inner_product,
    "pooling": pooling,
    "activation": activation,
    "softmax": softmax,
    "batchnorm": batchnorm,
    "unary": unary,
    "padding": padding,
    "add": lambda p, *xs: xs[0] + (xs[1] if len(xs) > 1 else p.alpha),
    "multiply": product,
    "concat": lambda p, *xs: np.concatenate(xs, 0),
    "bias": lambda p, x: x + _floats(p.bias, tuple(p.shape)),
    "scale": scaled,
    "gelu": gelu,
    "slice": sliced,
    "reduce": reduced,
    "upsample": lambda p, x: x.repeat(p.scalingFactor[0], 1).repeat(p.scalingFactor[1], 2),
    "permute": lambda p, x: x[None].transpose(tuple(p.axis))[0],
    "flatten": lambda p, x: (x.transpose(1, 2, 0) if p.mode == p.CHANNEL_LAST else x).reshape(-1, 1, 1),
    "reshape": lambda p, x: x.reshape(tuple(p.targetShape)),
}


def validated(spec: Any) -> None:
    """The rules of an updatable network that Core ML's compiler holds a file to; an error says which is broken."""
    net = network(spec)
    for layer in net.layers:
        params = getattr(layer, layer.WhichOneof("layer"))
        if layer.isUpdatable and not (params.weights.isUpdatable and (not params.hasBias or params.bias.isUpdatable)):
            raise ModelError(f"layer {layer.name} is updatable, but its weights are not")
    if not spec.isUpdatable:
        return
    updates, makers = net.updateParams, {name: layer for layer in net.layers for name in layer.output}
    (loss,) = updates.lossLayers
    kind = loss.WhichOneof("LossLayerType")
    source = makers.get(getattr(loss, kind).input)
    if source is None or (kind == "categoricalCrossEntropyLossLayer" and source.WhichOneof("layer") != "softmax"):
        raise ModelError("the loss does not stand behind a layer that it can learn from")
    if not any(layer.isUpdatable for layer in net.layers) or updates.epochs.defaultValue < 1:
        raise ModelError("nothing is updated")
    if len(spec.description.trainingInput) != len(spec.description.input) + 1:
        raise ModelError("a sample to train with has its inputs and one target")
