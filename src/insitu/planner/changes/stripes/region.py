"""A set of nodes that can run as one loop over stripes: who reads what in it, row by row. Nothing is chosen here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from insitu.graph import Graph, Node, Value
from insitu.graph.loops import Rows


@lru_cache(maxsize=4096)
def identity(node: Node) -> tuple[str, ...]:
    """What a node is: a graph made of another may have one of the same name that reads something else."""
    return node.op.name, *(v.name for v in (*node.outputs, *node.inputs))


@lru_cache(maxsize=4096)
def reads(node: Node) -> tuple[tuple[Value, Rows], ...] | None:
    """The inputs that a node reads row by row; None if it cannot run in stripes."""
    y = node.output
    if len(node.outputs) > 1 or len(y.shape) != 4 or y.shape[0] != 1:
        return None
    rows = node.rows()
    if rows is None:
        return None
    found = tuple((v, r) for v, r in zip(node.inputs, rows) if r is not None)
    fits = all(_never_padding_alone(r, v.shape[1], y.shape[1]) for v, r in found)
    return found if found and fits else None


def _never_padding_alone(rows: Rows, height: int, made: int) -> bool:
    """Does every output row have a row of the input under it? A window entirely on padding has no rows to point at."""
    return rows.end(0) > 0 and rows.first(made - 1) < height


@dataclass(frozen=True, eq=False)
class Region:
    """Nodes of a graph, in its order, that run as one; `whole` are the results that others read."""

    nodes: tuple[Node, ...]
    whole: frozenset[str]

    @cached_property
    def made(self) -> dict[str, Value]:
        return {n.output.name: n.output for n in self.nodes}

    @cached_property
    def reads(self) -> dict[str, tuple[tuple[Value, Rows], ...]]:
        """Result -> the values its node reads row by row."""
        return {n.output.name: reads(n) or () for n in self.nodes}

    @cached_property
    def readers(self) -> dict[str, list[tuple[str, Rows]]]:
        """Value made inside -> its readers, and how they read it."""
        found: dict[str, list[tuple[str, Rows]]] = {name: [] for name in self.made}
        for reader, inputs in self.reads.items():
            for v, rows in inputs:
                if v.name in found:
                    found[v.name].append((reader, rows))
        return found

    @cached_property
    def last(self) -> dict[str, str]:
        """Value with a line buffer -> its last reader in a stripe."""
        turn = {n.name: i for i, n in enumerate(self.nodes)}
        inside = {name: [r for r, _ in readers] for name, readers in self.readers.items() if name not in self.whole}
        return {name: max(readers, key=turn.__getitem__) for name, readers in inside.items()}

    @cached_property
    def done(self) -> dict[str, list[Value]]:
        """Node -> the values with a line buffer of which it is the last reader."""
        found: dict[str, list[Value]] = {n.name: [] for n in self.nodes}
        for name, reader in self.last.items():
            found[reader].append(self.made[name])
        return found

    @cached_property
    def by_rows(self) -> bool:
        """Does every node read the others' results row by row? A node that reads a whole result (squeeze-and-excitation
        multiplies by a map of one pixel) must wait until it is complete, and no stripe completes it."""
        return all(
            v.name not in self.made or any(v == read for read, _ in self.reads[n.output.name])
            for n in self.nodes for v in n.inputs
        )  # fmt: skip

    @cached_property
    def inputs(self) -> tuple[Value, ...]:
        """The values from outside, including constants."""
        return tuple({v.name: v for n in self.nodes for v in n.inputs if v.name not in self.made}.values())

    @cached_property
    def outputs(self) -> tuple[Value, ...]:
        return tuple(v for v in self.made.values() if v.name in self.whole)


def region_of(graph: Graph, nodes: Iterable[Node]) -> Region:
    """These nodes, and which of their results must exist whole."""
    inside = tuple(nodes)
    names = {n.name for n in inside}
    wanted = {v.name for v in graph.results}
    used = {v.name for n in graph.nodes if n.name not in names for v in n.inputs}
    return Region(inside, frozenset(names & (wanted | used)))
