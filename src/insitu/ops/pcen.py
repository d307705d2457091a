"""Per-channel energy normalisation, in integers: mel bands, divided by their own recent past, compressed.

What is always there (a hum, the level of a microphone) is divided away; what begins stands out. `mel` adds up
amplitudes in bands, `smooth` follows each band over time, `pcen` divides and compresses. All three work row by row:
`smooth` makes each row from the row above it, which stays in its line buffer. Nothing is trained before a spectrum: no
op here has a gradient. The logarithms of bands are in sound.py.
"""

from __future__ import annotations

from math import log2

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, Value, op
from insitu.graph.call import Call, Struct, Table
from insitu.graph.loops import Rows
from insitu.graph.op import Grads
from insitu.graph.types import quant
from insitu.ops import _sound as tables
from insitu.ops._stripes import alike
from insitu.ops._types import Array, Padding
from insitu.ops.sound import SPEECH

LARGEST = (1 << 31) - 1
SHARE_BITS = 16  # fraction bits of the share of a new row
RATIO_BITS = 16  # of a band divided by its past
OUT_BITS = 10  # of the result
ONE = 1 << tables.TABLE_BITS
MOST = 30 << tables.TABLE_BITS  # the largest logarithm of a ratio in its unit


def _nothing(g: Value, y: Value, *inputs: Value) -> Grads:
    return (None,) * len(inputs)


def _drawn(frames: int, bands: int, most: float, sounds: int = 1) -> Array:
    drawn = np.random.default_rng(frames * bands).uniform(0, 1, (sounds, frames, bands, 1))
    return np.rint(np.exp(drawn * np.log(most))).astype(np.int32)


# bands ------------------------------------------------------------------------------------------

mel = op(
    "mel",
    """y[f, b] = gain sum over k of w[b, k] m[f, k], w mel triangles from `low` to `high` Hz

    m is a `spectrum` of `points` samples at `rate` Hz; y is s32 with half the unit of m, times gain. Sums are exact in
    64 bits, then rounded, and limited to 2^31 - 1.
    """,
    kind="any",
    cases=[
        Case("bands", (_drawn(3, 65, 1e6),), SPEECH),
        Case("two sounds", (_drawn(5, 65, 1e4, 2),), {**SPEECH, "gain": 4.0}),
        Case("loudest", (np.full((1, 2, 65, 1), 2**30, np.int32),), SPEECH),
        Case("silence", (np.zeros((1, 1, 65, 1), np.int32),), SPEECH),
    ],
)
mel.grad(_nothing)
mel.may(stripes=alike)


@mel.infer
def _(x: Type, *, points: int, bands: int, rate: int, low: float, high: float, gain: float = 1.0) -> Type:
    if x.dtype != "s32" or x.rank != 4 or x.shape[3] != 1 or gain <= 0:
        raise GraphError(f"needs amplitudes s32[sounds, frames, frequencies, 1], not {x}, and gain > 0, not {gain}")
    if tables.bins_used(bands, points, rate, low, high) > x.shape[2]:
        raise GraphError(f"bands up to {high} Hz need more frequencies than {x}")
    return Type("s32", (*x.shape[:2], bands, 1), quant(gain * tables.spectrum_scale(points) / 2))


@mel.eval
def _(x: Array, *, points: int, bands: int, rate: int, low: float, high: float) -> Array:
    spans, weights = tables.band_tables(bands, points, rate, low, high)
    m, sums, used = x.reshape(-1, x.shape[2]).astype(np.int64), [], 0
    for first, count in spans.astype(int):
        sums.append((m[:, first : first + count] * weights[used : used + count].astype(np.int64)).sum(axis=1))
        used += count
    rounded = (np.stack(sums, axis=1) + (1 << 13)) >> 14
    return np.minimum(rounded, LARGEST).astype(np.int32).reshape(*x.shape[:2], bands, 1)


@mel.emit
def _(y: Value, x: Value, *, points: int, bands: int, rate: int, low: float, high: float) -> Call:
    spans, weights = tables.band_tables(bands, points, rate, low, high)
    sizes = x.shape[0] * x.shape[1], x.shape[2], bands
    return Call("mel_s32", y, x, Table(spans), Table(weights), *sizes)


@mel.macs
def _(y: Value, x: Value, *, points: int, bands: int, rate: int, low: float, high: float) -> int:
    return y.shape[0] * y.shape[1] * len(tables.band_tables(bands, points, rate, low, high)[1])


# the past ---------------------------------------------------------------------------------------

smooth = op(
    "smooth",
    """m[0] = x[0]; m[t] = m[t - 1] + share (x[t] - m[t - 1]), for each column and channel of its own

    x[n, t, w, c] is s32 and not negative, `share` has 16 fraction bits, products are rounded to nearest.
    """,
    kind="any",
    cases=[
        Case("rows", (_drawn(9, 5, 1e6),), {"share": 0.04}),
        Case("two sounds", (_drawn(4, 3, 1e9, 2),), {"share": 0.5}),
        Case("one row", (_drawn(1, 7, 1e3),), {"share": 0.1}),
        Case("nothing of the past", (_drawn(3, 2, 2e9),), {"share": 1.0}),
    ],
)
smooth.grad(_nothing)


@smooth.infer
def _(x: Type, *, share: float, padding: Padding = (1, 0, 0, 0)) -> Type:
    if x.dtype != "s32" or x.rank != 4:
        raise GraphError(f"needs s32[sounds, rows, width, channels], not {x}")
    if not 0.5 / (1 << SHARE_BITS) < share <= 1 or tuple(padding) != (1, 0, 0, 0):
        raise GraphError(f"share {share}, padding {padding}", hint="share above 0 and at most 1, padding 1, 0, 0, 0")
    return x


@smooth.eval
def _(x: Array, *, share: float) -> Array:
    rows, part = [x[:, 0].astype(np.int64)], round(share * (1 << SHARE_BITS))
    for t in range(1, x.shape[1]):
        rows.append(rows[-1] + (((x[:, t] - rows[-1]) * part + (1 << SHARE_BITS - 1)) >> SHARE_BITS))
    return np.stack(rows, axis=1).astype(np.int32)


@smooth.emit
def _(y: Value, x: Value, *, share: float, padding: Padding) -> Call:
    sizes = Struct("sound_past", sounds=x.shape[0], h=x.shape[1], oh=y.shape[1], pt=padding[0],
                   width=x.shape[2] * x.shape[3], share=round(share * (1 << SHARE_BITS)))  # fmt: skip
    return Call("smooth_s32", y, x, sizes)


@smooth.macs
def _(y: Value, x: Value) -> int:
    return y.type.size


def _row_and_above(y: Value, x: Value) -> tuple[Rows]:
    """The row above tells a call whether it is the first, by its padding."""
    return (Rows(kernel=2, top=1),)


smooth.may(stripes=_row_and_above, carries=True)


# the ratio --------------------------------------------------------------------------------------


def _pair(x: Array, m: Array) -> tuple[Array, Array]:
    return x.astype(np.int32), m.astype(np.int32)


pcen = op(
    "pcen",
    """y = (x / (floor + m)^gain + bias)^root - bias^root

    x and m, of one unit: bands, and the same bands smoothed. y is s16 with the unit 2^-10. Powers are 2 to the power of
    a product with a logarithm; both functions are tables with straight lines between their 65 entries.
    """,
    kind="any",
    cases=[
        Case("bands", _pair(_drawn(7, 5, 1e7), _drawn(7, 5, 1e6)), {"unit": 2.0**-22}),
        Case("other powers", _pair(_drawn(4, 9, 1e9), _drawn(4, 9, 1e5)),
             {"unit": 1e-7, "gain": 0.8, "bias": 0.1, "root": 0.25}),
        Case("from silence", _pair(np.full((1, 2, 3, 1), LARGEST), np.zeros((1, 2, 3, 1))),
             {"unit": 1e-6, "floor": 0.0}),
        Case("silence", _pair(np.zeros((1, 1, 2, 1)), np.full((1, 1, 2, 1), LARGEST)), {"unit": 1e-6}),
        Case("no compression", _pair(_drawn(5, 3, 1e6), _drawn(5, 3, 1e6)), {"unit": 1e-6, "gain": 1.0, "root": 1.0}),
    ],
)  # fmt: skip
pcen.grad(_nothing)
pcen.may(stripes=alike)


@pcen.infer
def _(x: Type, m: Type, *, unit: float, floor: float = 1e-6, gain: float = 0.98, bias: float = 2.0,
      root: float = 0.5) -> Type:  # fmt: skip
    if x.dtype != "s32" or x.rank != 4 or m.dtype != "s32" or m.shape != x.shape:
        raise GraphError(f"needs bands s32[sounds, frames, bands, 1] and their past, not {x} and {m}")
    if not (unit > 0 and floor >= 0 and 0 <= gain <= 1 and 2**-10 <= bias <= 2**10 and 0 < root <= 1):
        what = f"floor {floor}, gain {gain}, bias {bias}, root {root}"
        raise GraphError(what, hint="floor >= 0, gain from 0 to 1, bias from 0.001 to 1024, root above 0 and at most 1")
    return Type("s16", x.shape, quant(2.0**-OUT_BITS))


def _settings(unit: float, floor: float, gain: float, bias: float, root: float) -> dict[str, int]:
    """The numbers in integers; `shift` is the logarithm of the unit, which counts 1 - gain times."""
    return {
        "floor": min(round(floor / unit), LARGEST), "gain": round(gain * ONE),
        "shift": round(((1 - gain) * log2(unit) + RATIO_BITS) * ONE),
        "bias": round(bias * (1 << RATIO_BITS)), "root": round(root * ONE),
        "less": round(bias**root * (1 << OUT_BITS)),
    }  # fmt: skip


@pcen.eval
def _(x: Array, m: Array, *, unit: float, floor: float, gain: float, bias: float, root: float) -> Array:
    s, bits = _settings(unit, floor, gain, bias, root), tables.TABLE_BITS
    past = tables.log2_fine(m.astype(np.uint64) + np.uint64(s["floor"]))
    power = np.minimum(tables.log2_fine(x.astype(np.uint64)) - ((past * s["gain"]) >> bits) + s["shift"], MOST)
    ratio = np.where((x > 0) & (power >= 0), tables.exp2(np.maximum(power, 0)), 0)
    log = tables.log2_fine((ratio + s["bias"]).astype(np.uint64)) - (RATIO_BITS << bits)
    power = ((log * s["root"]) >> bits) + (OUT_BITS << bits)
    return np.clip(tables.exp2(np.maximum(power, 0)) - s["less"], -32768, 32767).astype(np.int16)


@pcen.emit
def _(y: Value, x: Value, m: Value, *, unit: float, floor: float, gain: float, bias: float, root: float) -> Call:
    numbers = _settings(unit, floor, gain, bias, root)
    sizes = Struct("sound_ratio", n=y.type.size, **numbers, logs=Table(tables.log_table()),
                   powers=Table(tables.power_table()))  # fmt: skip
    return Call("pcen_s32", y, x, m, sizes)


@pcen.macs
def _(y: Value, x: Value, m: Value) -> int:
    return 6 * y.type.size
