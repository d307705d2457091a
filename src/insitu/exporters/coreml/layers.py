"""The table op -> Core ML layers. A row takes the network, the node and the blobs of its computed inputs.

Layers are those that Core ML 3 trained with: no layer here is newer, so that gradients pass through all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod

import numpy as np

from insitu.errors import Unsupported
from insitu.exporters.coreml.net import Blob, Net
from insitu.graph import Node, Op
from insitu.ops import activation, arith, conv, depthwise, layout, linear, norm, normalize, pool, quant, reduce, unary

Row = Callable[[Net, Node, list[Blob]], Blob | list[Blob]]
TABLE: dict[Op, Row] = {}


def means(*ops: Op):
    def declare(row: Row) -> Row:
        for op in ops:
            TABLE[op] = row
        return row

    return declare


def refuse(node: Node, why: str) -> Unsupported:
    return Unsupported(f"Core ML cannot express {node.op.name} {why}".rstrip(), where=f"%{node.name}")


# layers with weights ----------------------------------------------------------------------------


@means(conv.conv2d)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    w = weights(net, node)
    return convolved(net, node, xs[0], w.transpose(1, 2, 3, 0), node.attrs["groups"])


@means(depthwise.depthwise2d)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    return convolved(net, node, xs[0], weights(net, node)[:, :, None, :], xs[0].shape[3])


@means(conv.conv1d)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    """An image of height one."""
    a = node.attrs
    attrs = {"stride": (1, a["stride"]), "padding": (0, 0, *a["padding"]), "dilation": (1, a["dilation"])}
    whole = Node(node.op, node.inputs, node.outputs, attrs)
    return convolved(net, whole, xs[0], weights(net, node)[:, None].transpose(1, 2, 3, 0), a["groups"])


def weights(net: Net, node: Node) -> np.ndarray:
    w = net.array(node, 1)
    if w is None:
        raise refuse(node, "whose weights are computed")
    return w


def convolved(net: Net, node: Node, x: Blob, w: np.ndarray, groups: int) -> Blob:
    """w is [KH, KW, C / groups, O]."""
    x, b, a = net.image(x), net.array(node, 2), node.attrs
    top, bottom, left, right = a["padding"]
    net.builder.add_convolution(
        node.name, w.shape[2], w.shape[3], w.shape[0], w.shape[1], *a["stride"], "valid", groups,
        np.ascontiguousarray(w), b, b is not None, input_name=x.name, output_name=node.name,
        dilation_factors=list(a["dilation"]), padding_top=top, padding_bottom=bottom, padding_left=left,
        padding_right=right,
    )  # fmt: skip
    net.layers[node.name] = node.name
    return Blob(node.name, node.output.shape, True)


@means(linear.linear)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    (x,), w, b = xs, weights(net, node), net.array(node, 2)
    if prod(x.shape[:-1]) != 1:
        raise refuse(node, "of more than one row")
    x = flat(net, net.plain(x), node.name)
    net.builder.add_inner_product(node.name, w, b, w.shape[1], w.shape[0], b is not None, x.name, node.name)
    net.layers[node.name] = node.name
    return Blob(node.name, node.output.shape)


@means(norm.batch_norm)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    x, axis = xs[0], node.attrs["axis"] % len(xs[0].shape)
    x = net.image(x) if axis == len(x.shape) - 1 and axis > 1 else net.plain(x)
    arrays = [net.array(node, i) for i in range(1, 5)]
    if any(a is None for a in arrays) or x.sizes[0] != x.shape[axis]:
        raise refuse(node, f"along axis {axis}")
    gamma, beta, mean, variance = arrays
    name = net.fresh("batchnorm")
    net.builder.add_batchnorm(name, x.sizes[0], gamma, beta, mean, variance, x.name, name,
                              epsilon=node.attrs["epsilon"])  # fmt: skip
    return Blob(name, node.output.shape, x.image)


# pooling and shapes -----------------------------------------------------------------------------


@means(pool.max_pool2d, pool.avg_pool2d)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    a, x = node.attrs, net.image(xs[0])
    if a.get("dilation", (1, 1)) != (1, 1):
        raise refuse(node, "with dilation")
    kind = "MAX" if node.op is pool.max_pool2d else "AVERAGE"
    return pooled(net, node, x, kind, a["kernel"], a["stride"], a["padding"], not a.get("count_include_pad", False))


def pooled(net, node, x: Blob, kind: str, kernel, stride, padding=(0, 0, 0, 0), exclude=True, whole=False) -> Blob:
    name, (top, bottom, left, right) = net.fresh("pool"), padding
    net.builder.add_pooling(name, *kernel, *stride, kind, "VALID", x.name, name, exclude_pad_area=exclude,
                            is_global=whole, padding_top=top, padding_bottom=bottom, padding_left=left,
                            padding_right=right)  # fmt: skip
    return Blob(name, node.output.shape, x.image and len(node.output.shape) > 2)


@means(reduce.mean, reduce.amax)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    """Over all positions: a global pool."""
    x = xs[0]
    axes = sorted(a % len(x.shape) for a in node.attrs["axes"])
    last = list(range(1, len(x.shape) - 1))
    if axes == last and axes:
        x = net.image(x)
    elif axes == [a + 1 for a in last] and axes:
        x = net.plain(x)
    else:
        raise refuse(node, f"over axes {tuple(axes)}")
    kind = "AVERAGE" if node.op is reduce.mean else "MAX"
    return pooled(net, node, x, kind, (1, 1), (1, 1), whole=True)


@means(layout.reshape)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    x, shape = xs[0], node.output.shape
    if shape[:1] != (1,) or x.shape[:1] != (1,):
        raise refuse(node, "of the sample axis")
    if len(shape) <= 2:
        return flat(net, x, node.name)
    x, made = net.plain(x), Blob("", shape)
    if x.sizes == made.sizes:
        return Blob(x.name, shape)
    name = net.fresh("reshape")
    net.builder.add_reshape(name, x.name, name, list(made.sizes), 0)
    return Blob(name, shape)


def flat(net: Net, x: Blob, where: str) -> Blob:
    """All elements as channels, in the value's own order."""
    shape = (1, prod(x.shape))
    if x.sizes[1:] == (1, 1):
        return Blob(x.name, shape)
    name = net.fresh("flatten")
    net.builder.add_flatten(name, int(x.image), x.name, name)  # 1: height, width, channels
    return Blob(name, shape)


@means(layout.transpose)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    x, perm, shape = xs[0], tuple(node.attrs["perm"]), node.output.shape
    last = (0, *range(2, len(perm)), 1)
    first = (0, len(perm) - 1, *range(1, len(perm) - 1))
    if perm == last and (not x.image or len(perm) == 3):
        return Blob(x.name, shape, not x.image)
    if perm == first and x.image:
        return Blob(x.name, shape, False)
    if perm not in (last, first):
        raise refuse(node, f"with perm {perm}")
    return Blob(net.image(x).name, shape, False) if perm == first else Blob(net.plain(x).name, shape, True)


@means(layout.concat)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    rank, axis = len(xs[0].shape), node.attrs["axis"] % len(xs[0].shape)
    if len(xs) != len(node.inputs) or axis not in (1, rank - 1):
        raise refuse(node, f"along axis {axis}")
    image = axis == rank - 1 and rank > 2
    return net.together("CONCAT", *((net.image if image else net.plain)(x) for x in xs), shape=node.output.shape)


@means(layout.pad)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    """Core ML pads its last two axes: height and width of an image, or axes 2 and 3 with the channels first."""
    pads = node.attrs["pads"]
    if len(pads) != 4 or any(pads[0]) or (any(pads[1]) and any(pads[3])):
        raise refuse(node, f"by {pads}: it pads two neighbouring axes of three")
    image = not any(pads[3])
    x, (rows, columns) = (net.image if image else net.plain)(xs[0]), pads[1:3] if image else pads[2:]
    name = net.fresh("pad")
    net.builder.add_padding(name, *columns, *rows, value=node.attrs["value"], input_name=x.name, output_name=name)
    return Blob(name, node.output.shape, image)


# elements ---------------------------------------------------------------------------------------


def simple(kind: str, params: Callable[[Node], object] = lambda node: None) -> Row:
    return lambda net, node, xs: net.activation(xs[0], kind, params(node))


def same(net: Net, node: Node, xs: list[Blob]) -> Blob:
    return Blob(xs[0].name, node.output.shape, xs[0].image)


TABLE |= {
    activation.relu: simple("RELU"),
    activation.sigmoid: simple("SIGMOID"),
    activation.tanh: simple("TANH"),
    activation.softplus: simple("SOFTPLUS"),
    activation.leaky_relu: simple("LEAKYRELU", lambda node: [node.attrs["slope"]]),
    activation.elu: simple("ELU", lambda node: node.attrs["alpha"]),
    activation.hard_sigmoid: simple("SIGMOID_HARD", lambda node: [node.attrs["alpha"], node.attrs["beta"]]),
    arith.neg: lambda net, node, xs: net.linear(xs[0], -1.0, 0.0),
    norm.dropout: same,
    quant.quantize: same,
    quant.dequantize: same,
}


@means(activation.relu6)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    return clamped(net, xs[0], 0.0, 6.0)


@means(activation.clamp)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    return clamped(net, xs[0], node.attrs["lo"], node.attrs["hi"])


def clamped(net: Net, x: Blob, lo: float, hi: float) -> Blob:
    """min(max(x, lo), hi) of ReLUs and straight lines, which gradients pass through: lo + relu(x - lo), and so on."""
    if lo > -math.inf:
        x = moved(net, net.activation(moved(net, x, -lo), "RELU"), lo)
    if hi < math.inf:
        x = net.linear(net.activation(net.linear(x, -1.0, hi), "RELU"), -1.0, hi)
    return x


def moved(net: Net, x: Blob, by: float) -> Blob:
    return net.linear(x, 1.0, by) if by else x


@means(activation.hard_swish)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    return net.together("MULTIPLY", xs[0], net.activation(xs[0], "SIGMOID_HARD", [1 / 6, 0.5]))


@means(activation.silu)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    return net.together("MULTIPLY", xs[0], net.activation(xs[0], "SIGMOID"))


@means(norm.softmax)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    x, axis = xs[0], node.attrs["axis"] % len(xs[0].shape)
    x = net.image(x) if axis == len(x.shape) - 1 and axis > 1 else net.plain(x)
    if x.sizes[0] != x.shape[axis]:
        raise refuse(node, f"along axis {axis}")
    return softmax(net, x)


def softmax(net: Net, x: Blob, name: str = "") -> Blob:
    name = name or net.fresh("softmax")
    net.builder.add_softmax(name, x.name, name)
    return Blob(name, x.shape, x.image)


UNARY = {unary.sqrt: "sqrt", unary.rsqrt: "rsqrt", unary.reciprocal: "inverse", unary.exp: "exp", unary.log: "log",
         unary.abs: "abs"}  # fmt: skip


@means(*UNARY)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    return powered(net, xs[0], UNARY[node.op])


def powered(net: Net, x: Blob, mode: str) -> Blob:
    name = net.fresh(mode)
    net.builder.add_unary(name, x.name, name, mode, epsilon=0.0)
    return Blob(name, x.shape, x.image)


@means(unary.square)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    return net.together("MULTIPLY", xs[0], xs[0])


@means(arith.add, arith.sub, arith.mul, arith.div)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    if len(xs) == 2:
        return _of_two(net, node, xs)
    at = 0 if net.array(node, 0) is not None else 1
    array = net.array(node, at)
    assert array is not None  # else both would be computed
    x = xs[0]
    if at == 0 and node.op is arith.sub:
        x, op = net.linear(x, -1.0, 0.0), arith.add
    elif at == 0 and node.op is arith.div:
        x, op = powered(net, x, "inverse"), arith.mul
    else:
        op = node.op
    array = {arith.sub: lambda a: -a, arith.div: lambda a: 1 / a}.get(op, lambda a: a)(array)
    return _with_constant(net, node, x, array, op in (arith.add, arith.sub))


def _of_two(net: Net, node: Node, xs: list[Blob]) -> Blob:
    image = any(x.image for x in xs) and len(node.output.shape) > 2
    a, b = ((net.image if image else net.plain)(x) for x in xs)
    if len(a.shape) != len(b.shape):
        raise refuse(node, f"of {a.shape} and {b.shape}")
    if node.op is arith.sub:
        b = net.linear(b, -1.0, 0.0)
    if node.op is arith.div:
        b = powered(net, b, "inverse")
    mode = "ADD" if node.op in (arith.add, arith.sub) else "MULTIPLY"
    return net.together(mode, a, b, shape=node.output.shape)


def _with_constant(net: Net, node: Node, x: Blob, array: np.ndarray, adds: bool) -> Blob:
    """A bias or a scale layer: one number, one per channel, or one per element."""
    if node.output.shape != x.shape:
        raise refuse(node, f"of {x.shape} and {array.shape}")
    c, h, w = x.sizes
    value = np.broadcast_to(array, x.shape)[0]
    value = np.moveaxis(value, -1, 0) if x.image and value.ndim > 1 else value
    value = np.ascontiguousarray(value.reshape(c, h, w), np.float32)
    if (value == value[:, :1, :1]).all():
        value = value[:, :1, :1]
    name = net.fresh("bias" if adds else "scale")
    if adds:
        net.builder.add_bias(name, value, x.name, name, list(value.shape))
    else:
        net.builder.add_scale(name, value, None, False, x.name, name, list(value.shape))
    return Blob(name, x.shape, x.image)


@means(normalize.normalize)
def _(net: Net, node: Node, xs: list[Blob]) -> Blob:
    x, a = xs[0], node.attrs
    shape = [-1 if d == a["axis"] % len(x.shape) and len(a["mean"]) > 1 else 1 for d in range(len(x.shape))]
    mean, std = (np.array(a[word], np.float32).reshape(shape) for word in ("mean", "std"))
    return _with_constant(net, node, _with_constant(net, node, x, -mean, True), 1 / std, False)
