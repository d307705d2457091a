"""From the bytes of a camera to red, green and blue: integers only, row by row."""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, Value, op
from insitu.graph.call import Call, Table
from insitu.graph.loops import Rows, picked
from insitu.graph.op import Grads
from insitu.ops._stripes import alike
from insitu.ops._types import Array, Ints

# name -> bytes per pixel, and the number by which the kernel knows it
FORMATS = {"bgr": (3, 0), "rgb565": (2, 1), "rgb565be": (2, 2), "yuyv": (2, 3), "uyvy": (2, 4)}
# frames u8[n, 3h / 2, w, 1]: all luma first, then the colours, which four pixels share; the kernel's number
PLANAR = {"i420": 0, "nv12": 1, "nv21": 2}
CAMERAS = ("rgb", *FORMATS, *PLANAR)


def _all(channels: int) -> Array:
    return np.random.default_rng(channels).integers(0, 256, (2, 3, 10, channels), np.uint8)


pixels = op(
    "pixels",
    """Bytes of a camera x[n, h, w, b] as red, green, blue y[n, h, w, 3]: bgr, rgb565 (rgb565be), yuyv, uyvy

    565: five and six bits become eight by repeating the first ones; `be` has the upper byte first. yuyv: BT.601 with
    luma 16 to 235, 8 fraction bits, two pixels share their colour.
    """,
    kind="any",
    cases=[Case(name, (_all(count),), {"format": name}) for name, (count, _) in FORMATS.items()],
)
pixels.may(stripes=alike)


@pixels.infer
def _(x: Type, *, format: str) -> Type:
    count, _ = FORMATS.get(format, (0, 0))
    if x.dtype != "u8" or x.rank != 4 or x.shape[3] != count:
        raise GraphError(
            f"{format!r} does not fit {x}", hint=f"u8, with the bytes of a pixel last: {', '.join(FORMATS)}"
        )
    if format in ("yuyv", "uyvy") and x.shape[2] % 2:
        raise GraphError(f"{format} has pairs of pixels, but {x} is {x.shape[2]} wide")
    return x.with_shape(*x.shape[:3], 3)


@pixels.eval
def _(x: Array, *, format: str) -> Array:
    if format == "bgr":
        return np.ascontiguousarray(x[..., ::-1])
    if format.startswith("rgb565"):
        upper, lower = (x[..., i].astype(np.int32) for i in ((0, 1) if format == "rgb565be" else (1, 0)))
        word = upper << 8 | lower
        five, six, last = word >> 11, word >> 5 & 63, word & 31
        parts = (five << 3 | five >> 2, six << 2 | six >> 4, last << 3 | last >> 2)
        return np.stack(parts, axis=-1).astype(np.uint8)
    luma, chroma = (x[..., i].astype(np.int32) for i in ((0, 1) if format == "yuyv" else (1, 0)))
    u, v = (np.repeat(chroma[:, :, i::2], 2, axis=2) - 128 for i in (0, 1))
    return _of_yuv(luma, u, v)


def _of_yuv(luma: Array, u: Array, v: Array) -> Array:
    """Red, green, blue; u and v are less 128."""
    c = 298 * (luma - 16) + 128
    parts = (c + 409 * v, c - 100 * u - 208 * v, c + 516 * u)
    return np.clip(np.stack(parts, axis=-1) >> 8, 0, 255).astype(np.uint8)


@pixels.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    return (None,)


@pixels.emit
def _(y: Value, x: Value, *, format: str) -> Call:
    return Call("pixels_u8", y, x, y.type.size // 3, FORMATS[format][1])


# planes -----------------------------------------------------------------------------------------


def _planes(format: str, n: int, h: int, w: int) -> tuple[Array, ...]:
    """Random luma and colours of an image of 2h x 2w."""
    rng = np.random.default_rng(h)
    luma = (n, 4 * h, w, 1) if format == "i420" else (n, 2 * h, 2 * w, 1)
    colours = [(n, h, w, 1)] * 2 if format == "i420" else [(n, h, 2 * w, 1)]
    return tuple(rng.integers(0, 256, shape, np.uint8) for shape in (luma, *colours))


yuv420 = op(
    "yuv420",
    """Planes of a camera as red, green, blue y[n, 2h, 2w, 3]: luma, and colours that a square of four pixels shares

    nv12: luma[n, 2h, 2w, 1], and colours[n, h, 2w, 1] with u and v in turn; nv21: v and u. i420: u[n, h, w, 1] and v,
    and luma[n, 4h, w, 1]: each of its rows as two. Numbers as in `pixels` with yuyv.
    """,
    kind="any",
    cases=[Case(f"{f} {n}x{h}x{w}", _planes(f, n, h, w), {"format": f})
           for f in PLANAR for n, h, w in ((2, 1, 1), (1, 3, 5))],
)  # fmt: skip


def _plane_rows(y: Value, luma: Value, *colours: Value) -> tuple[Rows, ...]:
    high = luma.shape[1] // y.shape[1]
    return Rows(high, high), *(picked(np.arange(y.shape[1]) // 2, c.shape[1]) for c in colours)


def _some_rows(*, picks: Ints) -> dict[str, Ints]:
    """`picks` is no attribute of the op: only a call on some rows has it."""
    return {"picks": picks}


yuv420.may(stripes=_plane_rows, on_rows=_some_rows)


@yuv420.infer
def _(luma: Type, *colours: Type, format: str) -> Type:
    if format not in PLANAR:
        raise GraphError(f"{format!r} is no format of planes", hint=", ".join(PLANAR))
    half = format == "i420"
    n, h, w = colours[0].shape[:3] if colours and colours[0].rank == 4 else (0, 0, 0)
    wanted = [(n, 4 * h, w, 1), *[(n, h, w, 1)] * 2] if half else [(n, 2 * h, w, 1), (n, h, w, 1)]
    if (
        [t.shape for t in (luma, *colours)] != wanted
        or any(t.dtype != "u8" for t in (luma, *colours))
        or (not half and w % 2)
    ):
        what = ", ".join(map(str, (luma, *colours)))
        raise GraphError(f"{what} are no planes of {format}", hint="insitu.Transform(format=...) makes them of a frame")
    return luma.with_shape(n, 2 * h, 2 * w if half else w, 3)


@yuv420.eval
def _(luma: Array, *colours: Array, format: str) -> Array:
    if format == "i420":
        u, v = colours
    else:
        u, v = (colours[0][:, :, i::2] for i in ((0, 1) if format == "nv12" else (1, 0)))
    parts = [c[..., 0].astype(np.int32).repeat(2, axis=1).repeat(2, axis=2) - 128 for c in (u, v)]
    return _of_yuv(luma.astype(np.int32).reshape(parts[0].shape), *parts)


@yuv420.grad
def _(g: Value, y: Value, luma: Value, *colours: Value) -> Grads:
    return (None,) * (1 + len(colours))


@yuv420.emit
def _(y: Value, luma: Value, *colours: Value, format: str, picks: Ints = ()) -> Call:
    n, h, w, _ = y.shape
    at = np.array(picks, np.int32) if picks else np.arange(n * h, dtype=np.int32) // 2
    return Call("yuv420_u8", y, luma, colours[0], colours[-1], Table(at), n * h, w, PLANAR[format])
