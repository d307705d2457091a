"""What somebody gives a learner, checked: samples with labels or targets in the program's own types.

Reading files and arrays is data/'s business.
"""

from __future__ import annotations

import numpy as np

from insitu.data import Samples, as_samples, check_labels
from insitu.errors import DataError
from insitu.graph import Graph, Value
from insitu.training.train import LOSSES


def given_samples(graph: Graph, loss: str, x, y=None, part: str = "train") -> Samples:
    """Samples for the inputs of a graph, with what this loss compares its output with."""
    out, labels = graph.outputs[0], LOSSES[loss][1] == "labels"
    if labels:
        check_width(pair(x)[1] if y is None else y, out.shape[-1])
    data = as_samples(x if y is None else (x, y), graph, targets=not labels, part=part)
    return check_labels(data, out.shape[-1]) if labels else with_targets(data, out)


def with_targets(data: Samples, out: Value) -> Samples:
    """These samples with targets in the shape of the output; the samples themselves where there are none."""
    y = data.inputs[0] if data.labels is None else data.labels
    if y.size != len(data) * out.type.size // out.shape[0]:
        raise DataError(f"the targets have shape {y.shape}, the model's output is {out.type}")
    if not np.isfinite(y).all():
        raise DataError("a target is not finite")
    y = np.ascontiguousarray(y, np.float32).reshape(-1, *out.shape[1:])
    return Samples(data.inputs, y, data.names)


def pair(data):
    """(x, y) from what `validation` may be."""
    return data if isinstance(data, tuple) and len(data) == 2 else (data, None)


def check_width(y, classes: int) -> None:
    """Labels may come as one-hot rows, a column per class."""
    shape = np.shape(y)
    if len(shape) == 2 and shape[1] not in (1, classes):
        raise DataError(f"the labels have {shape[1]} columns, the model has {classes} classes",
                        hint="class numbers, or one-hot rows with a column per class")  # fmt: skip
