"""From sound to features, in integers: amplitudes of frequencies, logarithms of mel bands, cepstra.

Sound comes as rows of samples, s16[sounds, rows, samples, 1], one row per hop. A frame is a window that begins with a
row, so every op here works row by row, and neither the sound nor its spectrogram has to exist whole
(docs/streaming.md). Nothing is trained before a spectrum: no op here has a gradient.
"""

from __future__ import annotations

from math import log, log2

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, op
from insitu.graph.call import Call, Scratch, Struct, Table
from insitu.graph.loops import Rows
from insitu.graph.op import Grads
from insitu.graph.types import quant
from insitu.ops import _sound as tables
from insitu.ops._stripes import alike
from insitu.ops._types import Array

ROUGH = 8  # bits of the sums of a cepstrum that are dropped before they become floats


def _noise(rows: int, samples: int, loudness: float = 32767.0) -> Array:
    noise = np.random.default_rng(rows * samples).uniform(-1, 1, (1, rows, samples, 1))
    return np.rint(noise * loudness).astype(np.int16)


def _loudest(rows: int, samples: int) -> Array:
    """The lowest sample everywhere: nothing may overflow."""
    return np.full((1, rows, samples, 1), -32768, np.int16)


def _nothing(g: Value, y: Value, x: Value) -> Grads:
    return (None,)


# the spectrum -----------------------------------------------------------------------------------

spectrum = op(
    "spectrum",
    """m[f, k] = |sum over n < window of w[n] x[f hop + n] e^(-2 pi i k n / N)|, N the next power of two, k < bins

    x are rows of `hop` samples; a sample of 32,768 is 1.0. An integer transform of N / 2 complex numbers, scaled before
    every pass so that nothing can overflow; one unit of m is 2^-12 N / 4 of a sample's unit.
    """,
    kind="any",
    cases=[
        Case("odd rows", (_noise(5, 20),), {"window": 30, "bins": 17}),
        Case("two sounds", (_noise(8, 20).reshape(2, 4, 20, 1),), {"window": 50, "bins": 20}),
        Case("loudest", (_loudest(3, 32),), {"window": 64, "bins": 33, "shape": "none"}),
        Case("quiet, first bins", (_noise(7, 48, 9.0),), {"window": 100, "bins": 3, "shape": "hamming"}),
        Case("window of one row", (_noise(2, 128),), {"window": 128, "bins": 65}),
        Case("silence", (np.zeros((1, 2, 16, 1), np.int16),), {"window": 16, "bins": 9}),
    ],
)
spectrum.grad(_nothing)


@spectrum.infer
def _(x: Type, *, window: int, bins: int, shape: str = "hann") -> Type:
    if x.dtype != "s16" or x.rank != 4 or x.shape[3] != 1:
        raise GraphError(f"needs samples s16[sounds, rows, samples, 1], not {x}")
    n, (sounds, rows, hop, _) = tables.points(window), x.shape
    if not 4 <= window <= rows * hop or not 1 <= bins <= n // 2 + 1:
        raise GraphError(f"a window of {window} samples with {bins} frequencies does not fit {x}")
    tables.window_table(shape, window)
    return Type("s32", (sounds, (rows * hop - window) // hop + 1, bins, 1), quant(tables.spectrum_scale(n)))


@spectrum.eval
def _(x: Array, *, window: int, bins: int, shape: str, node: Node) -> Array:
    frames, hop, n = node.output.shape[1], x.shape[2], tables.points(window)
    at = hop * np.arange(frames)[:, None] + np.arange(window)
    parts = x.reshape(len(x), -1)[:, at].reshape(-1, window).astype(np.int64)
    weighed = (parts * tables.window_table(shape, window) + 2) >> 2
    re, im = _transformed(np.pad(weighed, ((0, 0), (0, n - window))))
    return _amplitudes(*_split(re, im, bins)).astype(np.int32).reshape(node.output.shape)


def _transformed(v: Array) -> tuple[Array, Array]:
    """The transform of N reals taken as N / 2 complex numbers."""
    n = v.shape[1]
    order, w = tables.reversed_bits(n // 2), tables.twiddles(n).astype(np.int64)
    re, im = _fours(v[:, 0::2][:, order], v[:, 1::2][:, order])
    half = 4
    while half < n // 2:
        re, im = _pass(re, im, half, w[:: n // (2 * half)][:half])
        half *= 2
    return re, im


def _fours(re: Array, im: Array) -> tuple[Array, Array]:
    """The first two passes: transforms of four numbers, which need no products."""
    a, b, c, d = (np.stack([re[:, i::4], im[:, i::4]]) for i in range(4))
    turned = np.stack([(c - d)[1], -(c - d)[0]])  # -i (c - d)
    made = np.stack([a + b + c + d, a - b + turned, a + b - c - d, a - b - turned], axis=3)
    return made[0].reshape(re.shape), made[1].reshape(re.shape)


def _pass(re: Array, im: Array, half: int, w: Array) -> tuple[Array, Array]:
    """One pass: (a + w b) / 2 and (a - w b) / 2, for halves of 2 * half numbers."""
    shape = (len(re), -1, 2, half)
    (ar, br), (ai, bi) = (np.moveaxis(v.reshape(shape), 2, 0) for v in (re, im))
    tr, ti = _times(br, bi, w)
    made = [np.stack([(a >> 1) + t, (a >> 1) - t], axis=2) for a, t in ((ar, tr), (ai, ti))]
    return made[0].reshape(re.shape), made[1].reshape(re.shape)


def _times(re: Array, im: Array, w: Array) -> tuple[Array, Array]:
    """Half of the product with twiddles."""
    return (re * w[:, 0] - im * w[:, 1]) >> 32, (re * w[:, 1] + im * w[:, 0]) >> 32


def _split(re: Array, im: Array, bins: int) -> tuple[Array, Array]:
    """From the transform of pairs to half of that of the reals: the first bins."""
    m = re.shape[1]
    k = np.arange(bins)
    zr, zi, cr, ci = re[:, k % m], im[:, k % m], re[:, -k % m], im[:, -k % m]
    pr, pi = _times(zr - cr, zi + ci, tables.twiddles(2 * m).astype(np.int64)[k % m])
    xr, xi = ((zr + cr) >> 2) + (pi >> 1), ((zi - ci) >> 2) - (pr >> 1)
    if bins > m:  # half of the rate
        xr[:, m], xi[:, m] = (re[:, 0] >> 1) - (im[:, 0] >> 1), 0
    return xr, xi


def _amplitudes(re: Array, im: Array) -> Array:
    """floor of the root of re^2 + im^2, from the root of its first 24 bits, correctly rounded to 24 bits."""
    power = (re * re + im * im).astype(np.uint64)
    even = (np.uint64(64) - tables.bit_lengths(power)) & np.uint64(0xFE)
    even = np.minimum(even, np.uint64(62))
    root = np.sqrt(((power << even) >> np.uint64(40)).astype(np.float32))
    whole = (root * np.float32(4096)).astype(np.int64)
    down = even.astype(np.int64) // 2 - 8
    return np.where(down < 0, whole << np.maximum(-down, 0), whole >> np.maximum(down, 0))


@spectrum.emit
def _(y: Value, x: Value, *, window: int, bins: int, shape: str) -> Call:
    n = tables.points(window)
    sizes = Struct(
        "sound_frames", sounds=x.shape[0], rows=x.shape[1], frames=y.shape[1], hop=x.shape[2], window=window, n=n,
        bins=bins, weights=Table(tables.window_table(shape, window)), twiddles=Table(tables.twiddles(n)),
        order=Table(tables.reversed_bits(n // 2)),
    )  # fmt: skip
    return Call("spectrum_s16", y, x, sizes, Scratch(4 * n))


@spectrum.macs
def _(y: Value, x: Value, *, window: int, bins: int) -> int:
    n = tables.points(window)
    return y.shape[0] * y.shape[1] * (window + n * (n.bit_length() - 4) + 6 * bins)


def _frame_rows(y: Value, x: Value, *, window: int) -> tuple[Rows]:
    return (Rows(kernel=-(-window // x.shape[2])),)


spectrum.may(stripes=_frame_rows)


# mel bands --------------------------------------------------------------------------------------


def _amplitudes_of(frames: int, loudest: float) -> Array:
    drawn = np.random.default_rng(frames).uniform(0, loudest, (1, frames, 65, 1))
    return np.rint(drawn).astype(np.int32)


SPEECH = {"points": 128, "bands": 9, "rate": 8000, "low": 60.0, "high": 3500.0}

log_mel = op(
    "log_mel",
    """y[f, b] = ln(gain sum over k of w[b, k] m[f, k]^power + floor), w mel triangles from `low` to `high` Hz

    m is a `spectrum` of `points` samples at `rate` Hz; y is s16 with the unit ln(2) / 512; power is 1 or 2. Sums are
    exact in 64 bits; the logarithm is a table with straight lines between its 65 entries.
    """,
    kind="any",
    cases=[
        Case("amplitudes", (_amplitudes_of(3, 1e5),), SPEECH),
        Case("powers", (_amplitudes_of(5, 1e4),), {**SPEECH, "floor": 1e-10, "power": 2, "gain": 4.0}),
        Case("loudest", (np.full((1, 2, 65, 1), 2**30, np.int32),), {**SPEECH, "floor": 0.0}),
        Case("loudest powers", (np.full((1, 1, 65, 1), 2**28, np.int32),), {**SPEECH, "power": 2}),
        Case("silence", (np.zeros((1, 1, 65, 1), np.int32),), {**SPEECH, "floor": 0.0}),
    ],
)
log_mel.grad(_nothing)
log_mel.may(stripes=alike)


@log_mel.infer
def _(x: Type, *, points: int, bands: int, rate: int, low: float, high: float, floor: float = 1e-6, power: int = 1,
      gain: float = 1.0) -> Type:  # fmt: skip
    if x.dtype != "s32" or x.rank != 4 or x.shape[3] != 1:
        raise GraphError(f"needs amplitudes s32[sounds, frames, frequencies, 1], not {x}")
    if power not in (1, 2) or floor < 0 or gain <= 0:
        raise GraphError(f"power {power}, floor {floor}, gain {gain}: power is 1 or 2, floor >= 0, gain > 0")
    if tables.bins_used(bands, points, rate, low, high) > x.shape[2]:
        raise GraphError(f"bands up to {high} Hz need more frequencies than {x}")
    return Type("s16", (*x.shape[:2], bands, 1), quant(log(2) / (1 << tables.LOG_BITS)))


@log_mel.eval
def _(x: Array, *, points: int, bands: int, rate: int, low: float, high: float, floor: float, power: int,
      gain: float) -> Array:  # fmt: skip
    spans, weights = tables.band_tables(bands, points, rate, low, high)
    least, shift = _settings(points, floor, power, gain)
    m, sums, used = x.reshape(-1, x.shape[2]).astype(np.int64), [], 0
    for first, count in spans.astype(int):
        part, w = m[:, first : first + count], weights[used : used + count].astype(np.int64)
        sums.append(((part * w) if power == 1 else ((part * w) >> 15) * part).sum(axis=1) + least)
        used += count
    found = tables.log2(np.stack(sums, axis=1).astype(np.uint64)) + shift
    return np.clip(found, -32768, 32767).astype(np.int16).reshape(*x.shape[:2], bands, 1)


def _settings(points: int, floor: float, power: int, gain: float) -> tuple[int, int]:
    """What is added to a sum, and to its logarithm."""
    unit = tables.spectrum_scale(points)
    one = unit * 2.0**-15 if power == 1 else unit * unit
    return round(floor / gain / one), round((log2(one) + log2(gain)) * (1 << tables.LOG_BITS))


@log_mel.emit
def _(y: Value, x: Value, *, points: int, bands: int, rate: int, low: float, high: float, floor: float, power: int,
      gain: float) -> Call:  # fmt: skip
    spans, weights = tables.band_tables(bands, points, rate, low, high)
    least, shift = _settings(points, floor, power, gain)
    sizes = Struct(
        "sound_bands", frames=x.shape[0] * x.shape[1], bins=x.shape[2], bands=bands, power=power, shift=shift,
        floor=least, spans=Table(spans), weights=Table(weights), logs=Table(tables.log_table()),
    )  # fmt: skip
    return Call("log_mel_s32", y, x, sizes)


@log_mel.macs
def _(y: Value, x: Value, *, points: int, bands: int, rate: int, low: float, high: float) -> int:
    return y.shape[0] * y.shape[1] * len(tables.band_tables(bands, points, rate, low, high)[1])


# cepstra ----------------------------------------------------------------------------------------

LOGS = Type("s16", (1, 3, 40, 1), quant(log(2) / (1 << tables.LOG_BITS)))

cepstrum = op(
    "cepstrum",
    """y[f, c] = sqrt(2 / B) sum over b of cos(pi c (b + 1/2) / B) x[f, b], for B bands and c < count, in float32

    The MFCC of logarithms of mel bands. The sums are exact integers; a float is made of each at the end.
    """,
    kind="any",
    cases=[Case("some", (LOGS,), {"count": 10}), Case("all of few", (LOGS.with_shape(1, 2, 8, 1),), {"count": 8})],
)
cepstrum.grad(_nothing)
cepstrum.may(stripes=alike)


@cepstrum.infer
def _(x: Type, *, count: int) -> Type:
    if x.dtype != "s16" or x.rank != 4 or x.shape[3] != 1 or x.quant is None:
        raise GraphError(f"needs logarithms s16[sounds, frames, bands, 1] with a scale, not {x}")
    if not 8 <= x.shape[2] <= 512 or not 1 <= count <= x.shape[2]:
        raise GraphError(f"{count} coefficients of {x.shape[2]} bands: must be at most the bands, and these 8 to 512")
    return Type("f32", (*x.shape[:2], count, 1))


@cepstrum.eval
def _(x: Array, *, count: int, node: Node) -> Array:
    rows = tables.cosine_table(count, x.shape[2]).astype(np.int64)
    sums = np.einsum("nfbo,cb->nfco", x.astype(np.int64), rows) >> ROUGH
    return sums.astype(np.float32) * np.float32(_unit(node.inputs[0]))


def _unit(x: Value) -> float:
    return x.type.scale * 2.0 ** (ROUGH - tables.COSINE_BITS)


@cepstrum.emit
def _(y: Value, x: Value, *, count: int) -> Call:
    rows = Table(tables.cosine_table(count, x.shape[2]))
    return Call(
        "cepstrum_s16", y, x, rows, x.shape[0] * x.shape[1], x.shape[2], count, ROUGH, float(np.float32(_unit(x)))
    )


@cepstrum.macs
def _(y: Value, x: Value, *, count: int) -> int:
    return x.type.size * count
