"""Photos as the bytes of a camera, and back: what a program reads that begins with a camera's pixels.

    to_camera(photo, "rgb565")           uint8[..., H, W, 3] -> uint8[..., H, W, 2]: the nearest colours
    from_camera(frame, "rgb565")         and back, as the program itself does (ops/pixels.py)

Files are read elsewhere (reading.py); nothing here crops or resizes.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import DataError
from insitu.graph.source import RGB
from insitu.ops.pixels import FORMATS, pixels

# BT.601 with luma 16 to 235: rows for luma and the two colour differences, of pixels 0 to 255
YUV = np.array([(65.481, 128.553, 24.966), (-37.797, -74.203, 112.0), (112.0, -93.786, -18.214)]) / 255


def to_camera(photos: np.ndarray, format: str) -> np.ndarray:
    """Red, green, blue as this camera's bytes."""
    if format == RGB:
        return photos
    if format not in FORMATS or photos.dtype != np.uint8 or photos.shape[-1] != 3:
        what = f"{photos.dtype} of shape {'x'.join(map(str, photos.shape))} cannot become {format!r}"
        raise DataError(what, hint=f"uint8 pixels, red, green and blue last; {', '.join(FORMATS)}")
    return np.ascontiguousarray(MADE[format](photos))


def from_camera(frames: np.ndarray, format: str) -> np.ndarray:
    """The colours uint8[..., 3] that these bytes stand for."""
    if format == RGB:
        return frames
    images = frames.reshape(-1, *frames.shape[-3:])
    return pixels.apply("eval", (images,), {"format": format}).reshape(*frames.shape[:-1], 3)


def _words(photos: np.ndarray) -> np.ndarray:
    """Five, six and five bits."""
    red, green, blue = ((photos[..., i] * (n / 255)).round().astype(np.uint16) for i, n in enumerate((31, 63, 31)))
    return red << 11 | green << 5 | blue


def _bytes(photos: np.ndarray, big: bool) -> np.ndarray:
    return _words(photos).astype(">u2" if big else "<u2")[..., None].view(np.uint8)


def _yuv(photos: np.ndarray, luma_first: bool) -> np.ndarray:
    """Luma of each pixel; the two colour differences of each pair of pixels, in turn."""
    if photos.shape[-2] % 2:
        raise DataError(f"yuyv and uyvy have pairs of pixels, but the photos are {photos.shape[-2]} wide")
    luma, u, v = np.moveaxis(photos @ YUV.T + (16, 128, 128), -1, 0)
    pairs = [(c[..., 0::2] + c[..., 1::2]) / 2 for c in (u, v)]
    chroma = np.stack(pairs, axis=-1).reshape(luma.shape)
    parts = (luma, chroma) if luma_first else (chroma, luma)
    return np.stack(parts, axis=-1).round().clip(0, 255).astype(np.uint8)


MADE = {
    "bgr": lambda photos: photos[..., ::-1],
    "rgb565": lambda photos: _bytes(photos, big=False),
    "rgb565be": lambda photos: _bytes(photos, big=True),
    "yuyv": lambda photos: _yuv(photos, luma_first=True),
    "uyvy": lambda photos: _yuv(photos, luma_first=False),
}
