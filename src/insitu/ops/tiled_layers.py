"""Layers whose weight is in two parts, trained channels and fixed ones: a few outputs' weights are assembled at a time.

The same as merge_channels followed by conv2d_s8 (or linear_s8), without the whole copy between them. The planner makes
them if that copy sets the peak (changes/weight_parts.py). They give the same bytes, and each weight is assembled once.
"""

from __future__ import annotations

from dataclasses import replace

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, op, s8, s32
from insitu.graph.call import Call, Scratch, Struct
from insitu.graph.op import PartsTwin
from insitu.ops._requant import align16, channel_multipliers, layer_requant, ramp
from insitu.ops._stripes import conv_rows
from insitu.ops._types import Array, Ints, Out, Padding, Pair
from insitu.ops._windows import conv_shape
from insitu.ops.channels import positions
from insitu.ops.conv import conv2d_s8, pairs_tile
from insitu.ops.linear import linear_multipliers, linear_s8
from insitu.ops.mask import with_masks
from insitu.ops.tiled_parts import merged, merged_type

ROOM = (4096, 2048, 1024)  # bytes of weights assembled at a time: as usual, tight, tightest
REQUANT = 48  # bytes of a struct requant, on any machine
EIGHT = 8  # outputs that share a byte of the mask


def outputs_at_a_time(outputs: int, window: int, tight: int) -> int:
    """Of conv2d_parts_s8: a multiple of eight outputs, at least eight."""
    most = max(EIGHT, ROOM[tight] // window // EIGHT * EIGHT)
    return min(most, -(-outputs // EIGHT) * EIGHT)


def parts_call(node: Node, shape: Struct, q: Struct, channels, tight: int) -> Call:
    y, *mask = node.outputs
    x, trained, fixed, *b = node.inputs
    window = shape.sizes["kh"] * shape.sizes["kw"] * shape.sizes["c"]
    some = outputs_at_a_time(shape.sizes["o"], window, tight)
    tile, scratch = pairs_tile(window, tight, **shape.sizes)
    weights = (trained, fixed, positions(channels, x.shape[-1]), len(channels), b[0] if b else None)
    room = Scratch(REQUANT + align16(some * window) + scratch)
    return Call("conv2d_parts_s8", y, mask[0] if mask else None, x, *weights, tile, some, shape, q, room)


def as_image(t: Type) -> Type:
    """Rows of numbers as images of one pixel."""
    return Type(t.dtype, (t.size // t.shape[-1], 1, 1, t.shape[-1]))


def put_together(node: Node, channels) -> Node:
    """The node with its weight as one value, which defines the meaning."""
    x, trained, fixed, *b = node.inputs
    whole = Value("w", merged_type(trained.type, fixed.type, channels))
    return replace(node, inputs=(x, whole, *b))


def one_group(*values: Value, groups: int) -> bool:
    return groups == 1


conv2d_parts_s8 = op(
    "conv2d_parts_s8",
    "conv2d_s8 with a weight in two parts: channels[k] of w is trained[..., k], the others are those of `fixed`",
    cases=with_masks([
        Case("1x1", (s8(1, 3, 3, 5, s=0.1, z=-7), s8(19, 1, 1, 2, s=ramp(19), axis=0),
                     s8(19, 1, 1, 3, s=ramp(19), axis=0), s32(19)), {"channels": (4, 1)}, out=s8(s=0.3, z=4)),
        Case("1x1, more outputs than at a time",
             (s8(1, 3, 7, 300, s=0.1, z=3), s8(45, 1, 1, 40, s=ramp(45), axis=0), s8(45, 1, 1, 260, s=ramp(45), axis=0),
              s32(45)), {"channels": tuple(range(3, 283, 7))}, out=s8(s=3.0, z=-5)),
        Case("one large multiplier among small ones",
             (s8(1, 2, 6, 260, s=0.1, z=-7), s8(21, 1, 1, 1, s=(*ramp(9), 4.0, *ramp(11)), axis=0),
              s8(21, 1, 1, 259, s=(*ramp(9), 4.0, *ramp(11)), axis=0), s32(21)),
             {"channels": (36,)}, out=s8(s=1.0, z=-5)),
        Case("3x3, stride, per tensor, no bias",
             (s8(1, 5, 4, 60, s=0.05, z=9), s8(17, 3, 3, 59, s=0.01), s8(17, 3, 3, 1, s=0.01)),
             {"channels": tuple(range(1, 60)), "stride": (2, 1), "padding": (1, 1, 0, 1), "lo": -100, "hi": 90},
             out=s8(s=0.9, z=-3)),
        Case("litert, dilated", (s8(1, 7, 6, 3, s=0.1, z=1), s8(9, 3, 2, 1, s=ramp(9), axis=0),
                                 s8(9, 3, 2, 2, s=ramp(9), axis=0), s32(9)),
             {"channels": (1,), "dilation": (2, 3), "padding": (2, 2, 3, 0), "rounding": "litert"}, out=s8(s=0.2)),
    ]),
)  # fmt: skip
conv2d_parts_s8.may(stripes=conv_rows)
conv2d_parts_s8.may(made_for="weights_in_parts")
conv2d_s8.may(parts=PartsTwin(conv2d_parts_s8, when=one_group, cheap=True))


@conv2d_parts_s8.infer
def _(
    x: Type, trained: Type, fixed: Type, b: Type | None = None, *, channels: Ints, stride: Pair = (1, 1),
    padding: Padding = (0, 0, 0, 0), dilation: Pair = (1, 1), groups: int = 1, lo: int = -128, hi: int = 127,
    rounding: str = "single", mask: bool = False, out: Out,
) -> Type | tuple[Type, ...]:  # fmt: skip
    if groups != 1:
        raise GraphError(f"conv2d_parts_s8 needs one group, not {groups}")
    w = merged_type(trained, fixed, channels)
    window = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    attrs = {**window, "lo": lo, "hi": hi, "rounding": rounding, "mask": mask}
    return conv2d_s8.apply("infer", (x, w, b), attrs, out=out)


@conv2d_parts_s8.eval
def _(
    x: Array, trained: Array, fixed: Array, b: Array | None = None, *, channels: Ints, node: Node
) -> Array | tuple[Array, ...]:
    whole = put_together(node, channels)
    return conv2d_s8.apply("eval", (x, merged(trained, fixed, channels), b), dict(node.attrs), node=whole)


@conv2d_parts_s8.emit
def _(
    *values: Value, channels: Ints, stride: Pair, padding: Padding, dilation: Pair, lo: int, hi: int, rounding: str,
    node: Node, tight: int = 0,
) -> Call:  # fmt: skip
    y, (x, w, *_) = node.output, put_together(node, channels).inputs
    shape = conv_shape(y, x, w, stride, padding, dilation, 1)
    multipliers = channel_multipliers(x.type, w.type, y.type, w.shape[0])
    return parts_call(node, shape, layer_requant(x.type, y.type, multipliers, lo, hi, rounding), channels, tight)


@conv2d_parts_s8.macs
def _(y: Value, x: Value, trained: Value, fixed: Value, b: Value | None = None) -> int:
    return y.type.size * (trained.type.size + fixed.type.size) // trained.shape[0]


linear_parts_s8 = op(
    "linear_parts_s8",
    "linear_s8 with a weight in two parts: channels[k] of w is trained[..., k], the others are those of `fixed`",
    cases=with_masks([
        Case("row", (s8(1, 6, s=0.1, z=-3), s8(11, 4, s=0.02), s8(11, 2, s=0.02), s32(11)), {"channels": (5, 0, 2, 3)},
             out=s8(s=0.2, z=5)),
        Case("litert, per channel, rows, no bias",
             (s8(3, 3, 300, s=0.07, z=-128), s8(17, 12, s=ramp(17), axis=0), s8(17, 288, s=ramp(17), axis=0)),
             {"channels": tuple(range(0, 300, 25)), "rounding": "litert"}, out=s8(s=3.0, z=-5)),
    ]),
)  # fmt: skip
linear_parts_s8.may(made_for="weights_in_parts")
linear_s8.may(parts=PartsTwin(linear_parts_s8, cheap=True))


@linear_parts_s8.infer
def _(
    x: Type, trained: Type, fixed: Type, b: Type | None = None, *, channels: Ints, lo: int = -128, hi: int = 127,
    rounding: str = "single", mask: bool = False, out: Out,
) -> Type | tuple[Type, ...]:  # fmt: skip
    attrs = {"lo": lo, "hi": hi, "rounding": rounding, "mask": mask}
    return linear_s8.apply("infer", (x, merged_type(trained, fixed, channels), b), attrs, out=out)


@linear_parts_s8.eval
def _(
    x: Array, trained: Array, fixed: Array, b: Array | None = None, *, channels: Ints, node: Node
) -> Array | tuple[Array, ...]:
    whole = put_together(node, channels)
    return linear_s8.apply("eval", (x, merged(trained, fixed, channels), b), dict(node.attrs), node=whole)


@linear_parts_s8.emit
def _(*values: Value, channels: Ints, lo: int, hi: int, rounding: str, node: Node, tight: int = 0) -> Call:
    y, (x, w, *_) = node.output, put_together(node, channels).inputs
    images = (as_image(v.type) for v in (y, x, w))
    shape = conv_shape(*images, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1)
    multipliers = linear_multipliers(x.type, w.type, y.type, rounding)
    return parts_call(node, shape, layer_requant(x.type, y.type, multipliers, lo, hi, "single"), channels, tight)


@linear_parts_s8.macs
def _(y: Value, x: Value, trained: Value, fixed: Value, b: Value | None = None) -> int:
    return y.type.size * x.shape[-1]
