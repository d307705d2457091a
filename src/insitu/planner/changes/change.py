"""What a change is: one way to need less memory for the same bytes. All of them stand in table.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from insitu.graph import Graph, Node
from insitu.graph.call import Call


@dataclass(frozen=True)
class Tools:
    """What changes are made with."""

    call: Callable[[Node], Call]  # the kernel call of a node
    known: dict[Any, Any] = field(default_factory=dict)  # what a change found out, for the next time it is asked


# graphs with a node changed, or changed back: each needs less than the one before, or costs more; maybe none
Graphs = Iterator[Graph]
Do = Callable[[Graph, Node, Tools], Graphs]


def nothing(graph: Graph, node: Node, tools: Tools) -> Graphs:
    """It is not taken back."""
    return iter(())


@dataclass(frozen=True)
class Change:
    """One row of the table.

    name    in reports, in JSON, and in the facts of ops that are made for it
    words   what one is called, and several
    kind    a kernel is called differently, less is kept, or nodes run in a loop
    costs   what that costs in time
    done    is this node changed so?
    undo    the graph with a node changed back, the cheapest way first
    dear    most is computed again: tried, and undone, apart from the others
    """

    name: str
    words: tuple[str, str]
    kind: Literal["call", "keep", "loop"]
    costs: str
    done: Callable[[Node], bool]
    undo: Do = nothing
    dear: bool = False
