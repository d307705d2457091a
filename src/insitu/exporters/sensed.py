"""A file that computes features: the samples to compare it with, and how near it is to the learner's integers.

features.py says what features become in a file. Nothing here writes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.exporters.compared import distance
from insitu.exporters.features import real_features, real_inputs, sample_rate, sound_words
from insitu.exporters.learned import learned_graph
from insitu.exporters.samples import compared
from insitu.graph import Graph, evaluate
from insitu.ops._functions import real

if TYPE_CHECKING:
    from insitu.learner import Learner

Samples = Sequence[tuple[np.ndarray, ...]]


def samples_for(learner: Learner, data: Any) -> Any:
    """Samples in the form that the file takes."""
    graph = learner.graphs["predict"]
    return np.concatenate([real_inputs(graph, sample)[0] for sample in compared(graph, data)])


def notes_about(learner: Learner, data: Any) -> tuple[str, ...]:
    """What the file takes, and how far its outputs are from the learner's."""
    graph = learned_graph(learner)
    samples, file = compared(graph, data), real_features(graph)
    off = max(_distance(graph, file, sample) for sample in samples)
    near = "features are computed in float there, in integers in our programs: outputs are within"
    return (_taken(graph, file), f"{near} {off:.1%} of the learner's largest, on {len(samples)} samples")


def _taken(graph: Graph, file: Graph) -> str:
    x, rate = file.inputs[0], sample_rate(graph)
    if rate:
        return f"takes {x.type}, {sound_words(rate)}"
    return f"takes {x.type}, " + ("red, green and blue" if x.dtype == "u8" else "the readings of a window")


def _distance(graph: Graph, file: Graph, sample: tuple[np.ndarray, ...]) -> float:
    pairs = zip(graph.outputs, _outputs(file, real_inputs(graph, sample)), _outputs(graph, sample))
    return max(distance(real(got, v.type), real(want, v.type)) for v, got, want in pairs)


def _outputs(graph: Graph, inputs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    found = evaluate(graph, *inputs)
    return tuple(found) if isinstance(found, tuple) else (np.asarray(found),)
