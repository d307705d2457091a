"""What each op computes in real numbers: its integer formula without `round`, but with the clamp.

Straight-through gradients are the gradients of these functions, so finite differences are taken of them. A surrogate
takes and returns real numbers (float64). Nothing here uses a gradient rule, a kernel or the integer definition:
windows are walked tap by tap, and scales and zero points come only from the types.

`round` followed by `clamp` to lo..hi passes gradients where the number before rounding is within lo - 1/2 .. hi + 1/2.
For elements very close to these edges, rounding decides; `moved` says which elements those are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from insitu.graph import REGISTRY, Node, Op, Type
from insitu.ops import layout, pool, reduce
from insitu.ops._gradients import table_slope
from insitu.ops.activation import lut_s8, prelu
from insitu.ops.arith import add_s8, mul_s8, sub_s8
from insitu.ops.channels import merge_channels, take_channels
from insitu.ops.conv import conv2d_s8
from insitu.ops.depthwise import depthwise2d_s8
from insitu.ops.linear import linear_s8, matmul_s8
from insitu.ops.norm import softmax_s8
from insitu.ops.pool import avg_pool2d_s8
from insitu.ops.quant import dequantize, quantize, requantize_s8
from insitu.ops.reduce import mean_s8

BELOW = 1e-3  # of the largest input: how far below a kink at 0 its lower slope is measured
STEP = 1e-5  # how far inputs are moved for a difference, in units of their scale
TIE_STEP = 1e-8  # the same where equal inputs must still be told from those that are merely close
HAIR = 1e-3  # in units of the output's scale: nearer to an edge than this counts as neither inside nor outside
HAIR_LITERT = 0.51  # the same if the number is rounded twice


def real(array: np.ndarray, type: Type) -> np.ndarray:
    """The real numbers that an array of this type stands for."""
    wide = np.asarray(array, np.float64)
    return wide if type.quant is None else (wide - type.quant.zero) * type.quant.scales(type.rank)


def reals(node: Node, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The inputs of a node as real numbers. A bias without a scale has that of the products it is added to."""
    found = [real(a, v.type) for a, v in zip(arrays, node.inputs)]
    if node.op is lut_s8:
        found[1] = np.asarray(arrays[1], np.float64)  # a table holds integers, whatever they stand for
    if len(found) == 3 and node.inputs[2].dtype == "s32" and node.inputs[2].type.quant is None:
        x, w, _ = (v.type for v in node.inputs)
        found[2] = found[2] * x.scale * np.array(w.quant.scale if w.quant else 1.0)
    return found


# windows ----------------------------------------------------------------------------------------


def taps(node: Node, x: np.ndarray, kernel, fill: float = 0.0):
    """(u, v, the inputs [N,OH,OW,C] at tap u, v of every window) for a node with stride, padding and dilation."""
    a = node.attrs
    (sh, sw), (top, bottom, left, right) = a["stride"], a["padding"]
    dh, dw = a.get("dilation", (1, 1))
    oh, ow = node.output.shape[1:3]
    wide = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    for u, v in product(range(kernel[0]), range(kernel[1])):
        i, j = u * dh, v * dw
        yield u, v, wide[:, i : i + (oh - 1) * sh + 1 : sh, j : j + (ow - 1) * sw + 1 : sw]


def conv2d(node: Node, x, w, b=0.0):
    groups = node.attrs["groups"]
    out, c = w.shape[0] // groups, w.shape[3]
    y = np.zeros(node.output.shape)
    for u, v, seen in taps(node, x, w.shape[1:3]):
        for g in range(groups):
            y[..., g * out : (g + 1) * out] += seen[..., g * c : (g + 1) * c] @ w[g * out : (g + 1) * out, u, v].T
    return y + b


def depthwise2d(node: Node, x, w, b=0.0):
    x = np.repeat(x, w.shape[2] // x.shape[3], axis=3)
    return sum((seen * w[u, v] for u, v, seen in taps(node, x, w.shape[:2])), np.zeros(())) + b


def avg_pool2d(node: Node, x):
    kernel, inside = node.attrs["kernel"], np.ones_like(x)
    total = sum((seen for _, _, seen in taps(node, x, kernel)), np.zeros(()))
    padding = float(node.attrs["count_include_pad"])
    return total / sum((seen for _, _, seen in taps(node, inside, kernel, padding)), np.zeros(()))


def max_pool2d(node: Node, x):
    seen = [s for _, _, s in taps(node, first_wins(node, x), node.attrs["kernel"], -np.inf)]
    return np.max(seen, axis=0)


def amax(node: Node, x):
    """Where equal maxima share the gradient: the mean of all that were equal before a difference moved them."""
    axes, keepdims = tuple(node.attrs["axes"]), node.attrs["keepdims"]
    if node.attrs["ties"] == "first":
        return first_wins(node, x).max(axis=axes, keepdims=keepdims)
    highest = x >= x.max(axis=axes, keepdims=True) - 3 * TIE_STEP * _unit(node.inputs[0].type, x)
    return np.mean(x, axis=axes, keepdims=keepdims, where=highest)


def first_wins(node: Node, x):
    """Makes equal integers slightly unequal, so that the first of several maxima wins."""
    unit = node.inputs[0].type.scale if node.inputs[0].type.quant else 0.0
    return x - unit / 4 * np.arange(x.size).reshape(x.shape) / x.size


# others -----------------------------------------------------------------------------------------


def linear(node: Node, x, w, b=0.0):
    return x @ w.T + b


def mean(node: Node, x):
    return x.mean(axis=tuple(node.attrs["axes"]), keepdims=node.attrs["keepdims"])


def pad(node: Node, x):
    return np.pad(x, node.attrs["pads"], constant_values=node.attrs["value"])


@lru_cache(maxsize=64)
def fitted_slopes(table: bytes, x: Type, y: Type) -> np.ndarray:
    """The slopes that the gradient uses if the table has none of its own."""
    return table_slope(np.frombuffer(table, np.float64), x, y)


def lut(node: Node, x, table, slope=None):
    """The curve through the middle of the table that has these slopes at the integers."""
    tx, ty = node.inputs[0].type, node.output.type
    given = fitted_slopes(table.tobytes(), tx, ty) if slope is None else slope
    d = given.astype(np.float64) * tx.scale / ty.scale  # in integers a step
    curve = np.concatenate([[0.0], np.cumsum((d[1:] + d[:-1]) / 2)])
    curve += np.median(table - curve)
    q = x / tx.scale + tx.zero + 128
    i = np.clip(np.floor(q).astype(int), 0, 254)  # extrapolated beyond both ends
    f = q - i
    return (curve[i] + d[i] * f + (d[i + 1] - d[i]) * f * f / 2 - ty.zero) * ty.scale


def of_float(node: Node, *values):
    """What the float op of an int8 twin computes: enough for a twin that has no formula of its own here."""
    op = FLOAT[node.op]
    attrs = {name: node.attrs.get(name, first) for name, first in op.defaults.items()}
    return op.apply("eval", values, attrs, node=node)


# op of an int8 graph -> its surrogate before the clamp: (node, *reals) -> reals
SURROGATES: dict[Op, Callable] = {
    conv2d_s8: conv2d,
    depthwise2d_s8: depthwise2d,
    linear_s8: linear,
    add_s8: lambda node, x, y: x + y,
    sub_s8: lambda node, x, y: x - y,
    mul_s8: lambda node, x, y: x * y,
    matmul_s8: lambda node, x, y: x @ y,
    avg_pool2d_s8: avg_pool2d,
    mean_s8: mean,
    requantize_s8: lambda node, x: x,
    quantize: lambda node, x: x,
    dequantize: lambda node, x: x,
    lut_s8: lut,
    pool.max_pool2d: max_pool2d,
    reduce.amax: amax,
    layout.pad: pad,
}
FLOAT = {op.facts.int8: op for op in REGISTRY.values() if op.facts.int8 is not None}
SURROGATES |= {twin: of_float for twin in FLOAT if twin not in SURROGATES}
MOVES_ONLY = {
    layout.reshape, layout.transpose, layout.concat, layout.slice, layout.split, layout.resize, merge_channels,
    take_channels,
}  # fmt: skip
UNCLAMPED = {dequantize, pool.max_pool2d, reduce.amax, layout.pad, lut_s8, softmax_s8} | MOVES_ONLY


def has_surrogate(node: Node) -> bool:
    """Does the integer formula of this op stand for a function of real numbers?"""
    known = node.op in SURROGATES or node.op in MOVES_ONLY
    return known and any(v.type.quant is not None for v in (*node.inputs, *node.outputs))


def before_clamp(node: Node, values: Sequence) -> tuple[np.ndarray, ...]:
    """The node's results for these real inputs; ops that only move numbers, and float ops, are evaluated as usual."""
    if node.op in SURROGATES and (has_surrogate(node) or node.op is reduce.amax):  # floats tie, too: dequantised ones
        return (np.asarray(SURROGATES[node.op](node, *values)),)
    found = node.rule("eval", *values)
    return tuple(np.asarray(f) for f in (found if isinstance(found, tuple) else (found,)))


def edges(node: Node) -> tuple[float, float] | None:
    """The range of real numbers in which the clamp passes gradients."""
    q = node.output.type.quant
    if not has_surrogate(node) or node.op in UNCLAMPED or q is None:
        return None
    lo, hi = node.attrs.get("lo", -128), node.attrs.get("hi", 127)
    return (lo - 0.5 - q.zero) * q.scale[0], (hi + 0.5 - q.zero) * q.scale[0]


def surrogate(node: Node, values: Sequence) -> tuple[np.ndarray, ...]:
    """The real outputs for real inputs."""
    found, ends = before_clamp(node, values), edges(node)
    return found if ends is None else (np.clip(found[0], *ends), *found[1:])


def moved(node: Node, values: Sequence, moves: Sequence) -> tuple[list[np.ndarray], np.ndarray]:
    """The central difference of each output along `moves` (None: fixed input), and which elements are near an edge."""
    h = _step(node, values, moves)
    outputs = [v for v in node.outputs if v.dtype != "u8"]
    values = _below_kink(node, values)
    if h == 0:
        return [np.zeros(v.shape) for v in outputs], np.zeros(node.output.shape, bool)
    up, down = (before_clamp(node, [x if m is None else x + s * h * m for x, m in zip(values, moves)]) for s in (1, -1))
    ends = edges(node)
    if ends is None:
        return [(a - b) / (2 * h) for a, b in zip(up, down)], np.zeros(node.output.shape, bool)
    difference = (np.clip(up[0], *ends) - np.clip(down[0], *ends)) / (2 * h)
    hair = HAIR_LITERT if node.attrs.get("rounding") == "litert" else HAIR
    near = np.abs(up[0] - down[0]) + hair * node.output.type.scale
    return [difference], np.minimum(np.abs(up[0] - ends[0]), np.abs(up[0] - ends[1])) <= near


def _below_kink(node: Node, values: Sequence) -> Sequence:
    """A dequantised input is often exactly 0, where prelu has two slopes: its gradient takes the one below."""
    if node.op is not prelu:
        return values
    x = np.asarray(values[0])
    return [np.where(x == 0, -BELOW * np.max(np.abs(x), initial=0.0), x), *values[1:]]


def softmax_moved(y: np.ndarray, m: np.ndarray) -> np.ndarray:
    """How shares y move along m. The gradient of softmax_s8 has only its rounded shares, whatever they were before."""
    return y * (m - np.sum(y * m, axis=-1, keepdims=True))


def _step(node: Node, values: Sequence, moves: Sequence) -> float:
    """A step so small that no input moves by more than STEP of its scale (or of its size, if it has no scale)."""
    longest = 0.0
    for v, x, m in zip(node.inputs, values, moves):
        if m is not None and np.any(m):
            longest = max(longest, float(np.max(np.abs(m) / _unit(v.type, x))))
    return _share(node, values[0]) / longest if longest else 0.0


def _unit(type: Type, x: np.ndarray):
    """The step of integers; the size of real numbers."""
    return type.quant.scales(type.rank) if type.quant else max(float(np.max(np.abs(x))), 1e-3)


def _share(node: Node, x: np.ndarray) -> float:
    if node.attrs.get("ties") == "even":
        return TIE_STEP
    first = node.op in (pool.max_pool2d, reduce.amax)
    return 0.05 / x.size if first else STEP  # stay below the gaps that first_wins makes
