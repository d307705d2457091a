"""Photos from the zoo for the vision demo: a few kinds of flowers, or person and no person, as mcunet takes them."""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from insitu.errors import DataError, needs
from insitu.zoo import ENTRIES, find, state_of

KINDS = 5  # of flowers
EACH = 10  # photos per class to learn from
MOST = 300  # photos to test on


@dataclass(frozen=True, eq=False)
class Pictures:
    """Photos as int8 pixels (pixel - 128) with their classes; `y` counts from 0."""

    x: np.ndarray  # int8[N, 128, 128, 3]
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class PhotoSet:
    name: str
    labels: tuple[str, ...]
    learn: Pictures
    test: Pictures


def photos() -> PhotoSet:
    """The first data set that the cache has; an error says how to get one."""
    sets = {"flowers102": (KINDS, "flower {}"), "person": (2, "{}")}
    here = [name for name in sets if state_of(ENTRIES[name]) != "missing"]
    name = here[0] if here else find("flowers102").stem  # find() raises here, and says what to do
    classes, words = sets[name]
    labels = ("no person", "person") if name == "person" else tuple(words.format(i) for i in range(classes))
    with _open(find(name)) as data:
        return PhotoSet(
            name, labels, _taken(data, "train", classes, EACH), _taken(data, "test", classes, MOST // classes)
        )


def _open(path: Path):
    try:
        return np.load(path)
    except (OSError, ValueError) as e:
        raise DataError(f"is not an .npz of photos: {e}", where=str(path)) from e


def _taken(data, split: str, classes: int, each: int) -> Pictures:
    """The first photos of each of the first classes, in the order of the file."""
    jpegs, ends, y = data[f"jpg_{split}"].tobytes(), list(pairwise(data[f"off_{split}"].tolist())), data[f"y_{split}"]
    chosen = np.sort(np.concatenate([np.flatnonzero(y == c)[:each] for c in range(classes)]))
    pixels = np.stack([_pixels(jpegs[slice(*ends[i])]) for i in chosen])
    return Pictures((pixels.astype(np.int16) - 128).astype(np.int8), y[chosen].astype(np.int32))


def _pixels(jpeg: bytes) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError:
        raise needs("pillow", "images", "reading photos") from None
    return np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"))
