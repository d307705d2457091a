"""A network of random weights that has batch norms may learn in float, too, in batches, and be made int8 then.

In an int8 program its norms keep the statistics that they have, those of the samples before any training
(statistics.py), while the network moves away from them. So a learner that was compiled with nothing else said brings
this along, and its first `fit` on this machine tries it (learner/school.py). Everything that runs is the generated C.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from insitu.data import Samples
from insitu.graph import Graph
from insitu.learner import Learner
from insitu.learner.learned import learned_model
from insitu.pipeline.choosing import AUTO
from insitu.training.train import Recipe

BATCH = 8  # samples whose statistics the norms see


@dataclass(frozen=True, eq=False)
class InFloat:
    """The network as it was read, and what `compile` was asked for."""

    graph: Graph
    asked: Mapping[str, Any]

    def begin(self, learner: Learner, data: Samples) -> Learner:
        """The network in float, with norms that learn their statistics."""
        from insitu.pipeline.compiling import compile

        return compile(self.graph, data=data, classes=learner.names or learner.classes, head_init="uniform",
                       precision="float", scheme="full", batch=BATCH, seed=self.asked["seed"],
                       recipe=Recipe(optimizer="adam"))  # fmt: skip

    def end(self, pupil: Learner, data: Samples) -> Learner:
        """What it learned, in int8."""
        from insitu.pipeline.compiling import compile

        return compile(learned_model(pupil), data=data, **self.asked)


def school_of(graph: Graph, recipe: Recipe | None, asked: Mapping[str, Any]) -> InFloat | None:
    """For a network of random weights with norms; None if somebody asked for another way to learn."""
    usual = recipe in (None, Recipe()) and asked["scheme"] in (AUTO, "full")
    return InFloat(graph, asked) if usual else None
