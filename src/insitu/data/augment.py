"""Random changes to images: crop, flip, brightness, contrast, saturation. Pure numpy; same seed, same changes.

    learner.fit(x, y, augment=Augment(), views=16)

Works on the inputs of a graph: u8 pixels, s8 (pixel - 128), floats within `bounds`, or the bytes of a `camera`, whose
colours are changed. Channels come last; an image with channels first is transposed and transposed back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from insitu.data.camera import from_camera, to_camera
from insitu.errors import DataError
from insitu.graph.source import RGB
from insitu.terminal.misspelled import all_spelled

GREY = np.array([0.299, 0.587, 0.114], np.float32)  # how bright red, green and blue look


@all_spelled
@dataclass(frozen=True)
class Augment:
    """A function of (images, rng). A field that is 0, False or None switches that change off."""

    crop: tuple[float, float] | None = (0.35, 1.0)  # share of the area to keep; enlarged to full size again
    ratio: tuple[float, float] = (3 / 4, 4 / 3)  # width / height of the crop
    pad: int = 0  # if not 0, instead of a crop: shift by up to this many pixels, repeating the border
    flip: bool = True  # left and right
    brightness: float = 0.25
    contrast: float = 0.25
    saturation: float = 0.25
    bounds: tuple[float, float] = (0.0, 1.0)  # of float images
    camera: str = RGB  # the bytes of a pixel, as in insitu.Transform(format=...)

    def __call__(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A changed copy of images [N, H, W, C] (or [N, C, H, W])."""
        if x.ndim != 4:
            raise DataError(f"images must have shape N x H x W x C, not {x.shape}")
        if self.camera != RGB:
            return to_camera(replace(self, camera=RGB)(from_camera(x, self.camera), rng), self.camera)
        if x.dtype == np.uint8 and x.shape[3] == 2:
            raise DataError("two bytes per pixel are not colours", hint="Augment(camera='rgb565'), or another format")
        first = x.shape[3] not in (1, 3) and x.shape[1] in (1, 3)
        images = x.transpose(0, 2, 3, 1) if first else x
        made = np.stack([self._one(image, rng) for image in images])
        return np.ascontiguousarray(made.transpose(0, 3, 1, 2) if first else made)

    def _one(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        low, high = self._bounds(image.dtype)
        y = (image.astype(np.float32) - np.float32(low)) / np.float32(high - low)
        if self.pad:
            y = shifted(y, rng.integers(-self.pad, self.pad + 1, 2))
        elif self.crop:
            y = resized(y, self._box(rng, *y.shape[:2]))
        if self.flip and rng.random() < 0.5:
            y = y[:, ::-1]
        y = np.clip(self._colour(y, rng), 0, 1) * np.float32(high - low) + np.float32(low)
        return (np.round(y) if image.dtype.kind in "iu" else y).astype(image.dtype)

    def _bounds(self, dtype: np.dtype) -> tuple[float, float]:
        if dtype.kind == "f":
            return self.bounds
        info = np.iinfo(dtype)
        return info.min, info.max

    def _box(self, rng: np.random.Generator, height: int, width: int) -> tuple[float, float, float, float]:
        """(top, left, height, width) of the crop."""
        assert self.crop is not None
        area = rng.uniform(*self.crop) * height * width
        ratio = np.exp(rng.uniform(*np.log(self.ratio)))
        h, w = min(np.sqrt(area / ratio), height), min(np.sqrt(area * ratio), width)
        return rng.uniform(0, height - h), rng.uniform(0, width - w), h, w

    def _colour(self, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        bright, contrast, saturation = (
            np.float32(1 + rng.uniform(-v, v)) if v else np.float32(1)
            for v in (self.brightness, self.contrast, self.saturation)
        )
        grey = y @ GREY[:, None] if y.shape[2] == 3 else y
        y = saturation * y + (1 - saturation) * grey
        y = contrast * y + (1 - contrast) * grey.mean()
        return bright * y


def shifted(image: np.ndarray, by: np.ndarray) -> np.ndarray:
    """The image moved by (rows, columns); the border is repeated outside of it."""
    rows, columns = (np.clip(np.arange(n) + d, 0, n - 1) for n, d in zip(image.shape, by))
    return image[rows][:, columns]


def resized(image: np.ndarray, box: tuple[float, float, float, float]) -> np.ndarray:
    """The box of an image, enlarged to the image's size with bilinear interpolation."""
    top, left, h, w = box
    height, width = image.shape[:2]
    rows, row_shares = _between(top, h, height)
    columns, column_shares = _between(left, w, width)
    a = image[rows[0]] * (1 - row_shares)[:, None, None] + image[rows[1]] * row_shares[:, None, None]
    return a[:, columns[0]] * (1 - column_shares)[:, None] + a[:, columns[1]] * column_shares[:, None]


def _between(start: float, length: float, size: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """For each of `size` points along a stretch: the two neighbouring pixels, and the weight of the second."""
    at = np.clip(start + (np.arange(size) + 0.5) * length / size - 0.5, 0, size - 1)
    below = np.floor(at).astype(int)
    return (below, np.minimum(below + 1, size - 1)), (at - below).astype(np.float32)
