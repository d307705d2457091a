"""The samples given to a learner, checked: with labels or targets in the program's own types.

data/ reads files and arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from insitu.data import Samples, as_samples, by_name, check_labels
from insitu.data.labels import by_number, is_number
from insitu.data.samples import numbers
from insitu.data.streams import shape_of
from insitu.errors import DataError
from insitu.files import check_source, contents
from insitu.graph import Graph, Value
from insitu.graph.classes import named
from insitu.terminal.wording import either, option
from insitu.training.train import LOSSES

# losses whose targets are chances
CHANCES = {name for name, (_, given) in LOSSES.items() if given == "targets" and name.endswith("cross_entropy")}
TOLERANCE = 0.01  # of the sum of a sample's shares: they may be rounded
KEPT = {".insitu": "learner", ".bin": "state", ".state": "state"}  # suffix -> what is saved


def given_samples(graph: Graph, loss: str, x, y=None, part: str = "train", naming: bool = False) -> Samples:
    """Samples for the inputs of a graph, with the labels or targets that this loss needs.

    Labels are matched by name; with `naming`, new names are given to classes that have none yet.
    """
    check_one_answer(y, graph)
    out, labels = graph.outputs[0], LOSSES[loss][1] == "labels"
    if labels:
        check_width(pair(x)[1] if y is None else y, out.shape[-1])
    x, y = pair(x) if y is None else (x, y)
    data = as_samples(x, graph, labels=y, targets=not labels, part=part, every=False)
    if not labels:
        return with_targets(data, out, loss)
    data = by_number(data, graph.classes)
    if naming and data.names and not (not any(graph.classes) and all(map(is_number, data.names))):
        return check_labels(by_name(data, named(new_names(data, graph), graph.classes, out.shape[-1])), out.shape[-1])
    return check_labels(by_name(data, graph.classes), out.shape[-1])


def new_names(data: Samples, graph: Graph) -> tuple[str, ...]:
    """The classes that these samples name. An empty folder is none that a model with classes of its own has to know."""
    labels = np.zeros(0) if data.labels is None else data.labels
    used = set(np.unique(labels).tolist()) if any(graph.classes) else range(len(data.names))
    return tuple(name for number, name in enumerate(data.names) if number in used or name in graph.classes)


def check_one_answer(y, graph: Graph) -> None:
    """Answers for several outputs are a DataError: one output is learned."""
    parts = isinstance(y, (tuple, list)) and len(y) == len(graph.outputs) > 1 and all(np.ndim(a) > 0 for a in y)
    if not isinstance(y, Mapping) and not parts:
        return
    what = f"answers for {len(y)} outputs were given, and one output is learned ({graph.outputs[0].name})"
    way = f"a model that returns torch.cat(outputs, 1), {option(loss='mse')}, and np.hstack(targets)"
    raise DataError(what, hint=f"{way}; of classes, one-hot rows and binary_cross_entropy")


def with_targets(data: Samples, out: Value, loss: str = "mse") -> Samples:
    """These samples with targets in the shape of the output; without any, the samples themselves are the targets."""
    y = numbers(data.inputs[0] if data.labels is None else data.labels, "targets")
    if y.size != len(data) * out.type.size // out.shape[0]:
        hint = either(shell="of a .csv: --targets NAME,NAME, or head their columns target_...",
                      python="one row per sample; of a .csv: head their columns target_...")  # fmt: skip
        raise DataError(f"the targets have the shape {y.shape}, but the model's output is {out.type}", hint=hint)
    with np.errstate(over="ignore"):
        y = np.ascontiguousarray(y, np.float32).reshape(-1, *out.shape[1:])
    if not np.isfinite(y).all():
        raise DataError("a target is not finite, or beyond single precision (3e38)")
    if loss in CHANCES:
        _check_chances(y, loss)
    return replace(data, labels=y)


def _check_chances(y: np.ndarray, loss: str) -> None:
    """With other targets, these losses have no minimum, or one somewhere else."""
    low, high = float(y.min()), float(y.max())
    if low < 0 or high > 1:
        hint = "(y + 1) / 2" if low == -1 and high == 1 else option(loss="mse") + " learns quantities"
        raise DataError(f"the targets of {loss} are chances from 0 to 1, not {low:g} to {high:g}", hint=hint)
    sums = y.reshape(len(y), -1).sum(1)
    if loss == "soft_cross_entropy" and np.abs(sums - 1).max() > TOLERANCE:
        k = int(np.abs(sums - 1).argmax())
        what = f"the shares of the classes add up to {sums[k]:.3g}, not 1"
        raise DataError(what, where=f"targets, sample {k}", hint="y / y.sum(1, keepdims=True)")


def one_or_more(x, y, graph: Graph, loss: str):
    """The labels or targets of several samples, also if they are those of a single one."""
    targets, out, sample = LOSSES[loss][1] != "labels", graph.outputs[0].shape[1:], graph.inputs[0].shape[1:]
    single = targets and not isinstance(x, (str, Path)) and shape_of(x) == sample and shape_of(y) == out
    return [y] if np.isscalar(y) or single else y


def pair(data):
    """(x, y) from the argument `validation`."""
    return data if isinstance(data, tuple) and len(data) == 2 else (data, None)


def check_width(y, classes: int) -> None:
    """Labels may come as one-hot rows, with one column per class."""
    shape = shape_of(y)
    if len(shape) == 2 and shape[1] not in (1, classes):
        raise DataError(f"the labels have {shape[1]} columns, but the model has {classes} classes",
                        hint="class numbers, or one-hot rows with one column per class")  # fmt: skip


def kept(path: str | Path) -> str:
    """What a file of this name contains: a whole learner, or only a state. Any other suffix is a DataError."""
    suffix = Path(path).suffix.lower()
    if suffix not in KEPT:
        what = f"cannot save a {suffix or 'file without a suffix'}"
        whole, state, _ = KEPT
        hint = f"{whole} for the learner, {state} for its state alone"
        exports = either(shell="insitu export FILE -o NAME", python="learner.export(NAME)")
        others = f"; {exports} writes other formats" if suffix else ""
        raise DataError(what, where=str(path), hint=hint + others)
    return KEPT[suffix]


def read_state(path: str | Path) -> bytes:
    """The bytes of a saved state."""
    check_source(path)
    return contents(path)
