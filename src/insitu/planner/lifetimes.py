"""When each value of an ordered graph is alive, and which values share their bytes.

A buffer is a run of bytes with one lifetime: usually one value, several if an op works in place.
Constants and state live elsewhere and have no buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from insitu.errors import GraphError
from insitu.graph import Graph
from insitu.graph.call import Call


@dataclass(frozen=True)
class Buffer:
    """Bytes that hold these values from step `first` to step `last`, inclusive.

    If a small value reuses the bytes of a large one, the rest is free from then on: `later` has the steps at which the
    size changes. Inside a loop over stripes, the size may also grow.
    """

    names: tuple[str, ...]
    bytes: int  # the most it has
    first: int  # -1: filled before the first step (a graph input)
    last: int
    later: tuple[tuple[int, int], ...] = ()  # (step, bytes) for each change

    def overlaps(self, other: Buffer) -> bool:
        return self.first <= other.last and other.first <= self.last

    def size(self, step: int) -> int:
        """Its bytes at a step of its life."""
        return next((bytes for at, bytes in reversed(self.later) if step >= at), self.bytes)

    @property
    def pieces(self) -> list[tuple[int, int, int]]:
        """(first, last, bytes) of each part of its life."""
        if not self.later:
            return [(self.first, self.last, self.bytes)]
        starts = [self.first, *(at for at, _ in self.later)]
        ends = [*(at - 1 for at, _ in self.later), self.last]
        sizes = [self.bytes, *(bytes for _, bytes in self.later)]
        return [piece for piece in zip(starts, ends, sizes) if piece[0] <= piece[1]]

    def most(self, first: int, last: int) -> int:
        """The most bytes it has between two steps."""
        return max(bytes for start, end, bytes in self.pieces if start <= last and first <= end)


def lower_bound(buffers: Iterable[Buffer]) -> int:
    """The largest sum of bytes alive at one step: no placement can need less."""
    change: dict[int, int] = {}
    for b in buffers:
        for first, last, size in b.pieces:
            change[first] = change.get(first, 0) + size
            change[last + 1] = change.get(last + 1, 0) - size
    return max(accumulate(change[step] for step in sorted(change)), default=0)


def buffers(graph: Graph, calls: tuple[Call, ...]) -> tuple[Buffer, ...]:
    """The buffers of a graph in its order, with the scratch of each call."""
    first, last = _span(graph)
    for name in state_homes(graph):  # written directly into the state
        del first[name]
    first.pop(graph.by_rows, None)  # never held whole: its rows are scratch of the node that takes them
    owner = _shared(graph, first, last)
    groups: dict[str, list[str]] = {}
    for name in first:
        groups.setdefault(owner[name], []).append(name)
    found = [_buffer(graph, tuple(names), first, last) for names in groups.values()]
    return (*found, *scratch_buffers(calls))


def state_homes(graph: Graph) -> dict[str, str]:
    """Value -> the state it is written into: the result of an update has the place of the old content."""
    homes: dict[str, str] = {}
    for state, new in graph.updates.items():
        value = new
        while value.name != state:  # back through every op that changed it in place
            homes[value.name] = state
            node = graph.producer.get(value.name)
            source = node.shared().get(value.name) if node else None
            if source is None:
                raise GraphError(f"its update {new} is not made in place", where=f"%{state}")
            value = source
    return homes


def scratch_buffers(calls: tuple[Call, ...]) -> list[Buffer]:
    found = []
    for step, call in enumerate(calls):
        for i, bytes in enumerate(call.scratch):
            if bytes:
                found.append(Buffer((scratch_name(step, i),), bytes, step, step))
    return found


def scratch_name(step: int, index: int) -> str:
    return f"scratch {step}.{index}"  # with a space, which no value's name has


def _buffer(graph: Graph, names: tuple[str, ...], first: Mapping[str, int], last: Mapping[str, int]) -> Buffer:
    if len(names) == 1:
        return Buffer(names, graph.values[names[0]].type.bytes, first[names[0]], last[names[0]])
    start, end = min(first[n] for n in names), max(last[n] for n in names)
    sizes = [graph.values[n].type.bytes for n in names]
    later = _less(sizes, [last[n] for n in names]) if min(sizes) < max(sizes) else ()
    return Buffer(names, max(sizes), start, end, later)


def _less(sizes: list[int], last: list[int]) -> tuple[tuple[int, int], ...]:
    """(step, bytes) for each step at which fewer bytes remain."""
    found, now = [], max(sizes)
    for step in sorted(end + 1 for end in last):
        left = max((size for size, end in zip(sizes, last) if end >= step), default=now)
        if left < now:
            found.append((step, left))
            now = left
    return tuple(found)


def _span(graph: Graph) -> tuple[dict[str, int], dict[str, int]]:
    first = {v.name: -1 for v in graph.inputs}
    last = dict(first)
    for step, node in enumerate(graph.nodes):
        for v in node.outputs:
            first[v.name] = last[v.name] = step
        for name in node.reads:
            if name in first:
                last[name] = step
    for v in graph.outputs:
        if v.name in first:
            last[v.name] = len(graph.nodes)
    return first, last


def _shared(graph: Graph, first: Mapping[str, int], last: Mapping[str, int]) -> dict[str, str]:
    """Value -> the value whose bytes it uses."""
    owner = {name: name for name in first}
    for step, node in enumerate(graph.nodes):
        for name, source in node.shared().items():
            # the input must die here, and must not be read through another argument of this call
            here = source.name in owner and name in owner and last[source.name] == step
            fits = here and source.type.bytes >= graph.values[name].type.bytes
            if fits and sum(v.name == source.name for v in node.inputs) == 1:
                owner[name] = owner[source.name]
            elif node.op.overwrites and name in owner:
                raise GraphError(f"{node.op.name} overwrites it, but it is constant or read again", where=str(source))
    return owner
