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
from itertools import islice
from typing import Any

import numpy as np

from insitu.errors import DataError, GraphError
from insitu.graph import Graph, Value, evaluate
from insitu.graph.check import FLOATS
from insitu.quantizer.fold import fold
from insitu.quantizer.histogram import Histogram
from insitu.terminal.colour import is_terminal
from insitu.terminal.wording import one_each

RUNS, MEMORY = (
    64,
    4 << 20,
)  # runs at once, and bytes that their values may take: small networks spend their time in between
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
    at_once: bool = False,
) -> Ranges:
    """The range of every float value of the graph's inference form, over (at most `batches` items of) the data.

    minmax       everything that was seen
    percentile   without the (100 - percentile) % at either end
    mse          the range that 8 bits represent with the least squared error
    An item is a sample, a batch, a tuple of arrays for several inputs, or a pair (x, y), of which only x is used.
    `run(*inputs)` returns all values by name; by default numpy computes them. With `at_once`, it takes several runs,
    one after the other along the first axis. A bar on stderr shows the progress if
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
        for inputs in _groups(inference, _samples(inference, data, batches, report), at_once):
            env: dict[str, np.ndarray] = {**values(*inputs)}
            env.update((v.name, x) for v, x in zip(inference.inputs, inputs))
            runs = max(x.size // v.type.size for v, x in zip(inference.inputs, inputs))
            found = [(s.update(env[name], runs, histogram=method != "minmax"), name) for name, s in seen.items()]
            _refuse(found, samples, runs)
            samples += runs
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

    def update(self, array: np.ndarray, runs: int, histogram: bool) -> int:
        """The number of runs, in order, up to the first with a number that is not finite."""
        rows = array.reshape(runs, -1, *self._sum.shape)
        sums = np.cumsum(np.concatenate([self._sum[None], rows.sum(axis=1, dtype=np.float64)]), axis=0)
        self._sum = sums[-1]
        if not np.isfinite(self._sum).all():
            return int(np.isfinite(sums[1:].reshape(runs, -1)).all(axis=1).argmin())
        self.lows = np.minimum(self.lows, rows.min(axis=(0, 1)))
        self.highs = np.maximum(self.highs, rows.max(axis=(0, 1)))
        self._count += runs * rows.shape[1]
        if histogram:
            self.histogram.add_each(rows.reshape(runs, -1))
        return runs

    @property
    def low(self) -> float:
        return float(self.lows.min())

    @property
    def high(self) -> float:
        return float(self.highs.max())

    @property
    def mean(self) -> np.ndarray:
        return self._sum / self._count


def _refuse(found: Iterable[tuple[int, str]], samples: int, runs: int) -> None:
    """Raise an error for the first run that gave a number that is not finite."""
    good, name = min(found, key=lambda pair: pair[0], default=(runs, ""))
    if good < runs:
        raise DataError(f"gives %{name} a number that is not finite", where=f"sample {samples + good}")


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


def _groups(graph: Graph, samples: Iterator[tuple[np.ndarray, ...]], at_once: bool) -> Iterator[tuple[np.ndarray, ...]]:
    """The inputs of several runs, as many as a little memory holds all values of; or of each."""
    bytes_each = sum(v.type.bytes for v in _float_values(graph))
    count = max(1, min(RUNS, MEMORY // bytes_each)) if at_once and all(v.shape for v in graph.inputs) else 1
    while group := list(islice(samples, count)):
        yield group[0] if count == 1 else tuple(map(np.concatenate, zip(*group)))


def _arrays(graph: Graph, item, index: int) -> tuple[np.ndarray, ...]:
    """The item as one array per input."""
    wanted = len(graph.inputs)
    if _is_group(item) and len(item) == 2 and (wanted == 1 or _is_group(item[0])):
        item = item[0]  # (x, y): the label is not needed here
    parts = tuple(item) if _is_group(item) and wanted > 1 else (item,)
    if len(parts) != wanted:
        hint = one_each([v.name for v in graph.inputs])
        raise DataError(f"must have {wanted} inputs, not {len(parts)}", where=f"sample {index}", hint=hint)
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
    elif is_terminal(sys.stderr):
        from rich.console import Console
        from rich.progress import Progress as Bar

        with Bar(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("calibrating", total=total)
            yield lambda done: bar.update(task, completed=done)
    else:
        yield lambda done: None
