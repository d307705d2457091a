"""Samples from whatever the user has: files, folders, arrays, datasets. Whole in memory; nothing is augmented.

    samples = read_samples("digits.npz", graph)
    samples.inputs[0]        float32[N, ...] in the shape of the graph's input
    samples.labels           int64[N], or None where the file has none
    as_samples((x, y), graph)                             arrays, a torch Dataset, any iterable of pairs

An .npz names its arrays: those called like the graph's inputs, or `x` (`x_test`, `x_train`, `data`, `images`); labels
are `y` (`y_test`, `y_train`, `labels`). A .csv has a sample a line (or, for an input of windows, a moment a line), the
label last or in a column headed `label`. A folder of images has a subfolder a class, or images alone; pixels are scaled
to `pixels`, or stay as they are for an input that takes bytes.
"""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from insitu.errors import DataError, needs
from insitu.graph import Graph, Value
from insitu.samples import Samples, check_labels, check_samples, class_numbers, counted, fit, split

__all__ = ["Samples", "as_samples", "check_labels", "fit", "read_samples", "split"]

INPUT_KEYS = ("x", "x_test", "x_train", "data", "images", "inputs")
LABEL_KEYS = ("y", "y_test", "y_train", "labels", "label", "targets")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp")
# what readers raise for a file that is broken, or is something else
DAMAGED = (OSError, ValueError, LookupError, EOFError, csv.Error, zipfile.BadZipFile, zlib.error)


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
    return counted(samples, str(path))


def as_samples(data, graph: Graph, *, targets: bool = False, pixels: tuple[float, float] = (0.0, 1.0)) -> Samples:
    """Samples from whatever the user has: a path, Samples, an array, (x, y), a torch Dataset, any iterable of pairs.

    With `targets` the second of a pair is not a class number but what the model's output should be.
    """
    if isinstance(data, str | Path):
        return check_samples(read_samples(data, graph, pixels=pixels), graph)
    if isinstance(data, Samples):
        x, y, names = data.inputs, data.labels, data.names
    else:
        (x, y), names = _pair(data, len(graph.inputs)), ()
    inputs = tuple(fit(v, a, f"input {v.name}") for v, a in zip(graph.inputs, x))
    labels = None if y is None else y if targets else class_numbers(y, "labels")
    return check_samples(counted(Samples(inputs, labels, names), "data"), graph)


def _pair(data, count: int) -> tuple[tuple[np.ndarray, ...], np.ndarray | None]:
    """(inputs, labels) from arrays, a pair of arrays, or anything that gives one pair after the other."""
    if hasattr(data, "shape"):
        return (_array(data),), None
    if isinstance(data, tuple) and len(data) == 2 and hasattr(data[0], "shape"):
        return (_array(data[0]),), _array(data[1])
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], tuple) and len(data[0]) == count > 1:
        return tuple(map(_array, data[0])), _array(data[1])
    return _walk(data)


def _walk(data) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Every (x, y) of an iterable, stacked. A Dataset that only knows lengths and indices is walked by index."""
    if not hasattr(data, "__iter__") and not hasattr(data, "__getitem__"):
        raise DataError(f"cannot take samples from a {type(data).__name__}", hint="(x, y), a path, or an iterable")
    items = (data[i] for i in range(len(data))) if not hasattr(data, "__iter__") else iter(data)
    xs, ys = [], []
    for i, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise DataError(f"is a {type(item).__name__}, (x, y) is wanted", where=f"sample {i}")
        xs.append(item[0] if isinstance(item[0], tuple) else (item[0],))
        ys.append(item[1])
    if not xs:
        raise DataError("there are no samples")
    try:
        return tuple(np.stack([_array(x) for x in column]) for column in zip(*xs)), np.stack([_array(y) for y in ys])
    except ValueError as e:
        raise DataError(f"the samples differ in shape: {e}") from e


def _array(x) -> np.ndarray:
    return np.asarray(x.detach() if hasattr(x, "detach") else x)


# --- arrays ---------------------------------------------------------------------------------------------


def _npy(path: Path, graph: Graph, pixels) -> Samples:
    return Samples((fit(_only(graph, path), np.load(path, allow_pickle=False), str(path)),))


def _npz(path: Path, graph: Graph, pixels) -> Samples:
    with np.load(path, allow_pickle=False) as arrays:
        names = _input_keys(arrays, graph, path)
        inputs = tuple(fit(v, arrays[n], f"{path}: {n}") for v, n in zip(graph.inputs, names))
        label = next((k for k in LABEL_KEYS if k in arrays and k[1:] in ("", names[0][1:])), None)
        label = label or next((k for k in LABEL_KEYS if k in arrays), None)
        labels = None if label is None else class_numbers(arrays[label], str(path))
    return Samples(inputs, labels)


def _input_keys(arrays: Mapping[str, np.ndarray], graph: Graph, path: Path) -> list[str]:
    wanted = [v.name for v in graph.inputs]
    if all(name in arrays for name in wanted):
        return wanted
    usual = [k for k in INPUT_KEYS if k in arrays] or [k for k in arrays if k not in LABEL_KEYS]
    if len(wanted) > 1 or not usual:
        raise DataError(f"has {', '.join(arrays)}; wanted {', '.join(wanted)}", where=str(path))
    return usual[:1]


def _only(graph: Graph, path: Path) -> Value:
    if len(graph.inputs) != 1:
        names = ", ".join(v.name for v in graph.inputs)
        raise DataError(
            f"the model has several inputs ({names})", where=str(path), hint="an .npz with an array for each"
        )
    return graph.inputs[0]


def _csv(path: Path, graph: Graph, pixels) -> Samples:
    """A sample a line; or, for an input of windows, a moment a line, cut into windows one after the other."""
    value = _only(graph, path)
    with path.open(newline="") as f:
        rows = [row for row in csv.reader(f) if row]
    heading = rows.pop(0) if rows and not any(map(_is_number, rows[0])) else []
    if len({len(row) for row in rows}) > 1:
        raise DataError("the lines differ in length", where=str(path))
    column = _label_column(value, heading, len(rows[0]) if rows else 0)
    words = None if column is None else [row.pop(column) for row in rows]
    table = np.array(rows, np.float64)
    labels, names = (None, ()) if words is None else _numbered(words, str(path))
    if table.ndim == 2 and value.type.rank == 3 and table.shape[1] in value.shape[1:]:
        table, labels = windows(value, table, labels)
    return Samples((fit(value, table, str(path)),), labels, names)


def _label_column(value: Value, heading: list[str], width: int) -> int | None:
    """The column headed `label`, or the one too many at the end."""
    if "label" in heading:
        return heading.index("label")
    expected = {int(np.prod(value.shape[1:])), *(value.shape[1:] if value.type.rank == 3 else ())}
    return width - 1 if width not in expected and width - 1 in expected else None


def _numbered(words: list[str], where: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as class numbers; where they are names, in the order of the alphabet."""
    if all(map(_is_number, words)):
        return class_numbers(np.array(words, np.float64), where), ()
    names = tuple(sorted(set(words)))
    return np.array([names.index(w) for w in words]), names


def windows(value: Value, table: np.ndarray, labels: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """[moments, channels] cut into the windows an input [1, length, channels] (or channels first) takes.

    What is left over at the end is dropped, and so is a window in which the label changes.
    """
    last = table.shape[1] == value.shape[2]
    length = value.shape[1] if last else value.shape[2]
    count = len(table) // length
    cut = table[: count * length].reshape(count, length, -1)
    cut = cut if last else cut.transpose(0, 2, 1)
    if labels is None:
        return cut, None
    each = labels[: count * length].reshape(count, length)
    pure = (each == each[:, :1]).all(1)
    return cut[pure], each[pure, 0]


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
    if value.dtype != "u8":
        low, high = pixels
        x = low + x * np.float32((high - low) / 255)
    x = fit(value, x, str(path))
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
