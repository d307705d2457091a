"""Samples from files: .npy, .npz, .csv, or a folder of images. Whole files in memory; nothing is augmented.

    samples = read_samples("digits.npz", graph)
    samples.inputs[0]        float32[N, ...] in the shape of the graph's input
    samples.labels           int64[N], or None where the file has none

An .npz names its arrays: those called like the graph's inputs, or `x` (`x_test`, `x_train`, `data`, `images`); labels
are `y` (`y_test`, `y_train`, `labels`). A .csv has a sample a line, the label last or in a column headed `label`. A
folder of images has a subfolder a class, or images alone; pixels are scaled to `pixels`.
"""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from insitu.errors import DataError, needs
from insitu.graph import Graph, Value

INPUT_KEYS = ("x", "x_test", "x_train", "data", "images", "inputs")
LABEL_KEYS = ("y", "y_test", "y_train", "labels", "label", "targets")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp")
# what readers raise for a file that is broken, or is something else
DAMAGED = (OSError, ValueError, LookupError, EOFError, csv.Error, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class Samples:
    inputs: tuple[np.ndarray, ...]  # one for each input of the graph, samples along the first axis
    labels: np.ndarray | None = None
    names: tuple[str, ...] = ()  # of the classes, where the data have names for them

    def __len__(self) -> int:
        return len(self.inputs[0])

    def head(self, count: int) -> Samples:
        labels = None if self.labels is None else self.labels[:count]
        return Samples(tuple(x[:count] for x in self.inputs), labels, self.names)


def read_samples(path: str | Path, graph: Graph, *, pixels: tuple[float, float] = (0.0, 1.0)) -> Samples:
    """The samples of a file or folder, shaped and typed for the graph's inputs."""
    path = Path(path)
    reader = _folder if path.is_dir() else READERS.get(path.suffix.lower())
    if not path.exists():
        raise DataError("there is no such file", where=str(path))
    if reader is None:
        raise DataError(
            f"unknown kind of data {path.suffix!r}", where=str(path), hint=", ".join(READERS) + ", a folder"
        )
    try:
        samples = reader(path, graph, pixels)
    except DAMAGED as e:
        raise DataError(f"cannot be read: {e}", where=str(path)) from e
    return _checked(samples, str(path))


def fit(value: Value, x: np.ndarray, where: str = "") -> np.ndarray:
    """An array as samples of this input: the missing batch axis added, reals quantised where the input is s8."""
    shape, batch = value.shape, (value.shape or (1,))[0]
    if batch == 1 and x.shape[1:] != shape[1:] and x.shape == shape[1:]:
        x = x[None]  # a single sample
    if x.ndim and x.shape[1:] != shape[1:] and x.size == len(x) * int(np.prod(shape[1:])):
        x = x.reshape(-1, *shape[1:])  # flat rows, or a channel axis of one left out
    if x.ndim != len(shape) or x.shape[1:] != shape[1:]:
        found = "x".join(map(str, x.shape))
        raise DataError(f"the data have shape {found}, input {value.name} is {value.type}", where=where)
    if x.dtype.kind not in "fiub":
        raise DataError(f"the data are {x.dtype}, numbers are wanted", where=where)
    return _as_type(value, x)


def _as_type(value: Value, x: np.ndarray) -> np.ndarray:
    """Floats stay reals; for a quantised input, what is not already its integers is a real and is quantised."""
    q = value.type.quant
    if q is None or x.dtype == value.type.numpy:
        return x.astype(value.type.numpy)
    limits = np.iinfo(value.type.numpy)
    return np.clip(np.round(x / value.type.scale) + q.zero, limits.min, limits.max).astype(value.type.numpy)


def _checked(samples: Samples, where: str) -> Samples:
    counts = {len(x) for x in samples.inputs}
    if counts == {0} or not counts:
        raise DataError("holds no samples", where=where)
    if samples.labels is not None:
        counts.add(len(samples.labels))
    if len(counts) > 1:
        raise DataError(f"inputs and labels differ in number: {sorted(counts)}", where=where)
    return samples


# --- arrays ---------------------------------------------------------------------------------------------


def _npy(path: Path, graph: Graph, pixels) -> Samples:
    return Samples((fit(_only(graph, path), np.load(path, allow_pickle=False), str(path)),))


def _npz(path: Path, graph: Graph, pixels) -> Samples:
    with np.load(path, allow_pickle=False) as arrays:
        names = _input_keys(arrays, graph, path)
        inputs = tuple(fit(v, arrays[n], f"{path}: {n}") for v, n in zip(graph.inputs, names))
        label = next((k for k in LABEL_KEYS if k in arrays and k[1:] in ("", names[0][1:])), None)
        label = label or next((k for k in LABEL_KEYS if k in arrays), None)
        labels = None if label is None else _labels(arrays[label], str(path))
    return Samples(inputs, labels)


def _input_keys(arrays: Mapping[str, np.ndarray], graph: Graph, path: Path) -> list[str]:
    wanted = [v.name for v in graph.inputs]
    if all(name in arrays for name in wanted):
        return wanted
    usual = [k for k in INPUT_KEYS if k in arrays] or [k for k in arrays if k not in LABEL_KEYS]
    if len(wanted) > 1 or not usual:
        raise DataError(f"has {', '.join(arrays)}; wanted {', '.join(wanted)}", where=str(path))
    return usual[:1]


def _labels(array: np.ndarray, where: str) -> np.ndarray:
    """Class numbers; one-hot rows are accepted."""
    if array.ndim == 2 and array.shape[1] > 1:
        array = array.argmax(axis=1)
    array = array.reshape(-1)
    if array.dtype.kind not in "iub" and not (array.dtype.kind == "f" and np.all(array == np.round(array))):
        raise DataError(f"the labels are {array.dtype}, not class numbers", where=where)
    return array.astype(np.int64)


def _only(graph: Graph, path: Path) -> Value:
    if len(graph.inputs) != 1:
        names = ", ".join(v.name for v in graph.inputs)
        raise DataError(
            f"the model has several inputs ({names})", where=str(path), hint="an .npz with an array for each"
        )
    return graph.inputs[0]


def _csv(path: Path, graph: Graph, pixels) -> Samples:
    value = _only(graph, path)
    with path.open(newline="") as f:
        rows = [row for row in csv.reader(f) if row]
    heading = rows.pop(0) if rows and not _is_number(rows[0][0]) else []
    table = np.array(rows, np.float64)
    width = int(np.prod(value.shape[1:]))
    column = heading.index("label") if "label" in heading else width if table.shape[1:] == (width + 1,) else None
    if column is None:
        return Samples((fit(value, table, str(path)),))
    labels = _labels(table[:, column], str(path))
    return Samples((fit(value, np.delete(table, column, axis=1), str(path)),), labels)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# --- images ---------------------------------------------------------------------------------------------


def _folder(path: Path, graph: Graph, pixels: tuple[float, float]) -> Samples:
    """A subfolder a class, in the order of their names; or images without labels."""
    value = _only(graph, path)
    classes = sorted(p for p in path.iterdir() if p.is_dir())
    groups = [_images_in(folder) for folder in classes] or [_images_in(path)]
    files = [file for group in groups for file in group]
    if not files:
        raise DataError(f"holds no images ({', '.join(IMAGES)})", where=str(path))
    x = np.stack([_image(file, value) for file in files])
    low, high = pixels
    x = fit(value, low + x * np.float32((high - low) / 255), str(path))
    labels = np.repeat(np.arange(len(groups)), [len(g) for g in groups]) if classes else None
    return Samples((x,), labels, tuple(c.name for c in classes))


def _images_in(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in IMAGES)


def _image(path: Path, value: Value) -> np.ndarray:
    """float32 0..255 in the size, layout and number of channels of the input."""
    try:
        from PIL import Image
    except ImportError:
        raise needs("pillow", "images", "reading images") from None
    height, width, channels, first = _layout(value)
    image = Image.open(path).convert("L" if channels == 1 else "RGB")
    pixels = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR), np.float32)
    pixels = pixels.reshape(height, width, channels)
    return pixels.transpose(2, 0, 1) if first else pixels


def _layout(value: Value) -> tuple[int, int, int, bool]:
    """(height, width, channels, are channels first?) of an image input."""
    if value.type.rank != 4 or not {1, 3} & {value.shape[1], value.shape[3]}:
        raise DataError(f"input {value.name} is {value.type}, not an image of one or three channels")
    first = value.shape[3] not in (1, 3)
    _, a, b, c = value.shape
    return (b, c, a, True) if first else (a, b, c, False)


READERS = {".npy": _npy, ".npz": _npz, ".csv": _csv}
