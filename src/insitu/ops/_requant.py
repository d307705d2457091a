"""From int32 sums to int8 results: multipliers, the two roundings, and the C struct that carries them.

    real multiplier M  ->  m * 2^(shift - 31), with m an int32 in [2^30, 2^31)
    single   (acc * m + 2^(s-1)) >> s with s = 31 - shift, in 64 bits: rounds once, half up
    litert   round_half_away(round_half_up(acc * 2^left * m / 2^31) / 2^right): rounds twice, as LiteRT's
             reference kernels do

Both are followed by + zero point and a clamp. Sums are int32 and wrap. Nothing here knows about ops.
"""

from __future__ import annotations

from functools import lru_cache
from math import frexp

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Quant, Type
from insitu.graph.call import Multipliers, Struct, Table

ROUNDINGS = {"single": 0, "litert": 1}  # their numbers in C


@lru_cache(1 << 16)
def quantize_multiplier(real: float) -> tuple[int, int]:
    """(m, shift) with real ~ m * 2^(shift - 31); (0, 0) if it is too small to matter."""
    if real == 0.0:
        return 0, 0
    fraction, shift = frexp(real)
    m = int(np.floor(fraction * (1 << 31) + 0.5))
    if m == 1 << 31:
        m, shift = m // 2, shift + 1
    if shift < -31:
        return 0, 0
    if shift > 30:
        raise GraphError(f"a requantisation by {real:g} does not fit in 32 bits")
    return m, shift


def quantize_multipliers(reals) -> tuple[np.ndarray, np.ndarray]:
    """The same for an array: int32 multipliers, int8 shifts."""
    pairs = [quantize_multiplier(float(r)) for r in np.asarray(reals, np.float64).ravel()]
    return np.array([m for m, _ in pairs], np.int32), np.array([s for _, s in pairs], np.int8)


def wrap32(x) -> np.ndarray:
    """An integer array wrapped like int32 arithmetic, in int64."""
    return np.asarray(x, np.int64).astype(np.int32).astype(np.int64)


def requant_single(acc, m, shift) -> np.ndarray:
    s = 31 - np.asarray(shift, np.int64)
    return (np.asarray(acc, np.int64) * np.asarray(m, np.int64) + (np.int64(1) << (s - 1))) >> s


def requant_litert(acc, m, shift) -> np.ndarray:
    shift = np.asarray(shift, np.int64)
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    x = wrap32(np.asarray(acc, np.int64) << left)
    high = (x * np.asarray(m, np.int64) + (1 << 30)) >> 31
    mask = (np.int64(1) << right) - 1
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0))


def requantise(acc, m, shift, zero: int, lo: int, hi: int, rounding: str) -> np.ndarray:
    """int32 sums to s8; m and shift broadcast against acc (channels are the last axis)."""
    return np.clip(rescaled(acc, m, shift, zero, rounding), lo, hi).astype(np.int8)


def rescaled(acc, m, shift, zero: int, rounding: str) -> np.ndarray:
    """The same before the clamp."""
    return {"single": requant_single, "litert": requant_litert}[rounding](wrap32(acc), m, shift) + zero


def channel_multipliers(x: Type, w: Type, y: Type, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """One multiplier per output channel: s_x * s_w / s_y, in float64."""
    assert w.quant is not None
    reals = x.scale * np.array(w.quant.scale, np.float64) / y.scale
    return quantize_multipliers(np.broadcast_to(reals, channels))


def tensor_multipliers(a: Type, b: Type, y: Type, rounding: str, channels: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """One multiplier, repeated for each channel. LiteRT computes this product of scales in float32."""
    product = a.scale * b.scale
    if rounding == "litert":
        product = float(np.float32(a.scale) * np.float32(b.scale))
    return quantize_multipliers(np.broadcast_to(product / y.scale, channels))


def layer_requant(x: Type, y: Type, multipliers, lo: int, hi: int, rounding: str) -> Struct:
    """For a layer with weights: others may later find the weights' scales in its multipliers."""
    q = requant_struct(multipliers, x.zero, y.zero, lo, hi, rounding)
    m = q.fields["m"]
    assert isinstance(m, Table)
    return Struct(q.struct, **{**q.fields, "m": Multipliers(m.array, x.scale, y.scale)})


def requant_struct(multipliers, x_zero: int, y_zero: int, lo: int, hi: int, rounding: str, w_zero: int = 0) -> Struct:
    """The quantisation for a kernel: `requant` in c/numbers/requant.h."""
    m, shift = multipliers
    if (m == m[0]).all() and (shift == shift[0]).all():
        m, shift = m[:1], shift[:1]
    return Struct(
        "requant", x_zero=x_zero, w_zero=w_zero, y_zero=y_zero, lo=lo, hi=hi, rounding=ROUNDINGS[rounding],
        step=int(len(m) > 1), m=Table(m), shift=Table(shift),
    )  # fmt: skip


TILE = 8  # windows that a packed kernel processes at a time; its scratch has room for that many
LANES = 16  # outputs that are side by side in packed weights


def packed_s8(runs: int = 1):
    """w[o, ...] as [o/16][runs][k/4][16][4], padded with zeros in o and k: the layout that `tile_s8` reads."""

    def packed(w) -> np.ndarray:
        o = w.shape[0]
        flat = _rounded(w.reshape(o * runs, -1), 1, 4)
        flat = _rounded(flat.reshape(o, -1), LANES, 1)
        return np.ascontiguousarray(flat.reshape(-1, LANES, flat.shape[1] // 4, 4).transpose(0, 2, 1, 3))

    return packed


PANEL = 64  # outputs whose weights are together in a packed float constant: four vectors of sixteen
TURNED = 48  # outputs whose weights are transposed together where memory may be short


def packed_f32(w) -> np.ndarray:
    """w[o, ...] in panels of 64 outputs, each [k][outputs]; the last is only as wide as needed, rounded up to 16."""
    flat = _rounded(w.reshape(w.shape[0], -1), LANES, 1)
    panels = [flat[o : o + PANEL].T.ravel() for o in range(0, flat.shape[0], PANEL)]
    return np.concatenate(panels)


def turned_panel(outputs: int, taps: int, channels: int) -> tuple[int, int]:
    """(outputs, depth) of the part of plain weights [o, taps, channels] that is transposed to [k, outputs] at a time.

    All taps if they are small, else some channels of one tap: never more than 16 KB.
    """
    k = taps * channels
    if k <= (128 if taps == 1 else 256):
        return min(outputs, TURNED, max(LANES, 4096 // k // LANES * LANES)), k
    return min(outputs, 32), min(channels, 128)


def _rounded(w, rows: int, cols: int) -> np.ndarray:
    """Padded with zeros until both sizes are multiples."""
    return np.pad(w, ((0, -w.shape[0] % rows), (0, -w.shape[1] % cols)))


def offsets_s8(x_zero: int):
    """-(x_zero + 128) * sum of w[o]: undoes the effect of reading x as x + 128."""

    def offsets(w) -> np.ndarray:
        return (-(x_zero + 128) * w.reshape(w.shape[0], -1).astype(np.int64).sum(axis=1)).astype(np.int32)

    return offsets


def align16(size: int) -> int:
    """Rounded up to a multiple of 16, like the parts of a kernel's scratch."""
    return (size + 15) // 16 * 16


def quantised(op: str, out, shape, rounding: str = "single", lo: int = -128, hi: int = 127) -> Type:
    """The output type of an int8 op: this shape, with the scale that the caller wants."""
    out = out[0] if isinstance(out, tuple) else out  # a mask's type follows
    q = getattr(out, "quant", out)
    if not isinstance(q, Quant) or q.per_channel:
        raise GraphError(f"{op} needs an output type with one scale", hint="out=s8(s=0.05, z=-3)")
    if rounding not in ROUNDINGS:
        raise GraphError(f"{op}: rounding must be one of {', '.join(ROUNDINGS)}, not {rounding!r}")
    if not -128 <= lo <= hi <= 127:
        raise GraphError(f"{op}: the clamp {lo}..{hi} is not within -128..127")
    return Type("s8", shape, q)


def ramp(channels: int) -> tuple[float, ...]:
    """Different scales, one per channel: for cases."""
    return tuple(0.004 + 0.003 * (i % 5) for i in range(channels))


def want_s8(op: str, **types: Type | None) -> None:
    """Check that each of these is s8 with a scale."""
    for name, t in types.items():
        if t is not None and (t.dtype != "s8" or t.quant is None):
            raise GraphError(f"{op} needs {name} in s8 with a scale, not {t}")


def want_weights(op: str, x: Type, w: Type, b: Type | None, axis: int) -> None:
    """Check that x has one scale, w is symmetric with one scale or one per channel of `axis`, and b is s32."""
    want_s8(op, x=x, w=w)
    assert x.quant is not None and w.quant is not None  # checked by want_s8
    if x.quant.per_channel:
        raise GraphError(f"{op}: the activation {x} has one scale per channel")
    if w.quant.zero != 0 or w.quant.axis not in (None, axis):
        raise GraphError(f"{op}: weights must be symmetric, with one scale or one along axis {axis}, not {w}")
    if b is not None and b.dtype != "s32":
        raise GraphError(f"{op}: the bias must be s32, not {b}")
