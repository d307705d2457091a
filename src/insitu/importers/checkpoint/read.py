"""The int8 ImageNet checkpoints of the Tiny Training Engine paper as graphs: mcunet-5fps, mbv2-w0.35, proxyless-w0.3.

A zip file with a pickle of numpy arrays: a first convolution, blocks (pointwise, depthwise, pointwise, and in some a
residual add), and a classifier of 1000 classes over the mean of the last features. Everything is int8 and rounds once;
ReLU6 is just the clamp to int8, because the zero point is -128. The input is `pixel - 128`, s8[1x128x128x3]. Names are
those of the file: `first_conv`, `blocks.3.pointwise1`.

Dead channels. Batch normalisation switched some channels off: their weight scales are 1e-9 to 1e-6 and their biases
reach the int32 limit. Their output is constant, but their sums may overflow int32, and training divides by the square
of the scale. A channel below DEAD whose output is provably constant gets zero weights, the median scale of the layer's
live channels, and the bias that gives the same constant in the same arithmetic. All other channels stay as they are.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from struct import error as struct_error

import numpy as np

from insitu.errors import Error, ModelError
from insitu.graph import Builder, Graph, Quant, Type, Value, build
from insitu.importers.safe.pickled import Array, read_pickle
from insitu.ops.arith import add_s8
from insitu.ops.conv import conv2d_s8
from insitu.ops.depthwise import depthwise2d_s8
from insitu.ops.linear import linear_s8
from insitu.ops.reduce import mean_s8

MEMBER = "archive/data.pkl"
MAX_BYTES = 64 << 20  # limit for the file and for its inflated size; the largest of the three is 1 MB
MAX_RATIO = 100  # inflated size over stored size: more than this is a zip bomb
MAX_BLOCKS = 256
DEAD = 1e-6


@dataclass(frozen=True, eq=False)
class Layer:
    """One convolution of the file, with its form checked."""

    name: str
    weight: np.ndarray  # int8 [O, I/groups, KH, KW]
    bias: np.ndarray  # int32 [O]
    scale: np.ndarray  # float32 [O]
    stride: int
    groups: int
    x: Quant
    y: Quant


def read_checkpoint(source) -> Graph:
    """The graph of a checkpoint, given as a path or as bytes."""
    name = "checkpoint" if isinstance(source, bytes) else Path(source).stem
    try:
        return _graph(name, read_pickle(_member(source)))
    except Error as e:
        raise ModelError(e.what, where=": ".join(p for p in (name, e.where) if p), hint=e.hint) from e


def _member(source) -> bytes:
    """The pickle inside the zip file. Sizes are checked before anything is inflated."""
    try:
        data = source if isinstance(source, bytes) else _file(Path(source))
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            info = archive.getinfo(MEMBER)
            if info.file_size > min(MAX_BYTES, MAX_RATIO * max(info.compress_size, 1)):
                raise ModelError(f"{info.compress_size:,} bytes would inflate to {info.file_size:,}", where=MEMBER)
            with archive.open(info) as member:
                return member.read(info.file_size + 1)
    except KeyError as e:
        raise ModelError(f"does not contain {MEMBER}: this is another kind of zip file") from e
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, struct_error) as e:
        raise ModelError(f"cannot be read as a zip file: {str(e)[:100]}") from e


def _file(path: Path) -> bytes:
    if path.stat().st_size > MAX_BYTES:
        raise ModelError(f"is larger than {MAX_BYTES:,} bytes")
    return path.read_bytes()


# --- the network -----------------------------------------------------------------------------------


def _graph(name: str, tree) -> Graph:
    size = _get(_get(tree, "first_conv", dict, ""), "in_shape", int, "first_conv")
    blocks = _get(tree, "blocks", list, "")
    if len(blocks) > MAX_BLOCKS:
        raise ModelError(f"has {len(blocks)} blocks")
    if tree.get("feature_mix") is not None:
        raise ModelError("a feature mix is not supported; no known checkpoint has one", where="feature_mix")
    builder = Builder(name)
    with build(builder):
        first = _layer(tree["first_conv"], "first_conv")
        x = builder.input("input", Type("s8", (1, size, size, first.weight.shape[1] * first.groups), first.x))
        x = _conv(builder, first, x)
        for i, block in enumerate(blocks):
            x = _block(builder, block, f"blocks.{i}", x)
        y = _classifier(builder, _layer(_get(tree, "classifier", dict, ""), "classifier"), x)
    return builder.graph(y)


def _block(builder: Builder, block, name: str, x: Value) -> Value:
    """pointwise1 (optional), depthwise, pointwise2, and the residual add (optional)."""
    if not isinstance(block, dict) or block.get("se") is not None:
        raise ModelError("is not a block of two or three convolutions", where=name)
    y = x
    for part in ("pointwise1", "depthwise", "pointwise2"):
        if block.get(part) is not None or part != "pointwise1":
            y = _conv(builder, _layer(_get(block, part, dict, name), f"{name}.{part}"), y)
    if block.get("residual") is None:
        return y
    where = f"{name}.residual"
    params = _get(_get(block, "residual", dict, name), "params", dict, where)
    if _quant(params, "x", where) != x.type.quant:
        raise ModelError("the skip connection and the block's input have different scales", where=where)
    return add_s8(x, y, name=where, out=Type("s8", (), _quant(params, "y", where)))


def _conv(builder: Builder, layer: Layer, x: Value) -> Value:
    _continues(layer, x)
    kernel, channels = layer.weight.shape[2:], len(layer.bias)
    depthwise = layer.groups == channels == x.shape[-1] and layer.groups > 1
    w = layer.weight[:, 0].transpose(1, 2, 0) if depthwise else layer.weight.transpose(0, 2, 3, 1)
    axis = 2 if depthwise else 0
    values = _parameters(builder, layer, np.ascontiguousarray(w), axis)
    top, left = ((k - 1) // 2 for k in kernel)
    how = {"stride": (layer.stride,) * 2, "padding": (top, top, left, left), "name": layer.name}
    out = Type("s8", (), layer.y)
    if depthwise:
        return depthwise2d_s8(x, *values, **how, out=out)
    return conv2d_s8(x, *values, **how, groups=layer.groups, out=out)


def _classifier(builder: Builder, layer: Layer, x: Value) -> Value:
    """The mean over the image, at the scale of its pixels, then a linear layer."""
    _continues(layer, x)
    if layer.weight.shape[2:] != (1, 1):
        raise ModelError("the classifier is not a 1x1 convolution", where=layer.name)
    pooled = mean_s8(x, axes=(1, 2), name="pool", out=x.type)
    values = _parameters(builder, layer, layer.weight[:, :, 0, 0], 0)
    return linear_s8(pooled, *values, name=layer.name, out=Type("s8", (), layer.y))


def _parameters(builder: Builder, layer: Layer, w: np.ndarray, axis: int) -> tuple[Value, Value]:
    quant = Quant(tuple(float(s) for s in layer.scale), 0, axis)
    weight = builder.constant(f"{layer.name}.weight", w, Type("s8", w.shape, quant))
    return weight, builder.constant(f"{layer.name}.bias", layer.bias)


def _continues(layer: Layer, x: Value) -> None:
    if layer.x != x.type.quant:
        raise ModelError(f"expects {layer.x}, but the layer before gives {x.type}", where=layer.name)


# --- dead channels ---------------------------------------------------------------------------------


def sanitised(layer: Layer) -> Layer:
    """The layer with its dead channels made harmless; the top of this file explains how."""
    dead = layer.scale < DEAD
    if not dead.any() or dead.all():
        return layer
    sane = float(np.median(layer.scale[~dead]))
    weight, bias, scale = layer.weight.copy(), layer.bias.copy(), layer.scale.copy()
    for o in np.flatnonzero(dead).tolist():
        constant = _constant_output(layer, o)
        if constant is not None:
            weight[o], scale[o] = 0, sane
            bias[o] = _bias_for(constant, layer, float(scale[o]), float(layer.bias[o]) * float(layer.scale[o]) / sane)
    return replace(layer, weight=weight, bias=bias, scale=scale)


def _constant_output(layer: Layer, o: int) -> int | None:
    """The constant output of a channel, or None if the inputs can change it. Sums here never wrap."""
    w = layer.weight[o].astype(np.int64)
    low, high = -128 - layer.x.zero, 127 - layer.x.zero
    least = int(np.minimum(w * low, w * high).sum()) + int(layer.bias[o])
    most = int(np.maximum(w * low, w * high).sum()) + int(layer.bias[o])
    ends = {_requantised(acc, layer, float(layer.scale[o])) for acc in (least, most)}
    return ends.pop() if len(ends) == 1 else None


def _bias_for(constant: int, layer: Layer, scale: float, wish: float) -> int:
    """The bias nearest to the old one, in real numbers, that still gives this output."""
    bias = int(np.clip(round(wish), -(1 << 30), 1 << 30))
    if _requantised(bias, layer, scale) == constant:
        return bias
    return round((constant - layer.y.zero) * layer.y.scale[0] / (layer.x.scale[0] * scale))


def _requantised(acc: int, layer: Layer, scale: float) -> int:
    """The output for a sum, rounded once, in Python's unbounded integers."""
    from insitu.ops._requant import quantize_multiplier

    m, shift = quantize_multiplier(layer.x.scale[0] * scale / layer.y.scale[0])
    rounded = (acc * m + (1 << (30 - shift))) >> (31 - shift)
    return min(max(rounded + layer.y.zero, -128), 127)


# --- reading the dicts -----------------------------------------------------------------------------


def _layer(record: dict, name: str) -> Layer:
    params = _get(record, "params", dict, name)
    weight = _array(params, "weight", np.int8, 4, name)
    bias = _array(params, "bias", np.int32, 1, name)
    scale = _array(params, "w_scales", np.float32, 1, name)
    stride, groups = (_get(record, key, int, name) for key in ("stride", "groups"))
    if not len(weight) == len(bias) == len(scale) or min(stride, groups) < 1 or weight.size == 0:
        raise ModelError(f"{len(bias)} biases and {len(scale)} scales do not fit weights {weight.shape}", where=name)
    if not np.all(np.isfinite(scale) & (scale > 0)):
        raise ModelError("weight scales must be positive and finite", where=name)
    return sanitised(
        Layer(name, weight, bias, scale, stride, groups, _quant(params, "x", name), _quant(params, "y", name))
    )


def _quant(params: dict, side: str, where: str) -> Quant:
    scale, zero = _get(params, f"{side}_scale", float, where), _get(params, f"{side}_zero", int, where)
    if not 0 < scale < np.inf or not -128 <= zero <= 127:
        raise ModelError(f"the scale {scale} or the zero point {zero} is not valid", where=f"{where}.{side}")
    return Quant((scale,), zero)


def _array(params: dict, key: str, dtype, rank: int, where: str) -> np.ndarray:
    array = _get(params, key, Array, where).array
    if array is None or array.dtype != dtype or array.ndim != rank:
        found = "nothing" if array is None else f"{array.dtype}{array.shape}"
        raise ModelError(f"{key} must be {np.dtype(dtype)} of rank {rank}, not {found}", where=where)
    return array


def _get(record, key: str, kind: type, where: str):
    """The entry of a dict; it must exist and be of this kind."""
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ModelError(f"has no {kind.__name__} named {key!r}", where=where)
    return value
