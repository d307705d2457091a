"""How good outputs are, in terms of the loss they were trained with: the share that is right, or an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from insitu.data import Samples
from insitu.devices.device import Device
from insitu.errors import DataError
from insitu.graph.classes import word
from insitu.learner.feed import plain, predict_all
from insitu.terminal.progress import Report


def top_is_label(out: np.ndarray, y: np.ndarray) -> float:
    return float(_label_on_top(out, y).mean())


def top_is_top(out: np.ndarray, y: np.ndarray) -> float:
    return float(_same_on_top(out, y).mean())


def same_side(out: np.ndarray, y: np.ndarray) -> float:
    """Share of yes-or-no outputs (logits) on the side of their target."""
    return float(_on_same_side(out, y).mean())


def _label_on_top(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _rows(out).argmax(1) == y


def _same_on_top(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _rows(out).argmax(1) == _rows(y).argmax(1)


def _on_same_side(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _rows((out > 0) == (y > 0.5)).mean(1)


def squared(out: np.ndarray, y: np.ndarray) -> float:
    return float(np.square(np.subtract(out, y, dtype=np.float64)).mean())


def _rows(a: np.ndarray) -> np.ndarray:
    return a.reshape(len(a), -1)


# loss -> (name of the measure, function)
MEASURES: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], float]]] = {
    "cross_entropy": ("accuracy", top_is_label),
    "soft_cross_entropy": ("accuracy", top_is_top),
    "binary_cross_entropy": ("accuracy", same_side),
    "mse": ("error", squared),
}

# loss of a classifier -> (outputs, labels) -> how right each sample is, 0 to 1
RIGHT: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "cross_entropy": _label_on_top,
    "soft_cross_entropy": _same_on_top,
    "binary_cross_entropy": _on_same_side,
}


def measured(device: Device, loss: str, data: Samples, report: Report | None = None) -> dict[str, float]:
    """How good a device is on labelled samples, by the name of the measure, and how many these are."""
    out, y = predict_all(device, plain(data.inputs), report)[0][:, 0], data.labels
    assert y is not None  # checked by samples()
    name, measure = MEASURES[loss]
    return {name: measure(out, y), "samples": len(y)}


def usual_errors(device: Device, loss: str, data: Samples, names: Sequence[str], report: Report | None = None
                 ) -> dict[str, float]:  # fmt: skip
    """Target -> root of its mean squared error; a target without a name has a number."""
    if MEASURES[loss][0] != "error":
        raise DataError("a classifier has no errors in a unit", hint="evaluate says how many samples are right")
    out, y = predict_all(device, plain(data.inputs), report)[0][:, 0], data.labels
    assert y is not None  # checked by samples()
    roots = np.sqrt(np.square(np.subtract(_rows(out), _rows(y), dtype=np.float64)).mean(0))
    return {word(names, k): float(root) for k, root in enumerate(roots)}
