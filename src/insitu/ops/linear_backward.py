"""The gradients of linear: with respect to the input (dx) and to the weights (dw). See conv_backward.py."""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Scratch, Struct
from insitu.ops._functions import real
from insitu.ops._types import Array
from insitu.ops.conv_backward import PIECE, TIGHT_PIECE, fours_dw, fours_dx, scale_table

linear_dx = op(
    "linear_dx",
    "dx[..., i] = sum over o of g[..., o] w[o,i]",
    kind="any",
    cases=[
        Case("row", (f32(1, 3), f32(3, 5))),
        Case("rows", (f32(2, 3, 17), f32(17, 19))),
        Case("s8", (f32(2, 5), s8(5, 35, s=np.linspace(0.01, 0.2, 5), axis=0))),
    ],
)


@linear_dx.infer
def _(g: Type, w: Type) -> Type:
    if w.rank != 2 or g.shape[-1] != w.shape[0]:
        raise GraphError(f"the gradient {g} does not match weights {w}")
    return Type(g.dtype, (*g.shape[:-1], w.shape[1]))


@linear_dx.eval
def _(g: Array, w: Array, *, node: Node) -> Array:
    return g @ real(w, node.inputs[1].type)


@linear_dx.emit
def _(dx: Value, g: Value, w: Value, *, target: str = "host", tight: int = 0) -> Call:
    if target == "mcu" and w.dtype == "s8":
        return fours_dx(dx, g, w, tight)
    o, i = w.shape
    shape = Struct("linear_shape", rows=g.type.size // o, i=i, o=o)
    if w.dtype == "s8":
        piece = min(TIGHT_PIECE if tight else PIECE, g.type.size // o)
        return Call("linear_dx_s8", dx, g, w, scale_table(w.type, o), piece, shape, Scratch(4 * piece * o))
    return Call("linear_dx_f32", dx, g, w, shape)


@linear_dx.macs
def _(dx: Value, g: Value, w: Value) -> int:
    return g.type.size * w.shape[1]


linear_dw = op(
    "linear_dw",
    "dw[o,i] = sum over rows of g[..., o] x[..., i]",
    kind="any",
    cases=[
        Case("row", (f32(1, 3), f32(1, 5))),
        Case("rows", (f32(2, 3, 17), f32(2, 3, 19))),
        Case("s8", (f32(2, 5), s8(2, 35, s=0.04, z=-11))),
    ],
)
linear_dw.may(by_outputs=1)


@linear_dw.infer
def _(g: Type, x: Type) -> Type:
    if g.shape[:-1] != x.shape[:-1]:
        raise GraphError(f"the gradient {g} does not match an input {x}")
    return Type(g.dtype, (g.shape[-1], x.shape[-1]))


@linear_dw.eval
def _(g: Array, x: Array, *, node: Node) -> Array:
    return g.reshape(-1, g.shape[-1]).T @ real(x, node.inputs[1].type).reshape(-1, x.shape[-1])


@linear_dw.emit
def _(dw: Value, g: Value, x: Value, *, target: str = "host", tight: int = 0) -> Call:
    if target == "mcu" and x.dtype == "s8":
        return fours_dw(dw, g, x, (), tight)
    shape = Struct("linear_shape", rows=g.type.size // g.shape[-1], i=x.shape[-1], o=g.shape[-1])
    if x.dtype == "s8":
        return Call("linear_dw_s8", dw, g, x, x.type.scale, x.type.zero, shape)
    return Call("linear_dw_f32", dw, g, x, shape)


@linear_dw.macs
def _(dw: Value, g: Value, x: Value) -> int:
    return g.type.size * x.shape[-1]
