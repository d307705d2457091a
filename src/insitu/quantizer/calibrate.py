"""The range of every value of a graph, found by running the graph on samples.

    ranges = calibrate(graph, data, method="percentile")
    ranges["features.0"]                     (-2.1, 3.9)

The samples come from any iterable; memory does not grow with their number. How a range becomes a scale is not
decided here (scales.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from insitu.errors import DataError, GraphError
from insitu.graph import Graph, Value, evaluate
from insitu.graph.check import FLOATS
from insitu.quantizer.fold import fold
from insitu.quantizer.histogram import Histogram

Progress = Callable[[int, int | None], None]  # called with (batches done, total batches if known)


@dataclass(frozen=True)
class Ranges:
    """The ranges that calibration found for a graph's inference form."""

    bounds: Mapping[str, tuple[float, float]]  # value -> lowest and highest
    means: Mapping[str, np.ndarray] = field(default_factory=dict)  # value -> mean per channel of its last axis
    channels: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)  # value -> (lows, highs)
    samples: int = 0

    def __getitem__(self, name: str) -> tuple[float, float]:
        if name not in self.bounds:
            raise GraphError(
                "was not seen in calibration", where=f"%{name}", hint="calibrate this graph, then quantize"
            )
        return self.bounds[name]

    def __contains__(self, name: str) -> bool:
        return name in self.bounds

    def __iter__(self) -> Iterator[str]:
        return iter(self.bounds)

    def __len__(self) -> int:
        return len(self.bounds)


def calibrate(
    graph: Graph,
    data: Iterable,
    *,
    method: str = "mse",
    percentile: float = 99.99,
    batches: int | None = None,
    progress: Progress | None = None,
    run: Callable[..., Mapping[str, np.ndarray]] | None = None,
) -> Ranges:
    """The range of every float value of the graph's inference form, over (at most `batches` items of) the data.

    minmax       everything that was seen
    percentile   without the (100 - percentile) % at either end
    mse          the range that 8 bits represent with the least squared error
    An item is a sample, a batch, a tuple of arrays for several inputs, or a pair (x, y), of which only x is used.
    `run(*inputs)` returns all values by name; by default numpy computes them. A bar on stderr shows the progress if
    that is a terminal; if `progress` is given, `progress(done, total)` is called instead.
    """
    choose = _method(method, percentile)
    inference = fold(graph)
    if run is not None and inference is not graph:
        raise GraphError(
            "is not in inference form, and `run` knows other values", where=graph.name, hint="fold it first"
        )
    values: Any = run or partial(evaluate, inference, keep=True)
    seen = {v.name: Seen(v) for v in _float_values(inference)}
    samples = 0
    with _reporting(progress, _length(data, batches)) as report:
        for inputs in _samples(inference, data, batches, report):
            env: dict[str, np.ndarray] = {**values(*inputs)}
            env.update((v.name, x) for v, x in zip(inference.inputs, inputs))
            for name, s in seen.items():
                s.update(env[name], samples, histogram=method != "minmax")
            samples += 1
    if not samples:
        raise DataError("there are no samples to calibrate on", where=graph.name, hint="give some samples")
    return Ranges(
        bounds={n: choose(s) for n, s in seen.items()},
        means={n: s.mean for n, s in seen.items()},
        channels={n: (s.lows, s.highs) for n, s in seen.items()},
        samples=samples,
    )


def _method(method: str, percentile: float) -> Callable[[Seen], tuple[float, float]]:
    methods = {
        "minmax": lambda s: (s.low, s.high),
        "percentile": lambda s: s.histogram.percentile(percentile, s.low, s.high),
        "mse": lambda s: s.histogram.least_squares(s.low, s.high),
    }
    if method not in methods:
        raise DataError(f"method must be one of {', '.join(methods)}, not {method!r}")
    if not 50 < percentile <= 100:
        raise DataError(f"percentile must be between 50 and 100, not {percentile}")
    return methods[method]


def _float_values(graph: Graph) -> list[Value]:
    made = [*graph.inputs, *(v for n in graph.nodes for v in n.outputs)]
    return [v for v in made if v.dtype in FLOATS]


class Seen:
    """What has been seen of one value so far."""

    def __init__(self, value: Value):
        self.value = value
        self.histogram = Histogram()
        channels = value.shape[-1:]
        self.lows, self.highs = np.full(channels, np.inf), np.full(channels, -np.inf)
        self._sum, self._count = np.zeros(channels), 0

    def update(self, array: np.ndarray, sample: int, histogram: bool) -> None:
        rows = array.reshape(-1, *self._sum.shape)
        self._sum += rows.sum(axis=0, dtype=np.float64)
        if not np.isfinite(self._sum).all():
            raise DataError(f"gives %{self.value.name} a number that is not finite", where=f"sample {sample}")
        self.lows, self.highs = np.minimum(self.lows, rows.min(axis=0)), np.maximum(self.highs, rows.max(axis=0))
        self._count += len(rows)
        if histogram:
            self.histogram.add(array)

    @property
    def low(self) -> float:
        return float(self.lows.min())

    @property
    def high(self) -> float:
        return float(self.highs.max())

    @property
    def mean(self) -> np.ndarray:
        return self._sum / self._count


# --- samples --------------------------------------------------------------------------------------------


def _samples(graph: Graph, data, batches: int | None, report) -> Iterator[tuple[np.ndarray, ...]]:
    """The inputs of each run, in the graph's own shape, checked."""
    if data is None:
        return
    index = 0
    for done, item in enumerate(data):
        if done == batches:
            return
        runs = [_runs(v, x, index) for v, x in zip(graph.inputs, _arrays(graph, item, index))]
        if len({len(r) for r in runs}) > 1:
            raise DataError("the inputs have different numbers of samples", where=f"sample {index}")
        for inputs in zip(*runs):
            _check_finite(graph, inputs, index)
            yield inputs
            index += 1
        report(done + 1)


def _arrays(graph: Graph, item, index: int) -> tuple[np.ndarray, ...]:
    """The item as one array per input."""
    wanted = len(graph.inputs)
    if _is_group(item) and len(item) == 2 and (wanted == 1 or _is_group(item[0])):
        item = item[0]  # (x, y): the label is not needed here
    parts = tuple(item) if _is_group(item) and wanted > 1 else (item,)
    if len(parts) != wanted:
        raise DataError(f"must have {wanted} inputs, not {len(parts)}", where=f"sample {index}")
    return tuple(_array(p, index) for p in parts)


def _is_group(item) -> bool:
    """Is this several arrays: a tuple, or a list of arrays, as a torch DataLoader gives?"""
    return isinstance(item, tuple) or (isinstance(item, list) and len(item) > 0 and hasattr(item[0], "shape"))


def _array(x, index: int) -> np.ndarray:
    try:
        return np.asarray(x.detach() if hasattr(x, "detach") else x)
    except (ValueError, TypeError, RuntimeError) as e:
        raise DataError(f"cannot be read as an array: {e}", where=f"sample {index}") from e


def _runs(value: Value, x: np.ndarray, index: int) -> np.ndarray:
    """The array as [runs, *shape of the input]. It may be one run, one sample without a batch axis, or a batch."""
    shape = value.shape
    batch = shape[0] if shape else 1
    if x.shape == shape or (batch == 1 and x.shape == shape[1:]):
        x = x.reshape(1, *shape)
    elif x.ndim == len(shape) and x.ndim and x.shape[1:] == shape[1:] and len(x) % batch == 0 and len(x):
        x = x.reshape(-1, *shape)
    else:
        raise DataError(
            f"has shape {x.shape}, %{value.name} is {value.type}",
            where=f"sample {index}",
            hint=f"samples of shape {shape[1:]}, or batches of them",
        )
    if x.dtype.kind not in "fiub":
        raise DataError(f"must be numbers, not {x.dtype}", where=f"sample {index}")
    return x.astype(value.type.numpy)


def _check_finite(graph: Graph, inputs, index: int) -> None:
    for v, x in zip(graph.inputs, inputs):
        if not np.isfinite(x).all():
            what = "NaN" if np.isnan(x).any() else "an infinity"
            raise DataError(f"has {what} in %{v.name}", where=f"sample {index}")


# --- progress -------------------------------------------------------------------------------------------


def _length(data, batches: int | None) -> int | None:
    total = len(data) if hasattr(data, "__len__") else None
    return batches if total is None else total if batches is None else min(total, batches)


@contextmanager
def _reporting(progress: Progress | None, total: int | None):
    """A function of the number of batches done: the caller's, a bar on a terminal, or a no-op."""
    if progress is not None:
        yield lambda done: progress(done, total)
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress as Bar

        with Bar(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("calibrating", total=total)
            yield lambda done: bar.update(task, completed=done)
    else:
        yield lambda done: None
