"""Depthwise convolutions in place, some channels at a time: a layer over its input, a gradient over its source.

They give the bytes of depthwise2d_s8 and depthwise2d_dx. The planner makes them if the two values, side by side, set
the peak (planner/changes/in_place.py).
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8, s32
from insitu.graph.call import Call, Scratch
from insitu.graph.op import Twin
from insitu.ops._requant import channel_multipliers, layer_requant, ramp
from insitu.ops._types import Array, Out, Padding
from insitu.ops._windows import depthwise_shape
from insitu.ops.depthwise import depthwise2d_s8, planes_band
from insitu.ops.depthwise_backward import depthwise2d_dx, depthwise_struct, gathered_dx
from insitu.ops.mask import with_mask, with_masks

ONES = {"stride": (1, 1), "dilation": (1, 1)}


def keeps_shape(w, padding) -> bool:
    """Does the padding make as many outputs as inputs?"""
    return (w.shape[0] - 1, w.shape[1] - 1) == (sum(padding[:2]), sum(padding[2:]))


def fits_over(*values: Value, stride, padding, dilation, node: Node) -> bool:
    """A window with stride one and s8 weights, and a result with the input's type and shape."""
    (x, w), y = node.inputs[:2], node.output
    alike = (x.shape, x.dtype, w.dtype) == (y.shape, y.dtype, "s8") and keeps_shape(w, padding)
    return alike and (*stride, *dilation) == (1, 1, 1, 1)


depthwise2d_over_s8 = op(
    "depthwise2d_over_s8",
    "depthwise2d_s8 with stride one, and a result of the shape of x",
    cases=with_masks([
        Case("3x3", (s8(1, 5, 4, 7, s=0.1, z=-7), s8(3, 3, 7, s=ramp(7), axis=2), s32(7)),
             {"padding": (1, 1, 1, 1)}, out=s8(s=0.3, z=4)),
        Case("litert, 5x3, more than one image", (s8(2, 4, 3, 35, s=0.05, z=127), s8(5, 3, 35, s=0.02)),
             {"padding": (3, 1, 2, 0), "lo": -100, "hi": 90, "rounding": "litert"}, out=s8(s=0.2, z=-128)),
        Case("more rows than at a time", (s8(1, 19, 20, 5, s=0.1, z=9), s8(7, 7, 5, s=ramp(5), axis=2), s32(5)),
             {"padding": (3, 3, 3, 3)}, out=s8(s=0.5, z=4)),
    ]),
)  # fmt: skip
depthwise2d_over_s8.may(in_place=True)
depthwise2d_over_s8.may(made_for="in_place")
depthwise2d_s8.may(over=Twin(depthwise2d_over_s8, when=fits_over))


@depthwise2d_over_s8.infer
def _(
    x: Type, w: Type, b: Type | None = None, *, padding: Padding, lo: int = -128, hi: int = 127,
    rounding: str = "single", mask: bool = False, out: Out,
) -> Type | tuple[Type, ...]:  # fmt: skip
    if x.shape[3] != w.shape[2] or not keeps_shape(w, padding):
        raise GraphError(f"{x} and {w} with a padding of {padding} do not give a result of the same shape")
    attrs = {**ONES, "padding": padding, "lo": lo, "hi": hi, "rounding": rounding, "mask": mask}
    return depthwise2d_s8.apply("infer", (x, w, b), attrs, out=out)


@depthwise2d_over_s8.eval
def _(x: Array, w: Array, b: Array | None = None, *, node: Node) -> Array | tuple[Array, ...]:
    return depthwise2d_s8.apply("eval", (x, w, b), {**ONES, **node.attrs}, node=node)


@depthwise2d_over_s8.emit
def _(*values: Value, padding: Padding, lo: int, hi: int, rounding: str, node: Node) -> Call:
    y, mask, x, w, b = with_mask(node)
    shape = depthwise_shape(y, x, w, (1, 1), padding, (1, 1))
    q = layer_requant(x.type, y.type, channel_multipliers(x.type, w.type, y.type, w.shape[2]), lo, hi, rounding)
    band, width, scratch = planes_band(True, **shape.sizes)
    return Call("depthwise2d_planes_s8", y, mask, x, w, b, band, width, shape, q, Scratch(scratch))


@depthwise2d_over_s8.macs
def _(y: Value, x: Value, w: Value, b: Value | None = None) -> int:
    return y.type.size * w.shape[0] * w.shape[1]


depthwise2d_dx_over = op(
    "depthwise2d_dx_over",
    "dx[n,r,q,c] = sum over i,j of g[n,i,j,c] w[u,v,c] where tap u,v lies on r,q; dx has the shape of g",
    kind="any",
    cases=[
        Case("3x3", (f32(1, 5, 4, 7), s8(3, 3, 7, s=0.02)), {"padding": (1, 1, 1, 1)}),
        Case("5x3, many channels", (f32(2, 4, 3, 35), s8(5, 3, 35, s=np.linspace(0.01, 0.2, 35), axis=2)),
             {"padding": (3, 1, 2, 0)}),
    ],
)  # fmt: skip
depthwise2d_dx_over.may(in_place=True)
depthwise2d_dx_over.may(made_for="in_place")
depthwise2d_dx.may(over=Twin(depthwise2d_dx_over, when=fits_over))


@depthwise2d_dx_over.infer
def _(g: Type, w: Type, *, padding: Padding) -> Type:
    if w.dtype != "s8" or g.shape[3] != w.shape[2] or not keeps_shape(w, padding):
        raise GraphError(f"{g} and {w} with a padding of {padding} do not give an input of the same shape")
    return g


@depthwise2d_dx_over.eval
def _(g: Array, w: Array, *, padding: Padding, node: Node) -> Array:
    attrs = depthwise2d_dx.complete({"size": g.shape[1:3], "channels": g.shape[3], "padding": padding})
    return depthwise2d_dx.apply("eval", (g, w), attrs, node=node)


@depthwise2d_dx_over.emit
def _(dx: Value, g: Value, w: Value, *, padding: Padding) -> Call:
    shape = depthwise_struct(g, dx, w.shape[:2], (1, 1), padding, (1, 1))
    return gathered_dx(dx, g, w, shape, over=True)


@depthwise2d_dx_over.macs
def _(dx: Value, g: Value, w: Value) -> int:
    return g.type.size * w.shape[0] * w.shape[1]
