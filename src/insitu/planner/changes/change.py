"""What a change is: one way to need less memory for the same bytes. table.py lists all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from insitu.graph import Graph, Node
from insitu.graph.call import Call


@dataclass(frozen=True)
class Tools:
    """The tools that changes use."""

    call: Callable[[Node], Call]  # the kernel call of a node
    known: dict[Any, Any] = field(default_factory=dict)  # results of a change, for the next time


# graphs with a node changed, or changed back: each needs less than the one before, or costs more; possibly none
Graphs = Iterator[Graph]
Do = Callable[[Graph, Node, Tools], Graphs]


def nothing(graph: Graph, node: Node, tools: Tools) -> Graphs:
    """It is not undone."""
    return iter(())


@dataclass(frozen=True)
class Change:
    """One row of the table.

    name    in reports, in JSON, and in the facts of ops that are made for it
    words   its name in reports, singular and plural
    kind    a kernel is called differently, less is kept, or nodes run in a loop
    costs   what that costs in time
    done    is this node changed in this way?
    undo    the graph with a node changed back, the cheapest way first
    dear    most is recomputed: tried, and undone, separately from the others
    """

    name: str
    words: tuple[str, str]
    kind: Literal["call", "keep", "loop"]
    costs: str
    done: Callable[[Node], bool]
    undo: Do = nothing
    dear: bool = False
