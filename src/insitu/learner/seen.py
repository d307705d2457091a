"""What a learner has seen of its classes: the mean of the features of each. It goes with the learner's file.

From these means, a class that is added later gets its first row (training/newcomer.py): on this machine after the file
was opened again, and on a board from its first day on. No sample can be told from them. They are those of the last
`fit`, a few samples of each class (rows.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from insitu.data import Samples
from insitu.devices.host import open_host
from insitu.graph import drop_unused
from insitu.learner.feed import plain, predict_all
from insitu.learner.few import CAREFUL
from insitu.learner.rates import Gains, derived
from insitu.training.head import HEAD

if TYPE_CHECKING:
    from insitu.learner.learner import Learner


@dataclass(frozen=True, eq=False)
class Seen:
    """Class -> the mean of its features, and of how many samples it is."""

    means: Mapping[int, np.ndarray] = field(default_factory=dict)
    counts: Mapping[int, int] = field(default_factory=dict)


def class_means(learner: Learner) -> Seen:
    """Of the last `fit`; without one, what the learner's file says."""
    return seen_in(learner, learner.lately) if learner.lately is not None else learner.seen


def usual_rate(learner: Learner) -> float | None:
    """The rate of a head for samples like those of the last `fit`, as `partial_fit` derives it; None if none are known.

    The gain is |f|^2 + 1 for features f. Of the means it is a little smaller than of the samples.
    """
    squares = [float(np.square(mean, dtype=np.float64).sum()) for mean in class_means(learner).means.values()]
    if not squares:
        return None
    return derived(Gains(float(np.mean(squares)) + 1), learner.recipe, True).head * CAREFUL


def seen_in(learner: Learner, data: Samples) -> Seen:
    """The means of the classes in these samples; nothing for a learner without a head."""
    if data.labels is None or HEAD not in learner.graphs["predict"].producer:
        return Seen()
    found, labels = features_of(learner, data), data.labels
    known = [int(k) for k in np.unique(labels)]
    return Seen({k: found[labels == k].mean(0) for k in known}, {k: int((labels == k).sum()) for k in known})


def features_of(learner: Learner, data: Samples) -> np.ndarray:
    """What the head reads of each sample, in the learner's state of now: [samples, features]."""
    graph, state = learner.graphs["predict"], learner.device.state()
    body = drop_unused(replace(graph, outputs=(graph.producer[HEAD].inputs[0],), classes=()))
    device, trained = open_host(body), [name for name in body.state if name in body.values]
    if trained:
        device.load_arrays({name: state[name] for name in trained})
    return predict_all(device, plain(data.inputs))[0].reshape(len(data), -1)
