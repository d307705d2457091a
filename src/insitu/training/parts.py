"""What a training program was made from: enough to make it again, with one more class or in another arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Graph
from insitu.schemes.layers import Layer, layers, leading
from insitu.schemes.scheme import Scheme
from insitu.training.head import HEAD
from insitu.training.train import BODY_RATE, Recipe, train_graphs


@dataclass(frozen=True, eq=False)
class Parts:
    """A network, which part of it is trained, and how."""

    forward: Graph
    scheme: Scheme
    recipe: Recipe = field(default_factory=Recipe)
    batch: int = 1  # samples per update
    at_once: bool = False  # the samples always go through the network together, for statistics over the batch
    head: str | None = "head"

    def graphs(self) -> dict[str, Graph]:
        together = self.batch if self.at_once else 1
        one_by_one = self.batch > 1 and not self.at_once
        return self._resting(
            train_graphs(
                self.forward, self.scheme, self.recipe, accumulate=one_by_one, samples=together, head=self.head
            )
        )

    def _resting(self, graphs: dict[str, Graph]) -> dict[str, Graph]:
        """The graphs, with a rate of 0 for the layers before the head if nobody asked to train them."""
        if not self.scheme.rests:
            return graphs
        rest = {BODY_RATE: np.zeros(1, np.float32)}
        return {
            verb: replace(g, state={**g.state, **rest}) if BODY_RATE in g.state else g for verb, g in graphs.items()
        }

    def batch_graphs(self, batch: int) -> dict[str, Graph] | None:
        """The graphs of a program that adds up gradients, and one for whole batches at once; None if impossible.

        Only float networks: their results may differ by rounding. int8 ones are the same bytes everywhere.
        """
        if self.at_once or batch == 1 or self.recipe.rows or any(n.op.kind == "int8" for n in self.forward.nodes):
            return None
        try:
            return self._resting(
                train_graphs(self.forward, self.scheme, self.recipe, accumulate=True, samples=batch, head=self.head)
            )
        except GraphError:  # an op that moves the sample axis
            return None


def trainable(graph: Graph) -> list[Layer]:
    """The layers a scheme may name: all that lead to the loss, except the head."""
    leads = leading(graph)
    return [layer for layer in layers(graph) if layer.name != HEAD and layer.name in leads]
