"""Turn the f32 gradients of a training graph's int8 layers into block floating ones: `grad="s16"` or `"s8"`.

This works on a finished training graph: autodiff knows nothing of it. Going back from the head, the first gradient
that meets something int8 (a mask, an s8 weight or input) is converted to block floating point, and every later op is
replaced by its twin (ops/block*.py). For an op without a twin the gradient is converted back to f32, so this works for
any graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from insitu.errors import GraphError
from insitu.graph import Builder, Graph, Node, Op, Value, build
from insitu.ops.arith import add
from insitu.ops.block import add_block, bias_grad_block, expand_block, from_block, mask_grad_block, to_block
from insitu.ops.block_conv import conv2d_dw_block, conv2d_dx_block
from insitu.ops.block_depthwise import depthwise2d_dw_block, depthwise2d_dx_block
from insitu.ops.block_linear import linear_dw_block, linear_dx_block
from insitu.ops.block_update import sgd_bias_block_s32, sgd_residual_block_s8
from insitu.ops.conv_backward import bias_grad, conv2d_dw, conv2d_dx
from insitu.ops.depthwise_backward import depthwise2d_dw, depthwise2d_dx
from insitu.ops.linear_backward import linear_dw, linear_dx
from insitu.ops.mask import mask_grad
from insitu.ops.pool_backward import avg_pool2d_dx
from insitu.ops.shape_backward import expand
from insitu.ops.update_int import sgd_bias_s32, sgd_residual_s8

GRADIENTS = {"f32": None, "s16": "s16b", "s8": "s8b"}  # how a gradient is kept -> the type of its mantissas
Pair = tuple[Value, Value]


def integer_gradients(graph: Graph, grad: str) -> Graph:
    """The same training graph with this kind of gradients."""
    if grad not in GRADIENTS:
        raise GraphError(f"gradients must be one of {', '.join(GRADIENTS)}, not {grad!r}")
    dtype = GRADIENTS[grad]
    if dtype is None:
        return graph
    builder = Builder.of(replace(graph, nodes=()))
    builder._types = {v.name: v.type for v in graph.values.values() if v.name not in graph.producer}
    blocks = _Blocks(builder, dtype)
    with build(builder):
        for node in graph.nodes:
            blocks.append(node)
        for v in graph.results:
            blocks.as_float(v)
    return builder.graph(*graph.outputs)


class _Blocks:
    """Appends nodes or their twins, and knows which gradients are already block floating."""

    def __init__(self, builder: Builder, dtype: str):
        self.builder, self.dtype = builder, dtype
        self.pairs: dict[str, Pair] = {}  # f32 gradient of the source graph -> mantissas and exponents

    def append(self, node: Node) -> None:
        twin = TWINS.get(node.op)
        found = twin(node, self) if twin else None
        if found is not None:
            self.pairs[node.name] = found
            return
        node = self.as_update(node)
        for v in node.inputs:
            self.as_float(v)
        self.builder.append(node)

    def as_update(self, node: Node) -> Node:
        """The update's twin that takes an integer gradient directly, if it has one."""
        twin = UPDATES.get(node.op)
        if twin is None or not any(self.has(v) for v in node.inputs):
            return node
        inputs = (w for v in node.inputs for w in (self.pairs[v.name] if self.has(v) else (v,)))
        return Node(twin, tuple(inputs), node.outputs, node.attrs)

    def of(self, v: Value) -> Pair:
        """A gradient as a pair; converted if it is still f32."""
        if v.name not in self.pairs:
            self.pairs[v.name] = to_block(v, dtype=self.dtype, name=f"{v.name}.block")
        return self.pairs[v.name]

    def has(self, v: Value) -> bool:
        return v.name in self.pairs

    def as_float(self, v: Value) -> None:
        """Define the f32 gradient under its own name, if only the pair exists."""
        if v.name in self.pairs and not self.builder.has(v.name):
            from_block(*self.pairs[v.name], name=v.name)


# a twin takes a node and the gradients so far; it returns the node's result as a pair, or None to keep the node
Twin = Callable[[Node, _Blocks], "Pair | None"]


def _mask(node: Node, blocks: _Blocks) -> Pair:
    m, e = blocks.of(node.inputs[0])
    return mask_grad_block(m, node.inputs[1], name=f"{node.name}.block"), e  # f32 may be asked for by name


def _with_int8(twin: Op) -> Twin:
    """The twin of an op on a gradient and an s8 weight or input, with the same attributes."""

    def make(node: Node, blocks: _Blocks) -> Pair | None:
        g, other = node.inputs
        if other.dtype != "s8" or other.type.quant is None or not _fits(node):
            return None
        return twin(*blocks.of(g), other, **_known(twin, node), name=node.name)

    return make


def _known(twin: Op, node: Node) -> dict:
    """The attributes of a node that its twin also has."""
    return {k: v for k, v in node.attrs.items() if k in twin.defaults}


def _fits(node: Node) -> bool:
    """A depthwise convolution with several outputs per channel has no kernel."""
    g, other = node.inputs
    if node.op is depthwise2d_dx:
        return node.attrs["channels"] == g.shape[-1]
    return node.op is not depthwise2d_dw or other.shape[-1] == g.shape[-1]


def _add(node: Node, blocks: _Blocks) -> Pair | None:
    a, b = node.inputs
    if not (blocks.has(a) or blocks.has(b)) or a.shape != b.shape:
        return None
    return add_block(*blocks.of(a), *blocks.of(b), name=node.name)


def _expand(node: Node, blocks: _Blocks) -> Pair | None:
    shape, axes, factor = (node.attrs[k] for k in ("shape", "axes", "factor"))
    if not blocks.has(node.inputs[0]) or len(shape) != 4 or sorted(a % 4 for a in axes) != [1, 2]:
        return None
    return expand_block(*blocks.of(node.inputs[0]), shape=shape, factor=factor, name=node.name)


def _pool(node: Node, blocks: _Blocks) -> Pair | None:
    """A mean over windows, if one window covers the whole image, is a mean over the image."""
    (g,), (h, w), (kh, kw) = node.inputs, node.attrs["size"], node.attrs["kernel"]
    top, _, left, _ = node.attrs["padding"]
    if not blocks.has(g) or g.shape[1:3] != (1, 1) or kh - top < h or kw - left < w:
        return None
    count = kh * kw if node.attrs["count_include_pad"] else h * w
    shape = (g.shape[0], h, w, g.shape[3])
    return expand_block(*blocks.of(g), shape=shape, factor=1 / count, name=node.name)


def _bias_grad(node: Node, blocks: _Blocks) -> Pair | None:
    if not blocks.has(node.inputs[0]):
        return None
    return bias_grad_block(*blocks.of(node.inputs[0]), name=node.name)


# updates that take a sum of products directly; other updates get it in f32
UPDATES = {sgd_residual_s8: sgd_residual_block_s8, sgd_bias_s32: sgd_bias_block_s32}

TWINS: dict[Op, Twin] = {
    mask_grad: _mask,
    conv2d_dx: _with_int8(conv2d_dx_block),
    conv2d_dw: _with_int8(conv2d_dw_block),
    depthwise2d_dx: _with_int8(depthwise2d_dx_block),
    depthwise2d_dw: _with_int8(depthwise2d_dw_block),
    linear_dx: _with_int8(linear_dx_block),
    linear_dw: _with_int8(linear_dw_block),
    add: _add,
    expand: _expand,
    avg_pool2d_dx: _pool,
    bias_grad: _bias_grad,
}
