"""Samples in memory, checked against the model: shape, layout, type, range, labels (reading.py reads files)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from insitu.errors import DataError
from insitu.graph import Graph, Type, Value
from insitu.ops.quant import quantize
from insitu.terminal.misspelled import spelled
from insitu.terminal.wording import either

SEVERAL = 4  # samples: fewer may be alike by chance
FAR = 8.0  # times their spread from 0: an int8 input has few steps for such numbers


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of a data set, with their labels: what reading a file or a folder gives, and what `split` divides."""

    inputs: tuple[np.ndarray, ...]  # one array per input of the graph, samples along the first axis
    labels: np.ndarray | None = None
    names: tuple[str, ...] = ()  # of the classes, if the data has names for them
    source: str = ""  # where they come from: which arrays of which file
    notes: tuple[str, ...] = ()  # what reading them left out or changed
    columns: tuple[str, ...] = ()  # the names of a table's columns, if it has a heading
    files: tuple[str, ...] = ()  # of a folder: the file that each sample comes from

    def __len__(self) -> int:
        return len(self.inputs[0])

    def take(self, which: Any) -> Samples:
        """The samples with these indices (or of this slice)."""
        labels = None if self.labels is None else self.labels[which]
        files = tuple(np.array(self.files)[which].tolist()) if self.files else ()
        return replace(self, inputs=tuple(x[which] for x in self.inputs), labels=labels, files=files)

    def head(self, count: int) -> Samples:
        """The first so many."""
        return self.take(slice(count))


@spelled
def split(samples: Samples, share: float, seed: int) -> tuple[Samples, Samples]:
    """The samples in two parts, drawn at random with this seed; the first has this share of them."""
    if not 0 < share < 1:
        raise DataError(f"share must be between 0 and 1, not {share}")
    count = round(len(samples) * share)
    if count in (0, len(samples)):
        raise DataError(f"{len(samples)} samples cannot be split at {share}: one part would be empty")
    order = np.random.default_rng(seed).permutation(len(samples))
    return samples.take(order[:count]), samples.take(order[count:])


def counted(samples: Samples, where: str) -> Samples:
    """The samples, if there are as many labels, and each has a name if there are names."""
    counts = [len(x) for x in samples.inputs]
    if not any(counts):
        raise DataError("has no samples", where=where)
    labels = counts[:1] if samples.labels is None else [len(samples.labels)]
    if len({*counts, *labels}) > 1:
        found = f"{', '.join(map(str, counts))} and {labels[0]}"
        raise DataError(f"the numbers of inputs and labels differ: {found}", where=where)
    _check_named(samples, where)
    return samples


def _check_named(samples: Samples, where: str) -> None:
    y, count = samples.labels, len(samples.names)
    if y is None or not count or y.dtype.kind not in "iu" or (y.min() >= 0 and y.max() < count):
        return
    what = f"labels are {y.min()}..{y.max()}, but there are names for 0..{count - 1}: {', '.join(samples.names[:8])}"
    raise DataError(what, where=where, hint="one name per class, in the order of the numbers")


def fit(value: Value, x: np.ndarray, where: str = "") -> np.ndarray:
    """An array as samples of this input: adds a missing batch axis, quantises floats if the input is s8."""
    shape, batch = value.shape, (value.shape or (1,))[0]
    if not x.ndim:
        hint = "x.toarray()" if hasattr(x.item(), "toarray") else ""  # a sparse matrix, which numpy does not know
        what = f"the data is a single {x.item().__class__.__name__}, input {value.name} is {value.type}"
        raise DataError(what, where=where, hint=hint)
    if batch == 1 and x.shape[1:] != shape[1:] and x.shape == shape[1:]:
        x = x[None]  # a single sample
    if x.ndim and x.shape[1:] != shape[1:] and _same_but_ones(x.shape[1:], shape[1:]):
        x = x.reshape(-1, *shape[1:])  # flat rows, or a missing axis for a single channel
    if x.ndim != len(shape) or x.shape[1:] != shape[1:]:
        found = "x".join(map(str, x.shape))
        hint = _layout_hint(x.shape, shape)
        raise DataError(f"the data has shape {found}, input {value.name} is {value.type}", where=where, hint=hint)
    return np.ascontiguousarray(_as_type(value, numbers(x, where), where))


def numbers(x: np.ndarray, where: str = "") -> np.ndarray:
    """The array, if it holds numbers; also if numpy keeps them as objects, as it does of a frame with booleans."""
    if x.dtype.kind in "fiub":
        return x
    if x.dtype.kind != "O":
        hint = "x.astype(np.float32), if they are numbers in text" if x.dtype.kind in "US" else ""
        raise DataError(f"the data must be numbers, not {x.dtype}", where=where, hint=hint)
    strange = next((n for n in x.flat if not isinstance(n, Real | np.bool_)), None)
    if strange is None and None not in x.flat:
        return x.astype(np.float64)
    raise DataError(f"the data must be numbers, not {type(strange).__name__}: {str(strange)[:40]}", where=where)


def _same_but_ones(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    flat = len(given) == 1 and given[0] == int(np.prod(wanted))
    return flat or [d for d in given if d > 1] == [d for d in wanted if d > 1]


def _layout_hint(given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """What to do about images whose channels are on the wrong side, or are not the bytes of a camera."""
    if len(given) == len(wanted) == 3 and given[:0:-1] == wanted[1:]:
        return "the data has its two axes the other way round: x.transpose(0, 2, 1)"
    if len(given) == len(wanted) > 3:
        last = (0, *range(2, len(given)), 1)
        first = (0, len(given) - 1, *range(1, len(given) - 1))
        for name, perm in (("first", last), ("last", first)):
            if tuple(given[p] for p in perm)[1:] == wanted[1:]:
                return f"the data has its channels {name}: x.transpose{perm}"
    if len(given) == 4 and (given[-1:], wanted[-1:]) == ((3,), (2,)) and given[1:-1] == wanted[1:-1]:
        return 'it takes the bytes of a camera: insitu.data.to_camera(x, "rgb565"), or yuyv, ...'
    if len(given) == 4 and given[3] == 3 and wanted[1:] == (3 * given[1] // 2, given[2], 1):
        return 'it takes the frames of a camera: insitu.data.to_camera(x, "nv12"), or i420, ...'
    return ""


def _as_type(value: Value, x: np.ndarray, where: str) -> np.ndarray:
    """The array in the input's type. For a quantised input, anything but its own integer type is quantised."""
    q, want = value.type.quant, value.type.numpy
    if x.dtype == want:
        return x
    if q is None:
        x = _loud(x) if want == np.int16 else x
        if want.kind in "iu" and not (np.all(x == np.round(x)) and _within(x, np.iinfo(want))):
            hint = "int16 samples, or floats from -1 to 1" if want == np.int16 else "give unscaled pixels, 0 to 255"
            what = f"input {value.name} is {value.type}, but the data does not fit that type"
            raise DataError(what, where=where, hint=hint)
        return x.astype(want)
    limits = np.iinfo(want)
    check_finite(x, where)  # an integer could not say so
    _check_range(x, value.type, f"input {value.name}")
    return np.clip(np.round(x / value.type.scale) + q.zero, limits.min, limits.max).astype(want)


def _loud(x: np.ndarray) -> np.ndarray:
    """Sound between -1 and 1 as integers; anything else as it is."""
    quiet = x.dtype.kind == "f" and x.size and np.abs(x).max() <= 1
    return np.clip(np.rint(x * 32768.0), -32768, 32767) if quiet else x


def _within(x: np.ndarray, limits) -> bool:
    return bool(x.size == 0 or (x.min() >= limits.min and x.max() <= limits.max))


def check_samples(samples: Samples, graph: Graph, where: str = "") -> Samples:
    """The samples, if they are finite and within the range the model was calibrated on."""
    for v, x in zip(graph.inputs, samples.inputs):
        check_finite(x, where)
        known = next((n.output.type for n in graph.users.get(v.name, ()) if n.op is quantize), None)
        if known is not None:
            _check_range(x, known, where or f"input {v.name}")
    return samples


def check_finite(x: np.ndarray, where: str = "") -> np.ndarray:
    """The array, if it has no NaN and no infinity; the error names the sample and the place in it."""
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        sample, *place = (int(i) for i in np.argwhere(~np.isfinite(x))[0])
        bad = x[(sample, *place)]
        at = ": ".join(filter(None, (where, f"sample {sample}")))
        raise DataError(f"has a number that is not finite: {bad} at {place}", where=at)
    return x


def _check_range(x: np.ndarray, type: Type, where: str) -> None:
    """Raise if hardly any of the data is within the input's range, or if all of it is in a small corner of that.

    Calibration clips outliers and new data goes a little further, so the limit is half a range away. A few samples
    may be a knock or silence: the fewer there are, the more of their numbers must be outside.
    """
    if x.size == 0 or not np.isfinite(x).all():
        return
    low, high = (type.scale * (end - type.zero) for end in (-128, 127))
    margin, lowest, highest = (high - low) / 2, float(x.min()), float(x.max())
    outside = float(np.mean((x < low - margin) | (x > high + margin)))
    narrow = len(x) >= SEVERAL and 0 < highest - lowest < (high - low) / 64
    if outside > max(0.01, 0.5 / len(x) ** 0.5) or narrow:
        far = outside == 0 and min(abs(lowest), abs(highest)) > FAR * (highest - lowest)
        apart = "these numbers are far from 0: subtract their mean, here and in calibration"
        raise DataError(
            f"the data lies in {lowest:.3g} to {highest:.3g}, the model was made for {low:.3g} to {high:.3g}",
            where=where,
            hint=apart if far else like_pixels(lowest, highest) or "scale the data as in calibration",
        )


def like_pixels(lowest: float, highest: float) -> str:
    """What to do about numbers in this range, if they look like pixels that are not scaled."""
    if lowest < 0 or not 2 < highest <= 255:
        return ""
    takes = either(shell="compile and train with --mean 0 --std 1, which takes bytes",
                   python="transform=insitu.Transform(), which takes bytes")  # fmt: skip
    return f"these look like pixels, 0 to 255: scale them; or {takes}"
