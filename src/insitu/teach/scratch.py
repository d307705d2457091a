"""Small networks for tables, recordings, sounds and small pictures. They start from random weights and learn in
float; int8 comes afterwards.

The inputs are normalised inside the network, by the mean and spread of the examples that are learned: raw numbers go
in, on a board too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.graph import Builder, Graph, Type, Value, build
from insitu.ops.activation import relu
from insitu.ops.conv import conv2d
from insitu.ops.depthwise import depthwise2d
from insitu.ops.layout import concat, reshape
from insitu.ops.linear import linear
from insitu.ops.norm import batch_norm
from insitu.ops.normalize import normalize
from insitu.ops.reduce import mean
from insitu.preprocess import Audio, Transform

HIDDEN = (64, 32)  # widths of the layers for a table
FILTERS = (24, 32, 48)  # of the convolutions over time
KERNEL, STRIDE = 5, 2
LISTENING = Audio(coefficients=None, high=7600.0)  # a second at 16 kHz: 49 x 40 logarithms of mel bands
WIDTH, BLOCKS = 64, 4  # of the separable convolutions over them
FIRST, MOST = 16, 64  # filters over a picture: twice as many wherever it is halved
LEAST = 2  # pixels of the shorter side, down to which it is halved
HEARD = 200  # sounds that the mean and spread of the features are measured on


def for_table(rows: np.ndarray, classes: int, seed: int = 0) -> Graph:
    """Two hidden layers for rows of numbers f32[examples, columns]."""
    builder, rng = Builder("table"), np.random.default_rng(seed)
    with build(builder):
        x = builder.input("row", Type("f32", (1, rows.shape[1])))
        x = normalize(x, **spread(rows, (0,)), name="normalised")
        for k, width in enumerate(HIDDEN):
            x = relu(_linear(builder, x, f"hidden{k + 1}", width, rng), name=f"relu{k + 1}")
        return builder.graph(_linear(builder, x, "classifier", classes, rng))


def for_quantity(rows: np.ndarray, count: int, seed: int = 0) -> Graph:
    """The same for a quantity. The last layer also sees the inputs: much of what tables say is a weighted sum."""
    builder, rng = Builder("quantity"), np.random.default_rng(seed)
    with build(builder):
        row = normalize(builder.input("row", Type("f32", (1, rows.shape[1]))), **spread(rows, (0,)), name="normalised")
        x = row
        for k, width in enumerate(HIDDEN):
            x = relu(_linear(builder, x, f"hidden{k + 1}", width, rng), name=f"relu{k + 1}")
        return builder.graph(_linear(builder, concat(x, row, axis=1, name="both"), "last", count, rng))


def for_windows(windows: np.ndarray, classes: int, seed: int = 0) -> Graph:
    """Three strided convolutions over time, and the mean, for f32[examples, 1, times, channels]."""
    builder, rng = Builder("windows"), np.random.default_rng(seed)
    with build(builder):
        x = builder.input("window", Type("f32", (1, *windows.shape[1:])))
        x = normalize(x, **spread(windows, (0, 1, 2)), name="normalised")
        for k, filters in enumerate(FILTERS):
            w = rng.normal(0, np.sqrt(2 / (KERNEL * x.shape[3])), (filters, 1, KERNEL, x.shape[3]))
            weight = builder.constant(f"conv{k + 1}.weight", w.astype(np.float32))
            bias = builder.constant(f"conv{k + 1}.bias", np.zeros(filters, np.float32))
            pad = KERNEL // 2
            x = conv2d(x, weight, bias, stride=(1, STRIDE), padding=(0, 0, pad, pad), name=f"conv{k + 1}")
            x = relu(x, name=f"relu{k + 1}")
        return builder.graph(_linear(builder, mean(x, axes=(1, 2), name="pool"), "classifier", classes, rng))


def for_sounds(sounds: np.ndarray, classes: int, seed: int = 0, listening: Audio = LISTENING) -> Graph:
    """Separable convolutions with batch norm, and the mean, over the features of s16[sounds, rows, samples, 1]."""
    features = listening.of(sounds[:: -(-len(sounds) // HEARD)])
    middle, deviation = float(features.mean()), float(features.std()) or 1.0
    builder, rng = Builder("sounds"), np.random.default_rng(seed)
    with build(builder):
        x = replace(listening, mean=middle, std=deviation).made(builder)
        w = _drawn(builder, "stem.weight", (WIDTH, 10, 8, 1), 80, rng)
        x = _normed(builder, conv2d(x, w, stride=(2, 4), padding=(4, 5, 2, 2), name="stem"))
        for k in range(BLOCKS):
            w = _drawn(builder, f"depthwise{k + 1}.weight", (3, 3, WIDTH), 9, rng)
            x = _normed(builder, depthwise2d(x, w, padding=(1, 1, 1, 1), name=f"depthwise{k + 1}"))
            w = _drawn(builder, f"pointwise{k + 1}.weight", (WIDTH, 1, 1, WIDTH), WIDTH, rng)
            x = _normed(builder, conv2d(x, w, name=f"pointwise{k + 1}"))
        return builder.graph(_linear(builder, mean(x, axes=(1, 2), name="pool"), "classifier", classes, rng))


def for_pictures(pictures: np.ndarray, classes: int, seed: int = 0) -> Graph:
    """Convolutions with batch norm that halve u8[pictures, height, width, channels] until little of it is left."""
    builder, rng = Builder("pictures"), np.random.default_rng(seed)
    with build(builder):
        x = builder.input("picture", Type("f32", (1, *pictures.shape[1:])))
        x = _seen(builder, x, "conv1", FIRST, 1, rng)
        for k in range(2, 2 + halvings(min(x.shape[1:3]))):
            x = _seen(builder, x, f"conv{k}", min(MOST, 2 * x.shape[3]), 2, rng)
        flat = reshape(x, shape=(1, int(np.prod(x.shape))), name="flat")  # where something is counts, unlike in a mean
        graph = builder.graph(_linear(builder, flat, "classifier", classes, rng))
    usual = spread(pictures / 255, (0, 1, 2))
    return Transform(usual["mean"], usual["std"]).applied_to(graph)


def halvings(side: int) -> int:
    """How often a side is halved, and rounded up, until it is short enough."""
    return 0 if side <= LEAST else 1 + halvings(-(-side // 2))


def _seen(builder: Builder, x: Value, name: str, filters: int, stride: int, rng: np.random.Generator) -> Value:
    w = _drawn(builder, f"{name}.weight", (filters, 3, 3, x.shape[3]), 9 * x.shape[3], rng)
    return _normed(builder, conv2d(x, w, stride=(stride, stride), padding=(1, 1, 1, 1), name=name))


def _drawn(builder: Builder, name: str, shape: tuple[int, ...], inputs: int, rng: np.random.Generator) -> Value:
    return builder.constant(name, rng.normal(0, np.sqrt(2 / inputs), shape).astype(np.float32))


def _normed(builder: Builder, x: Value) -> Value:
    """relu(batch_norm(x))"""
    first = {"scale": 1.0, "shift": 0.0, "mean": 0.0, "variance": 1.0}
    own = [builder.constant(f"{x.name}.{k}", np.full(x.shape[-1], v, np.float32)) for k, v in first.items()]
    return relu(batch_norm(x, *own, name=f"{x.name}.norm"), name=f"{x.name}.relu")


def _linear(builder: Builder, x: Value, name: str, width: int, rng: np.random.Generator) -> Value:
    w = rng.normal(0, np.sqrt(2 / x.shape[1]), (width, x.shape[1])).astype(np.float32)
    weight = builder.constant(f"{name}.weight", w)
    return linear(x, weight, builder.constant(f"{name}.bias", np.zeros(width, np.float32)), name=name)


def spread(x: np.ndarray, axes: tuple[int, ...]) -> dict[str, tuple[float, ...]]:
    """Mean and standard deviation per column or channel; a constant one has a deviation of 1."""
    middle, std = x.mean(axes, dtype=np.float64), x.std(axes, dtype=np.float64)
    std = np.where(std > 1e-6 * np.maximum(np.abs(middle), 1e-6), std, 1.0)
    return {"mean": tuple(map(float, middle)), "std": tuple(map(float, std))}
