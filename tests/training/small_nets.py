"""Small networks with everything: padding, a skip, a depthwise layer, pooling, a classifier; float, and as int8."""

from functools import cache

import numpy as np

import insitu.ops  # noqa: F401  fills the registry
from insitu.graph import Builder, Graph, build, f32, lookup
from insitu.learner.model import Model

SHAPE = (1, 5, 6, 3)


@cache
def float_net() -> Graph:
    rng = np.random.default_rng(0)
    builder = Builder("small")

    def weight(name: str, *shape: int):
        fan = np.prod(shape[1:]) if len(shape) != 3 else 9
        return builder.constant(name, (rng.normal(size=shape) * np.sqrt(2 / fan)).astype(np.float32))

    def bias(name: str, n: int):
        return builder.constant(name, rng.normal(size=n).astype(np.float32) * np.float32(0.2))

    same = {"padding": (1, 1, 1, 1)}
    with build(builder):
        x = builder.input("x", f32(*SHAPE))
        y = lookup("conv2d")(x, weight("stem.weight", 4, 3, 3, 3), bias("stem.bias", 4), **same, name="stem")
        y = lookup("relu6")(y, name="stem.relu")
        z = lookup("conv2d")(y, weight("inner.weight", 4, 3, 3, 4), bias("inner.bias", 4), **same, name="inner")
        y = lookup("relu")(lookup("add")(y, z, name="skip"), name="skip.relu")
        w, b = weight("deep.weight", 3, 3, 4), bias("deep.bias", 4)
        y = lookup("depthwise2d")(y, w, b, stride=(2, 2), padding=(0, 1, 1, 0), name="deep")
        y = lookup("mean")(lookup("relu")(y, name="deep.relu"), axes=(1, 2), name="pool")
        y = lookup("linear")(y, weight("fc.weight", 3, 4), bias("fc.bias", 3), name="fc")
    return builder.graph(y)


@cache
def int8_net() -> Graph:
    """Calibrated on a smaller range than its inputs, so that values are clamped at both ends."""
    x = np.random.default_rng(1).normal(size=(16, *SHAPE[1:])).astype(np.float32)
    return Model(float_net()).quantize(0.4 * x, method="minmax").graph
