"""What a training program was made from: enough to make it again, with one more class or in another arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field

from insitu.graph import Graph
from insitu.schemes.scheme import Scheme
from insitu.training.train import Recipe, train_graphs


@dataclass(frozen=True, eq=False)
class Parts:
    """A network, which part of it is trained, and how."""

    forward: Graph
    scheme: Scheme
    recipe: Recipe = field(default_factory=Recipe)
    batch: int = 1  # samples per update
    at_once: bool = False  # the samples go through the network together, for statistics over the batch
    head: str | None = "head"

    def graphs(self) -> dict[str, Graph]:
        together = self.batch if self.at_once else 1
        one_by_one = self.batch > 1 and not self.at_once
        return train_graphs(
            self.forward, self.scheme, self.recipe, accumulate=one_by_one, samples=together, head=self.head
        )
