"""The gradient of a layer's input from a weight in two parts, trained channels and fixed, which is never assembled.

The same as merge_channels followed by linear_dx (or conv2d_dx of a 1x1 convolution with stride one), without the copy
between them. The planner makes it if that copy sets the peak (changes/weight_parts.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call
from insitu.graph.op import Groups, PartsTwin
from insitu.ops._block import both, pair, want_block
from insitu.ops._functions import real
from insitu.ops._types import Array, Ints
from insitu.ops._windows import conv_shape, is_pointwise
from insitu.ops.block_conv import conv2d_dx_block, pairs_dx
from insitu.ops.block_linear import linear_dx_block, rows_struct
from insitu.ops.channels import merge_channels, positions
from insitu.ops.conv_backward import conv2d_dx, fours_dx
from insitu.ops.linear_backward import linear_dx

SCALES = np.linspace(0.01, 0.2, 19)


def merged_type(trained: Type, fixed: Type, channels) -> Type:
    return merge_channels.apply("infer", (trained, fixed), {"channels": channels})


def merged(trained, fixed, channels):
    return merge_channels.apply("eval", (trained, fixed), {"channels": channels})


def parts_of(fixed, dx, channels) -> tuple:
    """What kernels need to know about the part that is not passed as the weight."""
    return fixed, positions(channels, dx.shape[-1]), len(channels)


def moves_by_one(*values: Value, stride, padding, dilation, groups: int, node: Node) -> bool:
    """Is this a 1x1 convolution with one pixel of gradient per pixel of its input?"""
    shape = conv_shape(node.inputs[0], node.output, node.inputs[-1], stride, padding, dilation, groups)
    return groups == 1 and is_pointwise(**shape.sizes)


linear_dx_parts = op(
    "linear_dx_parts",
    "dx[..., i] = sum over o of g[..., o] w[o,i]; channels[k] of w is trained[o,k], the others are those of `fixed`",
    kind="any",
    cases=[
        Case("rows", (f32(2, 3, 5), s8(5, 2, s=0.1), s8(5, 4, s=0.1)), {"channels": (3, 0)}),
        Case("1x1", (f32(1, 3, 3, 19), s8(19, 1, 1, 3, s=SCALES, axis=0), s8(19, 1, 1, 34, s=SCALES, axis=0)),
             {"channels": (36, 1, 7)}),
        Case("deep", (f32(1, 3, 7, 131), s8(131, 1, 1, 25, s=0.02), s8(131, 1, 1, 25, s=0.02)),
             {"channels": tuple(range(1, 50, 2))}),
    ],
)  # fmt: skip
linear_dx_parts.may(made_for="weights_in_parts")
linear_dx.may(parts=PartsTwin(linear_dx_parts))
conv2d_dx.may(parts=PartsTwin(linear_dx_parts, when=moves_by_one))


@linear_dx_parts.infer
def _(g: Type, trained: Type, fixed: Type, *, channels: Ints) -> Type:
    w = merged_type(trained, fixed, channels)
    return Type(g.dtype, (*g.shape[:-1], w.shape[-1]))


@linear_dx_parts.eval
def _(g: Array, trained: Array, fixed: Array, *, channels: Ints, node: Node) -> Array:
    w = real(merged(trained, fixed, channels), node.inputs[1].type)
    return g @ w.reshape(w.shape[0], -1)


@linear_dx_parts.emit
def _(dx: Value, g: Value, trained: Value, fixed: Value, *, channels: Ints, tight: int = 0) -> Call:
    return fours_dx(dx, g, trained, tight, parts_of(fixed, dx, channels))


@linear_dx_parts.macs
def _(dx: Value, g: Value, trained: Value, fixed: Value) -> int:
    return g.type.size * dx.shape[-1]


linear_dx_parts_block = op(
    "linear_dx_parts_block",
    "dx[..., i] = sum over o of g[..., o] w[o,i], as linear_dx_parts, in block floating numbers",
    kind="int8",
    cases=[
        *both("rows", (3, 5), s8(5, 2, s=0.1), s8(5, 4, s=0.1), channels=(3, 0)),
        *both("1x1", (1, 3, 4, 19), s8(19, 1, 1, 3, s=SCALES, axis=0), s8(19, 1, 1, 34, s=SCALES, axis=0),
              channels=(36, 1, 7)),
    ],
)  # fmt: skip
linear_dx_parts_block.may(made_for="weights_in_parts", groups=Groups(sums=True))
linear_dx_block.may(parts=PartsTwin(linear_dx_parts_block, weight=2))
conv2d_dx_block.may(parts=PartsTwin(linear_dx_parts_block, when=moves_by_one, weight=2))


@linear_dx_parts_block.infer
def _(m: Type, e: Type, trained: Type, fixed: Type, *, channels: Ints) -> tuple[Type, ...]:
    want_block(m, e)
    return pair(m.dtype, (*m.shape[:-1], merged_type(trained, fixed, channels).shape[-1]))


@linear_dx_parts_block.eval
def _(m: Array, e: Array, trained: Array, fixed: Array, *, channels: Ints, node: Node) -> tuple[Array, ...]:
    w = merged(trained, fixed, channels)
    t = merged_type(node.inputs[2].type, node.inputs[3].type, channels).with_shape(w.shape[0], w.shape[-1])
    whole = replace(node, inputs=(*node.inputs[:2], Value("w", t)))
    return linear_dx_block.apply("eval", (m, e, w.reshape(t.shape)), {}, node=whole)


@linear_dx_parts_block.emit
def _(
    dx: Value, dxe: Value, m: Value, e: Value, trained: Value, fixed: Value, *, channels: Ints, tight: int = 0
) -> Call:
    return pairs_dx(dx, dxe, m, e, trained, rows_struct(m, dx), tight, parts_of(fixed, dx, channels))


@linear_dx_parts_block.macs
def _(dx: Value, m: Value, e: Value, trained: Value, fixed: Value) -> int:
    return m.type.size * dx.shape[-1]
