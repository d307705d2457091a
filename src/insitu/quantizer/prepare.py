"""A float graph in the form that int8 kernels need: the last rewrites before quantisation, all exact.

y = a x + b per channel, if there is no convolution to fold it into, becomes a 1x1 depthwise convolution: one scale per
channel and a 32-bit bias keep the precision that an int8 product with a single scale would lose. Values keep name *and*
meaning here, because their ranges are looked up by name.
"""

from __future__ import annotations

import numpy as np

from insitu.graph import Graph, Node, Value, rewrite
from insitu.graph.rewrite import Rewriter
from insitu.ops.arith import div, mul
from insitu.ops.depthwise import depthwise2d
from insitu.ops.layout import reshape
from insitu.ops.linear import linear, matmul
from insitu.quantizer.fold import affine


def prepare(graph: Graph) -> Graph:
    return rewrite(graph, affine_to_depthwise, matmul_to_linear, div_to_mul)


def affine_to_depthwise(node: Node, rw: Rewriter):
    """y = a x + b with a different a or b for each channel."""
    found = affine(node, rw)
    if found is None or _continues(node, rw):
        return None
    x, a, b = found
    while (before := rw.producer(x)) and rw.uses(x) == 1 and (inner := affine(before, rw)):
        x, a, b = inner[0], a * inner[1], a * inner[2] + b
    if x.type.rank < 2 or (np.ptp(a) == 0 and np.ptp(b) == 0):
        return None  # one number for all channels: a table does that
    return _depthwise(x, a, b, node.name, rw)


def _depthwise(x: Value, a, b, name: str, rw: Rewriter) -> Value:
    w = rw.constant(f"{name}.scale", a.reshape(1, 1, -1).astype(np.float32))
    bias = rw.constant(f"{name}.shift", b.astype(np.float32))
    if x.type.rank == 4:
        return depthwise2d(x, w, bias, name=name)
    image = reshape(x, shape=(x.shape[0], 1, -1, x.shape[-1]), name=f"{name}.image")
    return reshape(depthwise2d(image, w, bias, name=f"{name}.depthwise"), shape=x.shape, name=name)


def _continues(node: Node, rw: Rewriter) -> bool:
    """Is the only user of this node another y = a x + b, which will absorb this one?"""
    users = rw.source.users.get(node.name, ())
    is_output = any(v.name == node.name for v in rw.source.outputs)
    return len(users) == 1 and not is_output and affine(users[0], rw) is not None


def matmul_to_linear(node: Node, rw: Rewriter):
    """A product with a constant matrix."""
    w = rw.array(node.inputs[1]) if node.op is matmul else None
    if w is None or w.ndim != 2 or rw.array(node.inputs[0]) is not None:
        return None
    weight = rw.constant(node.inputs[1].name, np.ascontiguousarray(w.T))
    return linear(node.inputs[0], weight, name=node.name)


def div_to_mul(node: Node, rw: Rewriter):
    """Division by a constant tensor becomes a product (division by one number stays: a table does that)."""
    c = rw.array(node.inputs[1]) if node.op is div else None
    if c is None or c.size == 1 or not np.all(c):
        return None
    return mul(node.inputs[0], rw.constant(f"{node.name}.reciprocal", (1 / c).astype(c.dtype)), name=node.name)
