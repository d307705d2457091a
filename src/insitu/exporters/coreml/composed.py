"""More rows of the table op -> Core ML layers: ops that are composed of several, or cut a value into parts.

What Core ML's networks for training lack is refused by the op's name: products of two computed matrices, running sums,
and layer norms over more than the last axis. GELU by the error function is a layer of the same version (4) that frozen
layers may use; whether gradients pass through it is not documented.
"""

from __future__ import annotations

from math import pi, prod, sqrt

import numpy as np

from insitu.exporters.coreml.layers import means, pooled, powered, refuse, weights
from insitu.exporters.coreml.net import Blob, Net
from insitu.graph import Node
from insitu.ops import activation, conv_transpose, layout, norm, reduce
from insitu.ops._functions import nearest

# rank of a value -> what its axes after the first are called, channels last and first
LAST = {4: ("height", "width", "channel"), 3: ("width", "channel"), 2: ("channel",)}
FIRST = {4: ("channel", "height", "width"), 3: ("channel", "width")}


@means(activation.gelu)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    """By tanh: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, of layers that were there from the start."""
    x = xs[0]
    if node.attrs["approximate"] != "tanh":
        name = net.fresh("gelu")
        net.builder.add_gelu(name, x.name, name, "EXACT")
        return Blob(name, x.shape, x.image)
    inner = net.linear(net.together("MULTIPLY", x, x), 0.044715 * sqrt(2 / pi), sqrt(2 / pi))
    curve = net.activation(net.together("MULTIPLY", x, inner), "TANH")
    return net.together("MULTIPLY", x, net.linear(curve, 0.5, 0.5))


@means(activation.prelu)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    slope, shape = weights(net, node), node.output.shape
    x = net.image(xs[0]) if len(shape) > 2 else net.plain(xs[0])
    if (slope.size > 1 and slope.shape[-1:] != (slope.size,)) or slope.size not in (1, x.sizes[0]):
        raise refuse(node, f"with slopes {slope.shape}")
    return net.activation(x, "PRELU", np.broadcast_to(slope.reshape(-1), x.sizes[0]).astype(np.float32))


@means(norm.log_softmax)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    """d - log(sum of exp(d)), d = x - max(x): no exp is too large, no sum is zero."""
    x = along(net, node, xs[0], node.attrs["axis"])
    moved = net.together("ADD", x, net.linear(over_channels(net, x, "max"), -1.0, 0.0))
    total = net.linear(over_channels(net, powered(net, moved, "exp")), float(x.sizes[0]), 0.0)
    return net.together("ADD", moved, net.linear(powered(net, total, "log"), -1.0, 0.0))


def along(net: Net, node: Node, x: Blob, axis: int) -> Blob:
    """The value with this axis as its channels."""
    axis %= len(x.shape)
    x = net.image(x) if axis == len(x.shape) - 1 and axis > 1 else net.plain(x)
    if x.sizes[0] != x.shape[axis]:
        raise refuse(node, f"along axis {axis}")
    return x


@means(reduce.sum)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    """The mean over all positions, times their number."""
    x = xs[0]
    axes, last = sorted(a % len(x.shape) for a in node.attrs["axes"]), list(range(1, len(x.shape) - 1))
    if not axes or axes not in (last, [a + 1 for a in last]):
        raise refuse(node, f"over axes {tuple(axes)}")
    x = net.image(x) if axes == last else net.plain(x)
    mean = pooled(net, node, x, "AVERAGE", (1, 1), (1, 1), whole=True)
    return net.linear(mean, float(prod(x.shape[a] for a in axes)), 0.0)


@means(norm.layer_norm)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    """(x - mean) / sqrt(variance + epsilon), mean and variance over the channels; then scale and bias."""
    if node.attrs["dims"] != 1:
        raise refuse(node, f"over {node.attrs['dims']} axes")
    x = along(net, node, xs[0], -1)
    moved = net.together("ADD", x, net.linear(over_channels(net, x), -1.0, 0.0))
    spread = over_channels(net, net.together("MULTIPLY", moved, moved))
    y = net.together("MULTIPLY", moved, powered(net, net.linear(spread, 1.0, node.attrs["epsilon"]), "rsqrt"))
    scale, shift = net.array(node, 1), net.array(node, 2)
    count, name = x.sizes[0], net.fresh("affine")
    if scale is None:
        return y
    shift = np.zeros(count, np.float32) if shift is None else shift
    net.builder.add_scale(name, scale.reshape(count, 1, 1), shift.reshape(count, 1, 1), True, y.name, name,
                          [count, 1, 1], [count, 1, 1])  # fmt: skip
    return Blob(name, x.shape, x.image)


def over_channels(net: Net, x: Blob, mode: str = "avg") -> Blob:
    """The mean or maximum of the channels, one number per position."""
    name = net.fresh(mode)
    net.builder.add_reduce(name, x.name, name, "C", mode)
    return Blob(name, x.shape, x.image)


@means(layout.slice)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    a, x = node.attrs, xs[0]
    for axis, (start, stop, step, size) in enumerate(zip(a["starts"], a["stops"], a["steps"], x.shape)):
        if (start, stop, step) != (0, size, 1):
            x = cut(net, node, x, axis, start, stop, step)
    return Blob(x.name, node.output.shape, x.image)


def cut(net: Net, node: Node, x: Blob, axis: int, start: int, stop: int, step: int = 1) -> Blob:
    """A part of one axis of the sample."""
    rank = len(x.shape)
    if axis == 0:
        raise refuse(node, "of the sample axis")
    word = (FIRST if not x.image and rank > 2 else LAST)[rank][axis - 1]
    name = net.fresh("slice")
    net.builder.add_slice(name, x.name, name, word, start, stop, step)
    sizes = list(x.shape)
    sizes[axis] = len(range(start, stop, step))
    return Blob(name, tuple(sizes), x.image)


@means(layout.split)
def _(net: Net, node: Node, xs: list[Blob]) -> list[Blob]:
    axis, sizes = node.attrs["axis"] % len(xs[0].shape), node.attrs["sizes"]
    ends = np.cumsum(sizes)
    return [cut(net, node, xs[0], axis, int(end - size), int(end)) for end, size in zip(ends, sizes)]


@means(layout.resize)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    """Nearest neighbours, an integer number of times as large."""
    x, a = net.image(xs[0]), node.attrs
    (_, h, w, _), (high, wide) = x.shape, a["size"]
    ways = [nearest(n, m, a["coordinates"], a["rounding"]) for n, m in ((h, high), (w, wide))]
    if any(m % n or not np.array_equal(way, np.arange(m) // (m // n)) for way, n, m in zip(ways, (h, w), (high, wide))):
        raise refuse(node, f"from {h}x{w} to {high}x{wide}")
    name = net.fresh("upsample")
    net.builder.add_upsample(name, high // h, wide // w, x.name, name, "NN")
    return Blob(name, node.output.shape, True)


@means(conv_transpose.conv_transpose2d)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    x, w, b, a = net.image(xs[0]), weights(net, node), net.array(node, 2), node.attrs
    if any(a["output_padding"]) or a["dilation"] != (1, 1) or a["groups"] != 1:
        raise refuse(node, "with output padding, dilation or groups")
    top, bottom, left, right = a["padding"]
    net.builder.add_convolution(
        node.name, w.shape[0], w.shape[3], w.shape[1], w.shape[2], *a["stride"], "valid", 1,
        np.ascontiguousarray(w.transpose(1, 2, 0, 3)), b, b is not None, is_deconv=True, input_name=x.name,
        output_name=node.name, padding_top=top, padding_bottom=bottom, padding_left=left, padding_right=right,
    )  # fmt: skip
    net.layers[node.name] = node.name
    return Blob(node.name, node.output.shape, True)
