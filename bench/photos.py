"""Photos to train on: Flowers-102 and person / no person, from npz files of JPEGs, and their views in training.

Image i of split s is the JPEG `jpg_s[off_s[i]:off_s[i+1]]`, 128 x 128 pixels; its label is `y_s[i]`. The files are not
part of the project: they are searched for in `$INSITU_TEST_FILES/data`, or in `shared/data` beside the checkout.
Nothing here knows a network: views are uint8 pixels.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance

from insitu.errors import DataError

ROOT = Path(__file__).resolve().parent.parent
SIDE = 128
AREA, RATIO, JITTER = (0.35, 1.0), (3 / 4, 4 / 3), 0.25
CENTRE = 112  # pixels of test A
VERSION = f"2 {AREA} {RATIO} {JITTER} {CENTRE}"  # of the views: files made from other views are made again


@dataclass(frozen=True)
class Source:
    """A set of photos, and how long to train on it."""

    file: str
    train: tuple[str, ...]  # splits that are trained on together
    test: str
    classes: int
    epochs: int
    views: int  # fixed views of each training image


SOURCES = {
    "flowers": Source("flowers102.npz", ("train", "val"), "test", 102, 30, 16),
    "person": Source("person.npz", ("train",), "test", 2, 8, 6),
}


@dataclass(frozen=True, eq=False)
class Photos:
    """JPEG files with their labels."""

    files: list[bytes]
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.files)

    def image(self, i: int) -> Image.Image:
        return Image.open(io.BytesIO(self.files[i])).convert("RGB")

    def first(self, count: int | None) -> Photos:
        """A few photos, spread over all: splits may be sorted by class."""
        if count is None or count >= len(self):
            return self
        chosen = np.linspace(0, len(self) - 1, count).astype(int)
        return Photos([self.files[i] for i in chosen], self.labels[chosen])


def folder(kind: str) -> Path:
    return Path(os.environ.get("INSITU_TEST_FILES", ROOT.parent / "shared")) / kind


def path_of(name: str) -> Path:
    return folder("data") / SOURCES[name].file


def read(name: str) -> tuple[Photos, Photos]:
    """The photos to train on, and those to test on."""
    source, path = SOURCES[name], path_of(name)
    if not path.is_file():
        raise DataError("no such file", where=str(path), hint="set INSITU_TEST_FILES to a folder with `data`")
    with np.load(path) as data:
        train = [_split(data, split) for split in source.train]
        test = _split(data, source.test)
    together = Photos([f for p in train for f in p.files], np.concatenate([p.labels for p in train]))
    return together, test


def _split(data, name: str) -> Photos:
    jpegs, offsets = data[f"jpg_{name}"].tobytes(), data[f"off_{name}"].tolist()
    labels = np.ascontiguousarray(data[f"y_{name}"], np.int32)
    return Photos([jpegs[a:b] for a, b in pairwise(offsets)], labels)


# views ------------------------------------------------------------------------------------------


def random_view(image: Image.Image, rng: np.random.Generator) -> np.ndarray:
    """A random part of the image at full size, possibly mirrored, with different light and colours."""
    image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=random_box(rng))
    if rng.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    for change in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        image = change(image).enhance(1 + JITTER * rng.uniform(-1, 1))
    return np.asarray(image)


def random_box(rng: np.random.Generator) -> tuple[float, float, float, float]:
    """Left, top, right, bottom of a part with a random share of the area and a random ratio of the sides.

    A side longer than the photo is cut to it. Drawing again instead would leave few views of the whole photo, and costs
    two points when the whole photo is tested.
    """
    area = SIDE * SIDE * rng.uniform(*AREA)
    ratio = math.exp(rng.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
    width, height = min(SIDE, math.sqrt(area * ratio)), min(SIDE, math.sqrt(area / ratio))
    left, top = rng.uniform(0, SIDE - width), rng.uniform(0, SIDE - height)
    return left, top, left + width, top + height


def centre(image: Image.Image) -> np.ndarray:
    """Test A: the middle 112 pixels, enlarged."""
    edge = (SIDE - CENTRE) // 2
    box = (edge, edge, edge + CENTRE, edge + CENTRE)
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box))


def whole(image: Image.Image) -> np.ndarray:
    """Test B: all of the image."""
    return np.asarray(image)


TESTS: dict[str, Callable[[Image.Image], np.ndarray]] = {"A": centre, "B": whole}


def train_views(photos: Photos, i: int, count: int, seed: int) -> list[np.ndarray]:
    """The fixed views of image i: always the same, in any order."""
    image = photos.image(i)
    return [random_view(image, np.random.default_rng((seed, i, view))) for view in range(count)]


def test_views(photos: Photos, i: int) -> list[np.ndarray]:
    image = photos.image(i)
    return [view(image) for view in TESTS.values()]
