"""Photos as the bytes of a camera, and back: what a program reads that begins with a camera's pixels.

    to_camera(photo, "rgb565")           uint8[..., H, W, 3] -> uint8[..., H, W, 2]: the nearest colours
    to_camera(photo, "nv12")             uint8[..., H, W, 3] -> uint8[..., 3 H / 2, W, 1]: luma, then the colours
    from_camera(frame, "rgb565")         and back, as the program itself does (ops/pixels.py)

Files are read elsewhere (reading.py); nothing here crops or resizes.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from insitu.errors import DataError
from insitu.graph.source import RGB
from insitu.ops.pixels import CAMERAS, PLANAR, pixels, yuv420

# BT.601 with luma 16 to 235: rows for luma and the two colour differences, of pixels 0 to 255
YUV = np.array([(65.481, 128.553, 24.966), (-37.797, -74.203, 112.0), (112.0, -93.786, -18.214)]) / 255


def to_camera(photos: np.ndarray, format: str) -> np.ndarray:
    """Red, green, blue as this camera's bytes."""
    if format == RGB:
        return photos
    if format not in CAMERAS or photos.dtype != np.uint8 or photos.shape[-1] != 3:
        what = f"{photos.dtype} of shape {'x'.join(map(str, photos.shape))} cannot become {format!r}"
        raise DataError(what, hint=f"uint8 pixels, red, green and blue last; {', '.join(CAMERAS[1:])}")
    return np.ascontiguousarray(MADE[format](photos))


def from_camera(frames: np.ndarray, format: str) -> np.ndarray:
    """The colours uint8[..., 3] that these bytes stand for."""
    if format == RGB:
        return frames
    images = frames.reshape(-1, *frames.shape[-3:])
    if format in PLANAR:
        made = yuv420.apply("eval", _parted(images, format), {"format": format})
        return made.reshape(*frames.shape[:-3], *made.shape[1:])
    return pixels.apply("eval", (images,), {"format": format}).reshape(*frames.shape[:-1], 3)


def _words(photos: np.ndarray) -> np.ndarray:
    """Five, six and five bits."""
    red, green, blue = ((photos[..., i] * (n / 255)).round().astype(np.uint16) for i, n in enumerate((31, 63, 31)))
    return red << 11 | green << 5 | blue


def _bytes(photos: np.ndarray, big: bool) -> np.ndarray:
    return _words(photos).astype(">u2" if big else "<u2")[..., None].view(np.uint8)


def _of_rgb(photos: np.ndarray) -> np.ndarray:
    """Luma and the two colour differences of each pixel, as floats."""
    return np.moveaxis(photos @ YUV.T + (16, 128, 128), -1, 0)


def _yuv(photos: np.ndarray, luma_first: bool) -> np.ndarray:
    """Luma of each pixel; the two colour differences of each pair of pixels, in turn."""
    if photos.shape[-2] % 2:
        raise DataError(f"yuyv and uyvy have pairs of pixels, but the photos are {photos.shape[-2]} wide")
    luma, u, v = _of_rgb(photos)
    pairs = [(c[..., 0::2] + c[..., 1::2]) / 2 for c in (u, v)]
    chroma = np.stack(pairs, axis=-1).reshape(luma.shape)
    parts = (luma, chroma) if luma_first else (chroma, luma)
    return np.stack(parts, axis=-1).round().clip(0, 255).astype(np.uint8)


def _frames(photos: np.ndarray, format: str) -> np.ndarray:
    """Luma of each pixel, then the mean colour differences of each square of four."""
    *many, height, width, _ = photos.shape
    if height % 2 or width % 2:
        raise DataError(f"{format} has one colour for four pixels, but the photos are {height}x{width}")
    luma, u, v = _of_rgb(photos)
    u, v = (c.reshape(*many, height // 2, 2, width // 2, 2).mean((-3, -1)) for c in (u, v))
    flat = (*many, -1)
    if format == "i420":
        parts = [c.reshape(flat) for c in (luma, u, v)]
    else:
        parts = [luma.reshape(flat), np.stack((u, v) if format == "nv12" else (v, u), axis=-1).reshape(flat)]
    frames = np.concatenate(parts, axis=-1).round().clip(0, 255).astype(np.uint8)
    return frames.reshape(*many, 3 * height // 2, width, 1)


def _parted(frames: np.ndarray, format: str) -> tuple[np.ndarray, ...]:
    """Frames as the planes that `yuv420` takes."""
    n, rows, width, _ = frames.shape
    height = 2 * rows // 3
    if format != "i420":
        return frames[:, :height], frames[:, height:]
    halves = frames.reshape(n, 2 * rows, width // 2, 1)
    return tuple(np.split(halves, [2 * height, 5 * height // 2], axis=1))


MADE = {
    "bgr": lambda photos: photos[..., ::-1],
    "rgb565": lambda photos: _bytes(photos, big=False),
    "rgb565be": lambda photos: _bytes(photos, big=True),
    "yuyv": lambda photos: _yuv(photos, luma_first=True),
    "uyvy": lambda photos: _yuv(photos, luma_first=False),
    **{format: partial(_frames, format=format) for format in PLANAR},
}
