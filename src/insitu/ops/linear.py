"""Matrix products, float and int8: linear with weights w[O,I], and matmul of two values."""

from __future__ import annotations

from collections.abc import Collection
from math import inf

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8, s32
from insitu.graph.call import Call, Packed, Scratch, Struct, Table
from insitu.graph.op import Grads, Parameters
from insitu.ops._requant import (
    PANEL,
    TILE,
    channel_multipliers,
    layer_requant,
    offsets_s8,
    packed_f32,
    packed_s8,
    quantised,
    ramp,
    requant_struct,
    rescaled,
    tensor_multipliers,
    turned_panel,
    want_s8,
    want_weights,
)  # fmt: skip
from insitu.ops._types import Array, Masked, Out
from insitu.ops._windows import centred, integer_sums
from insitu.ops.conv_backward import bias_grad
from insitu.ops.layout import reshape, transpose
from insitu.ops.linear_backward import linear_dw, linear_dx
from insitu.ops.mask import apart, beside, channels_of, clamped, unclamped, with_mask, with_masks
from insitu.ops.quant import dequantize
from insitu.ops.shape_backward import fitted

MANY_ROWS = 2  # from this many on, a host transposes weights; a board, which needs scratch for it, from TILE on


def linear_output(x: Type, w: Type, b) -> tuple[int, ...]:
    if w.rank != 2 or x.rank < 1 or x.shape[-1] != w.shape[1]:
        raise GraphError(f"linear needs x[..., I] and w[O, I], not {x} and {w}")
    if b is not None and b.shape != w.shape[:1]:
        raise GraphError(f"the bias {b} must have one number per output ({w.shape[0]})")
    return *x.shape[:-1], w.shape[0]


def matmul_output(a: Type, b: Type) -> tuple[int, ...]:
    """numpy's rule: leading dimensions broadcast; a vector counts as a row on the left, a column on the right."""
    if min(a.rank, b.rank) < 1:
        raise GraphError(f"matmul does not take scalars: {a} and {b}")
    left, right = _matrix(a.shape, 0), _matrix(b.shape, 1)
    if left[-1] != right[-2]:
        raise GraphError(f"matmul of {a} and {b}: {left[-1]} columns do not match {right[-2]} rows")
    try:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise GraphError(f"matmul of {a} and {b}: the leading dimensions do not broadcast") from None
    rows = left[-2:-1] if a.rank > 1 else ()
    return (*batch, *rows, *(right[-1:] if b.rank > 1 else ()))


def _matrix(shape, side: int) -> tuple[int, ...]:
    return shape if len(shape) > 1 else ((1, *shape), (*shape, 1))[side]


linear = op(
    "linear",
    "y[..., o] = b[o] + sum over i of w[o,i] x[..., i]",
    cases=[
        Case("row", (f32(1, 5), f32(3, 5), f32(3))),
        Case("no bias", (f32(2, 3, 19), f32(17, 19))),
        Case("vector", (f32(4), f32(1, 4), f32(1))),
        Case("wide", (f32(5, 33), f32(37, 33), f32(37))),
        Case("many rows, deep", (f32(3, 3, 130), f32(34, 130), f32(34))),
    ],
)
linear.may(parameters=Parameters())


@linear.infer
def _(x: Type, w: Type, b: Type | None = None) -> Type:
    return Type(x.dtype, linear_output(x, w, b))


@linear.eval
def _(x: Array, w: Array, b: Array | None = None) -> Array:
    y = x @ w.T
    return y if b is None else y + b


@linear.grad
def _(g: Value, y: Value, x: Value, w: Value, b: Value | None = None) -> Grads:
    return linear_grads(g, x, w, b)


@linear.emit
def _(
    y: Value, x: Value, w: Value, b: Value | None = None, *, fixed: Collection[int] = (), target: str = "host"
) -> Call:
    if 1 in fixed and target == "host":
        return linear_call(y, x, w, b, fixed)
    shape = linear_shape(y, w)
    many = shape.sizes["rows"] >= (MANY_ROWS if target == "host" else TILE)
    panel, depth = turned_panel(w.shape[0], 1, w.shape[1]) if many else (0, 0)
    return Call("linear_f32", y, x, w, b, panel, depth, shape, Scratch(4 * panel * depth))


def linear_call(y, x, w, b, fixed, end=(None, -inf, inf)) -> Call:
    """The float kernel for a machine with plenty of memory. `end`: what is added, and the range of the result."""
    added, lo, hi, shape = end[0], float(end[1]), float(end[2]), linear_shape(y, w)
    if 1 in fixed:
        return Call("linear_packed_f32", y, x, Packed(w, packed_f32), b, added, lo, hi, shape)
    scratch = Scratch(4 * min(PANEL, w.shape[0]) * w.shape[1])
    return Call("linear_turned_f32", y, x, w, b, added, lo, hi, shape, scratch)


@linear.macs
def _(y: Value, x: Value, w: Value, b: Value | None = None) -> int:
    return y.type.size * w.shape[1]


def linear_grads(g, x, w, b) -> tuple:
    """The gradients of x, w and, if there is one, the bias."""
    dx = linear_dx(g, w, name=f"{x.name}.grad")
    dw = linear_dw(g, x, name=f"{w.name}.grad")
    return (dx, dw) if b is None else (dx, dw, bias_grad(g, name=f"{b.name}.grad"))


def linear_shape(y, w) -> Struct:
    """The C struct of its sizes: rows of x, inputs, outputs."""
    o, i = w.shape
    return Struct("linear_shape", rows=y.type.size // o, i=i, o=o)


linear_s8 = op(
    "linear_s8",
    """acc[..., o] = b[o] + sum over i of w[o,i] (x[..., i] - x_zero); y = requantise(acc), clamped to lo..hi

    Weights are symmetric: one scale, or one per output (axis 0).
    """,
    cases=with_masks([
        Case("row", (s8(1, 5, s=0.1, z=-3), s8(3, 5, s=0.02), s32(3)), out=s8(s=0.2, z=5)),
        Case(
            "litert, per tensor", (s8(1, 67, s=0.07, z=9), s8(81, 67, s=0.013), s32(81)),
            {"rounding": "litert", "lo": -5, "hi": 100}, out=s8(s=0.2, z=-5),
        ),
        Case(
            "litert, per channel, rows", (s8(3, 3, 12, s=0.07, z=-128), s8(17, 12, s=ramp(17), axis=0), s32(17)),
            {"rounding": "litert"}, out=s8(s=0.2, z=-5),
        ),
        Case("no bias", (s8(4, s=0.07, z=1), s8(1, 4, s=0.01)), out=s8(s=0.02)),
    ]),
)  # fmt: skip
linear.may(int8=linear_s8)
linear_s8.may(parameters=Parameters())


@linear_s8.infer
def _(
    x: Type, w: Type, b: Type | None = None, *, lo: int = -128, hi: int = 127, rounding: str = "single",
    mask: bool = False, out: Out,
) -> Type | tuple[Type, ...]:  # fmt: skip
    want_weights("linear_s8", x, w, b, axis=0)
    return beside(quantised("linear_s8", out, linear_output(x, w, b), rounding, lo, hi), mask)


@linear_s8.eval
def _(
    x: Array, w: Array, b: Array | None = None, *, lo: int, hi: int, rounding: str, mask: bool, node: Node
) -> Array | tuple[Array, ...]:
    tx, tw, ty = node.inputs[0].type, node.inputs[1].type, node.output.type
    acc = centred(x, tx.zero) @ w.T.astype(np.float64)
    m, shift = linear_multipliers(tx, tw, ty, rounding)
    return clamped(rescaled(integer_sums(acc, b), m, shift, ty.zero, "single"), lo, hi, mask)


@linear_s8.grad
def _(g: Masked, y: Masked, x: Value, w: Value, b: Value | None = None) -> Grads:
    return linear_grads(unclamped(g, y), x, w, b)


@linear_s8.emit
def _(
    *values: Value, lo: int, hi: int, rounding: str, node: Node, fixed: Collection[int] = (), target: str = "host"
) -> Call:
    y, mask, x, w, b = with_mask(node)
    shape = linear_shape(y, w)
    multipliers = linear_multipliers(x.type, w.type, y.type, rounding)
    q = layer_requant(x.type, y.type, multipliers, lo, hi, "single")
    if 1 not in fixed or target == "mcu":
        return Call("linear_s8", y, mask, x, w, b, shape, q, Scratch(2 * w.shape[1]))
    tile = min(TILE, shape.sizes["rows"])
    weights = (Packed(w, packed_s8()), b, Packed(w, offsets_s8(x.type.zero)))
    scratch = Scratch(tile * ((w.shape[1] + 3) // 4 * 4))
    return Call("linear_packed_s8", y, mask, x, *weights, shape, q, tile, scratch)


@linear_s8.macs
def _(y: Value, x: Value, w: Value, b: Value | None = None) -> int:
    return y.type.size * w.shape[1]


def linear_multipliers(x: Type, w: Type, y: Type, rounding: str):
    """One multiplier per output. LiteRT's kernel rounds once here, in float64, ties away from zero."""
    m, shift = channel_multipliers(x, w, y, w.shape[0])
    return (ties_away(m, shift), shift) if rounding == "litert" else (m, shift)


def ties_away(m: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Multipliers one step larger if sums can fall exactly between two results.

    These are multipliers like 1/8 that end in many zeros. The step, 2^-31, moves such a sum away from zero; any other
    sum is further than that from the middle.
    """
    zeros = np.left_shift(np.int64(1), np.clip(10 - shift.astype(np.int64), 0, 31))
    return np.where((m != 0) & (m % zeros == 0), m + 1, m).astype(np.int32)


def matmul_grads(g, a, b) -> tuple:
    """Each is the product of g with the other operand, transposed; a vector counts as a matrix meanwhile."""
    left, right = (reshape(v, shape=_matrix(v.shape, i)) for i, v in enumerate((a, b)))
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    g = reshape(g, shape=(*batch, left.shape[-2], right.shape[-1]))
    da, db = fitted(matmul(g, turned(right)), left), fitted(matmul(turned(left), g), right)
    return tuple(reshape(d, shape=v.shape, name=f"{v.name}.grad") for d, v in ((da, a), (db, b)))


def turned(x):
    """With the last two dimensions swapped."""
    *batch, i, j = range(len(x.shape))
    return transpose(x, perm=(*batch, j, i))


matmul = op(
    "matmul",
    "y = a @ b as in numpy: y[.., i, j] = sum over k of a[.., i, k] b[.., k, j], leading dimensions broadcast",
    cases=[
        Case("matrix", (f32(3, 5), f32(5, 7))),
        Case("batch", (f32(2, 3, 5), f32(2, 5, 4))),
        Case("broadcast", (f32(2, 1, 3, 4), f32(3, 4, 17))),
        Case("vector right", (f32(2, 3, 4), f32(4))),
        Case("vector left", (f32(4), f32(4, 3))),
        Case("one", (f32(1, 1), f32(1, 1))),
    ],
)


@matmul.infer
def _(a: Type, b: Type) -> Type:
    return Type(a.dtype, matmul_output(a, b))


@matmul.eval
def _(a: Array, b: Array) -> Array:
    return a @ b


@matmul.grad
def _(g: Value, y: Value, a: Value, b: Value) -> Grads:
    return matmul_grads(g, a, b)


@matmul.emit
def _(y: Value, a: Value, b: Value) -> Call:
    return Call("matmul_f32", y, a, b, matmul_shape(a, b))


@matmul.macs
def _(y: Value, a: Value, b: Value) -> int:
    return y.type.size * a.shape[-1]


def matmul_shape(a, b) -> Struct:
    """The C struct of its sizes: the matrices of a and of b that make the i-th of y (null: the i-th)."""
    left, right = _matrix(a.shape, 0), _matrix(b.shape, 1)
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    return Struct(
        "matmul_shape", batch=int(np.prod(batch)), m=left[-2], k=left[-1], n=right[-1],
        ia=_batch_index(left[:-2], batch), ib=_batch_index(right[:-2], batch),
    )  # fmt: skip


def _batch_index(own, batch) -> Table | None:
    index = np.broadcast_to(np.arange(int(np.prod(own)), dtype=np.int32).reshape(own), batch).ravel()
    return None if np.array_equal(index, np.arange(index.size)) else Table(index)


matmul_s8 = op(
    "matmul_s8",
    "acc = sum over k of (a[.., i, k] - a_zero) (b[.., k, j] - b_zero); y = requantise(acc), clamped to lo..hi",
    cases=[
        Case("matrix", (s8(3, 5, s=0.1, z=-3), s8(5, 7, s=0.02, z=11)), out=s8(s=0.1, z=5)),
        Case(
            "litert, broadcast", (s8(2, 1, 3, 4, s=0.1, z=127), s8(3, 4, 17, s=0.02, z=-128)),
            {"rounding": "litert", "lo": -100, "hi": 99}, out=s8(s=0.1, z=-5),
        ),
        Case("vector right", (s8(2, 3, 4, s=0.1), s8(4, s=0.02, z=1)), out=s8(s=0.1)),
        Case("mask", (s8(2, 3, 4, s=0.1, z=5), s8(4, 11, s=0.02, z=1)), {"lo": -50, "hi": 40, "mask": True},
             out=s8(s=0.1)),
    ],
)  # fmt: skip
matmul.may(int8=matmul_s8)


@matmul_s8.infer
def _(
    a: Type, b: Type, *, lo: int = -128, hi: int = 127, rounding: str = "single", mask: bool = False, out: Out
) -> Type | tuple[Type, ...]:
    want_s8("matmul_s8", a=a, b=b)
    return beside(quantised("matmul_s8", out, matmul_output(a, b), rounding, lo, hi), mask)


@matmul_s8.eval
def _(a: Array, b: Array, *, lo: int, hi: int, rounding: str, mask: bool, node: Node) -> Array | tuple[Array, ...]:
    ta, tb, ty = node.inputs[0].type, node.inputs[1].type, node.output.type
    acc = (centred(a, ta.zero) @ centred(b, tb.zero)).astype(np.int64)
    m, shift = tensor_multipliers(ta, tb, ty, rounding)
    return clamped(rescaled(acc, m[0], shift[0], ty.zero, rounding), lo, hi, mask)


@matmul_s8.grad
def _(g: Masked, y: Masked, a: Value, b: Value) -> Grads:
    """In floats: products of two activations are rare and small."""
    return matmul_grads(unclamped(g, y), dequantize(a), dequantize(b))


@matmul_s8.emit
def _(*values: Value, lo: int, hi: int, rounding: str) -> Call:
    y, mask, a, b = apart(values, 2)
    shape = matmul_shape(a, b)
    multipliers = tensor_multipliers(a.type, b.type, y.type, rounding)
    q = requant_struct(multipliers, a.type.zero, y.type.zero, lo, hi, rounding, w_zero=b.type.zero)
    return Call("matmul_s8", y, mask, a, b, shape, channels_of(y.type), q, Scratch(4 * shape.sizes["n"]))


@matmul_s8.macs
def _(y: Value, a: Value, b: Value) -> int:
    return y.type.size * a.shape[-1]
