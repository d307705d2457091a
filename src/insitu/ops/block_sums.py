"""The integer gradient of a layer's input in two steps: sums, and the blocks made from them.

Together they do what conv2d_dx_block of a 1x1 convolution with stride one (or linear_dx_block) does at once. The
planner makes them if the summed gradient comes in groups of channels (changes/channel_groups): the sums of the groups
so far can be kept.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, op, s8
from insitu.graph.call import Call, Scratch, Table
from insitu.graph.loops import Count, Entries, Part
from insitu.ops._block import (
    BITS,
    SHARE,
    a_channel,
    both,
    headroom,
    packed,
    pair,
    rounded,
    some_exponents,
    want_block,
    weight_shares,
    widened,
)
from insitu.ops._types import Array, Ints
from insitu.ops.block_conv import WEIGHT_BITS, pairs_rows
from insitu.ops.block_linear import rows_struct
from insitu.ops.channels import positions
from insitu.ops.tiled_parts import SCALES, merged, merged_type


def whole_weight(w: Type, fixed: Type | None, channels) -> Type:
    return merged_type(w, fixed, channels) if fixed else w


def shares_of(w: Type) -> tuple[np.ndarray, int, int]:
    """Shares of the scales, their power of two, and the number of dropped bits."""
    return *weight_shares(w, w.shape[0]), headroom(w.shape[0], WEIGHT_BITS)


def sums_shape(m: Type, inputs: int) -> tuple[int, int, int]:
    """(rows, channels, pixels of a row)"""
    return m.rows, inputs, m.size // m.rows // m.shape[-1]


def sum_call(acc, gradient: tuple, weights: tuple, shares, first, n: int, node: Node, drop: int, tight: int) -> Call:
    """What the gradient of some outputs adds: their mantissas and exponents, and the exponents of all outputs."""
    shape = sums_struct(node.inputs[0], node.output.shape[1])
    pixels = shape.sizes["w"]
    rows = pairs_rows(shape.sizes["h"], pixels, (n + 3) // 4 * 4, tight)
    scratch = Scratch(512 + 2 * ((n + 3) // 4 * 4) * (4 + (rows * pixels + 3) // 4 * 4))
    function = f"conv2d_sum_dx_{node.inputs[0].dtype}"
    return Call(function, acc, *gradient, *weights, shares, drop, first, n, rows, n, shape, scratch)


def sums_struct(m: Value, inputs: int):
    return rows_struct(m, Value("dx", Type(m.dtype, (*m.shape[:-1], inputs))))


def part_of_sums(node: Node, gradient: tuple, outputs: int, tight: int) -> Call:
    """dx_sums_block for `outputs` outputs: in tile t those from t * outputs on."""
    w, *fixed = node.inputs[2:]
    channels, c = node.attrs["channels"], node.output.shape[1]
    table, _, drop = shares_of(whole_weight(w.type, fixed[0].type if fixed else None, channels))
    parts = (*(Part(v, outputs * v.shape[-1]) for v in (w, *fixed)), *_which(channels, c))
    shares = Entries(Table(table), outputs)
    return sum_call(node.output, gradient, parts, shares, Count(outputs), outputs, node, drop, tight)


def _which(channels, c: int) -> tuple:
    return (positions(channels, c), len(channels)) if channels else (None, None, 0)


dx_sums_block = op(
    "dx_sums_block",
    """acc[row, i, pixel] = sum over o of p[row, pixel, o] w[o,i], p = g share[o] / 2^.. as in conv2d_dx_block

    `channels`: w is given in two parts, as in linear_dx_parts.
    """,
    kind="int8",
    cases=[
        *both("1x1", (1, 5, 3, 19), s8(19, 1, 1, 37, s=SCALES, axis=0)),
        *both("wide rows", (1, 2, 70, 32), s8(32, 1, 1, 5, s=0.02)),
        *both("fours", (1, 3, 8, 48), s8(48, 1, 1, 20, s=0.02)),
        *both("deep", (1, 1, 2, 531), s8(531, 1, 1, 6, s=0.02)),
        *both("parts", (1, 3, 4, 19), s8(19, 1, 1, 3, s=SCALES, axis=0), s8(19, 1, 1, 34, s=SCALES, axis=0),
              channels=(36, 1, 7)),
    ],
)  # fmt: skip
dx_sums_block.may(made_for="blocks_in_groups")


@dx_sums_block.infer
def _(m: Type, e: Type, w: Type, *fixed: Type, channels: Ints = ()) -> Type:
    want_block(m, e)
    whole = whole_weight(w, fixed[0] if fixed else None, channels)
    weight_shares(whole, whole.shape[0])
    if len(fixed) != bool(channels) or m.shape[-1] != whole.shape[0] or whole.size != m.shape[-1] * whole.shape[-1]:
        raise GraphError(f"the gradient {m} does not match weights {whole}")
    return Type("s32", sums_shape(m, whole.shape[-1]))


@dx_sums_block.eval
def _(m: Array, e: Array, w: Array, *fixed: Array, channels: Ints, node: Node) -> Array:
    t = node.inputs[0].type
    whole = whole_weight(node.inputs[2].type, node.inputs[3].type if fixed else None, channels)
    w = merged(w, fixed[0], channels) if fixed else w
    table, _, drop = shares_of(whole)
    wide, high = widened(m, e, t)
    distance = a_channel(high.max(axis=1, keepdims=True) - high, t.shape[-1])[:, None]
    p = rounded(wide * table.astype(np.int64), SHARE + drop + distance)
    sums = p @ w.reshape(w.shape[0], -1).astype(np.int64)
    return np.ascontiguousarray(sums.swapaxes(1, 2)).astype(np.int32)


@dx_sums_block.emit
def _(acc: Value, m: Value, e: Value, w: Value, *fixed: Value, channels: Ints, node: Node, tight: int = 0) -> Call:
    whole = whole_weight(w.type, fixed[0].type if fixed else None, channels)
    table, _, drop = shares_of(whole)
    parts = (w, *fixed, *_which(channels, acc.shape[1]))
    return sum_call(acc, (m, e, e), parts, Table(table), 0, w.shape[0], node, drop, tight)


@dx_sums_block.macs
def _(acc: Value, m: Value, e: Value, w: Value, *fixed: Value) -> int:
    return m.type.size * acc.shape[1]


dx_store_block = op(
    "dx_store_block",
    "(dx, e): the sums of dx_sums_block times 2^(the largest of the row's exponents + by), normalised",
    kind="int8",
    cases=[
        Case(f"{name}, {dtype}", (Type("s32", acc), some_exponents(acc[0] * groups)),
             {"dtype": dtype, "shape": shape, "by": by})
        for dtype in BITS
        for name, acc, shape, groups, by in (
            ("image", (5, 19, 3), (1, 5, 3, 19), 3, -4),
            ("rows", (3, 5, 1), (3, 5), 1, 2),
            ("fours", (2, 32, 8), (1, 2, 8, 32), 4, 0),
            ("one row", (1, 7, 9), (1, 1, 9, 7), 2, 0),
        )
    ],
)  # fmt: skip
dx_store_block.may(in_place=(0, None))
dx_store_block.may(made_for="blocks_in_groups")


@dx_store_block.infer
def _(acc: Type, e: Type, *, dtype: str, shape: Ints, by: int) -> tuple[Type, ...]:
    made = pair(dtype, shape)
    rows, channels, pixels = acc.shape
    fits = acc.dtype == "s32" and acc.size == made[0].size and (rows, channels) == (made[0].rows, shape[-1])
    if not fits or e.size % rows or pixels * rows * channels != made[0].size:
        raise GraphError(f"{acc} with exponents {e} does not become {made[0]}")
    return made


@dx_store_block.eval
def _(acc: Array, e: Array, *, by: int, node: Node) -> tuple[Array, ...]:
    t = node.output.type
    high = e.astype(np.int64).reshape(acc.shape[0], -1).max(axis=1, keepdims=True) - (15 - BITS[t.dtype])
    return packed(acc.swapaxes(1, 2), high + by, t)


@dx_store_block.emit
def _(dx: Value, dxe: Value, acc: Value, e: Value, *, by: int) -> Call:
    rows, channels, pixels = acc.shape
    sizes = (e.type.size // rows, by, rows, pixels, channels)
    return Call(f"conv2d_store_dx_{dx.dtype}", dx, dxe, acc, e, *sizes, Scratch(4 * pixels * channels))


def in_two(dx: Node, merge: Node | None) -> tuple[Node, Node]:
    """Nodes for the sums and for the blocks; `merge`, which puts the weight together, is then not needed."""
    m, e, *weights = dx.inputs
    parts = merge or (dx if len(weights) > 1 else None)
    channels = tuple(parts.attrs["channels"]) if parts else ()
    given = (m, e, *(merge.inputs if merge else weights))
    acc = Value(f"{dx.name}.sums", Type("s32", sums_shape(m.type, dx.output.shape[-1])))
    sums = Node(dx_sums_block, given, (acc,), {"channels": channels})
    _, k, drop = shares_of(whole_weight(given[2].type, given[3].type if channels else None, channels))
    attrs = {"dtype": m.dtype, "shape": dx.output.shape, "by": k + drop}
    return sums, Node(dx_store_block, (acc, e), dx.outputs, attrs)
