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
from insitu.graph import Graph, Type, Value

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

    def take(self, which) -> Samples:
        """Those with these numbers (or this slice)."""
        labels = None if self.labels is None else self.labels[which]
        return Samples(tuple(x[which] for x in self.inputs), labels, self.names)

    def head(self, count: int) -> Samples:
        return self.take(slice(count))


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


def split(samples: Samples, share: float, seed: int) -> tuple[Samples, Samples]:
    """The samples in two parts, the first holding this share of them, drawn with this seed."""
    if not 0 < share < 1:
        raise DataError(f"a share of {share} is not between 0 and 1")
    count = round(len(samples) * share)
    if count in (0, len(samples)):
        raise DataError(f"{len(samples)} samples cannot be split at {share}: one part would be empty")
    order = np.random.default_rng(seed).permutation(len(samples))
    return samples.take(order[:count]), samples.take(order[count:])


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
    return check_samples(_checked(Samples(inputs, labels, names), "data"), graph)


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


def fit(value: Value, x: np.ndarray, where: str = "") -> np.ndarray:
    """An array as samples of this input: the missing batch axis added, reals quantised where the input is s8."""
    shape, batch = value.shape, (value.shape or (1,))[0]
    if batch == 1 and x.shape[1:] != shape[1:] and x.shape == shape[1:]:
        x = x[None]  # a single sample
    if x.ndim and x.shape[1:] != shape[1:] and _same_but_ones(x.shape[1:], shape[1:]):
        x = x.reshape(-1, *shape[1:])  # flat rows, or a channel axis of one left out
    if x.ndim != len(shape) or x.shape[1:] != shape[1:]:
        found = "x".join(map(str, x.shape))
        hint = _layout_hint(x.shape, shape)
        raise DataError(f"the data have shape {found}, input {value.name} is {value.type}", where=where, hint=hint)
    if x.dtype.kind not in "fiub":
        raise DataError(f"the data are {x.dtype}, numbers are wanted", where=where)
    return np.ascontiguousarray(_as_type(value, x, where))


def _same_but_ones(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    flat = len(given) == 1 and given[0] == int(np.prod(wanted))
    return flat or [d for d in given if d > 1] == [d for d in wanted if d > 1]


def _layout_hint(given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """What to do about images whose channels are on the wrong side."""
    if len(given) == len(wanted) > 2:
        last = (0, *range(2, len(given)), 1)
        first = (0, len(given) - 1, *range(1, len(given) - 1))
        for name, perm in (("first", last), ("last", first)):
            if tuple(given[p] for p in perm)[1:] == wanted[1:]:
                return f"the channels come {name}: x.transpose{perm}"
    return ""


def _as_type(value: Value, x: np.ndarray, where: str) -> np.ndarray:
    """Floats stay reals; for a quantised input, what is not already its integers is a real and is quantised."""
    q, want = value.type.quant, value.type.numpy
    if x.dtype == want:
        return x
    if q is None:
        if want.kind in "iu" and not (np.all(x == np.round(x)) and _within(x, np.iinfo(want))):
            raise DataError(f"input {value.name} is {value.type}, the data are not such integers", where=where,
                            hint="pixels as they are, 0 to 255")  # fmt: skip
        return x.astype(want)
    limits = np.iinfo(want)
    _check_range(x, value.type, f"input {value.name}")
    return np.clip(np.round(x / value.type.scale) + q.zero, limits.min, limits.max).astype(want)


def _within(x: np.ndarray, limits) -> bool:
    return bool(x.size == 0 or (x.min() >= limits.min and x.max() <= limits.max))


def check_samples(samples: Samples, graph: Graph) -> Samples:
    """Finite, and in the range the model was calibrated on."""
    for v, x in zip(graph.inputs, samples.inputs):
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            bad = int(np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(1))[0])
            raise DataError("holds a number that is not finite", where=f"sample {bad}")
        known = next((n.output.type for n in graph.users.get(v.name, ()) if n.op.name == "quantize"), None)
        if known is not None:
            _check_range(x, known, f"input {v.name}")
    return samples


def _check_range(x: np.ndarray, type: Type, where: str) -> None:
    """An error where hardly any of the data is within what the input can represent, or all of it in a corner of that.

    Calibration clips outliers and new data go a bit further, so the border is half a range away.
    """
    if x.size == 0 or not np.isfinite(x).all():
        return
    low, high = (type.scale * (end - type.zero) for end in (-128, 127))
    margin, lowest, highest = (high - low) / 2, float(x.min()), float(x.max())
    outside = float(np.mean((x < low - margin) | (x > high + margin)))
    narrow = 0 < highest - lowest < (high - low) / 64
    if outside > 0.01 or narrow:
        looks = "these look like pixels, 0 to 255: insitu.Transform, or scale them" if highest > 2 and highest <= 255 and lowest >= 0 else ""
        raise DataError(
            f"the data lie in {lowest:.3g} to {highest:.3g}, the model was made for {low:.3g} to {high:.3g}",
            where=where,
            hint=looks or "scale the data as in calibration, or give a Transform",
        )


def check_labels(samples: Samples, classes: int) -> Samples:
    """The samples with labels as the C takes them, or an error where one is no class of the model."""
    y = samples.labels
    if y is None:
        raise DataError("the samples have no labels")
    y = class_numbers(y, "labels")
    if y.min() < 0 or y.max() >= classes:
        raise DataError(f"labels lie in {y.min()}..{y.max()}, the model has classes 0..{classes - 1}")
    return Samples(samples.inputs, np.ascontiguousarray(y, np.int32), samples.names)


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


def class_numbers(array: np.ndarray, where: str) -> np.ndarray:
    """Class numbers; one-hot rows are accepted."""
    if array.ndim == 2 and array.shape[1] > 1:
        array = array.argmax(axis=1)
    array = array.reshape(-1)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError("a label is not finite", where=where)
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
    labels = class_numbers(table[:, column], str(path))
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
