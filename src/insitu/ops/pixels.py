"""From the bytes of a camera to red, green and blue: integers only, row by row."""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, Value, op
from insitu.graph.call import Call
from insitu.graph.op import Grads
from insitu.ops._stripes import alike
from insitu.ops._types import Array

# name -> bytes per pixel, and the number by which the kernel knows it
FORMATS = {"bgr": (3, 0), "rgb565": (2, 1), "rgb565be": (2, 2), "yuyv": (2, 3), "uyvy": (2, 4)}


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
    c = 298 * (luma - 16) + 128
    parts = (c + 409 * v, c - 100 * u - 208 * v, c + 516 * u)
    return np.clip(np.stack(parts, axis=-1) >> 8, 0, 255).astype(np.uint8)


@pixels.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    return (None,)


@pixels.emit
def _(y: Value, x: Value, *, format: str) -> Call:
    return Call("pixels_u8", y, x, y.type.size // 3, FORMATS[format][1])
