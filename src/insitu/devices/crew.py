"""Several threads over samples on the host: they give the same predictions and sums of gradients as one thread.

For gradients, each slot is a device of its own with the gradients of one sample; they are added to the sums in the
order of the samples. If `accumulate` changes more than sums and counts (running statistics), a sample depends on the
one before it, and one thread does all of them. host_training.py prepares the arguments of the calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.devices.forked import each_process
from insitu.graph import Graph
from insitu.ops.dropout import count_up

if TYPE_CHECKING:
    from insitu.devices.host import HostDevice

WORTH_A_THREAD = 64 << 10  # bytes of arena: smaller programs end before a thread has started
SLOTS = 4  # samples in flight for each thread
MOST = np.iinfo(np.int32).max  # where counters stop


def usual_threads(arena_bytes: int) -> int:
    return min(os.cpu_count() or 1, 8) if arena_bytes >= WORTH_A_THREAD else 1


def side_by_side(job: Callable[[range, np.ndarray], None], parts: list[range], arenas: list[np.ndarray]) -> None:
    """Run a job on each of these parts, each in an arena of its own; in one thread per part if there are several."""
    if len(parts) == 1:
        job(parts[0], arenas[0])
    else:
        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(job, parts, arenas))


class Crew:
    """Adds up gradients in a device's state, in the requested number of threads if that changes nothing."""

    def __init__(self, device: HostDevice, threads: int):
        self.threads_asked: int = threads
        graph = device.program.plans["accumulate"].graph
        kinds = {name: _kind(graph, name) for name in graph.updates}
        self.threads: int = threads if None not in kinds.values() else 1
        self.slots: list[HostDevice] = [device.twin() for _ in range(SLOTS * self.threads)] if self.threads > 1 else []
        self.pool: ThreadPoolExecutor | None
        each_process(self, Crew._begin)
        self.call: Callable[..., None] = device.bound("accumulate")
        self.calls: list[Callable[..., None]] = [slot.bound("accumulate") for slot in self.slots]
        self.total: State = State(device, kinds)
        self.parts: list[State] = [State(slot, kinds) for slot in self.slots]

    def _begin(self) -> None:
        self.pool = ThreadPoolExecutor(self.threads) if self.slots else None

    def accumulate(self, arguments: Sequence[tuple[Any, ...]]) -> None:
        """Add the gradients of one call after the other, each with these arguments."""
        if self.pool is None:
            for given in arguments:
                self.call(*given)
            return
        for part in self.parts:
            part.follow(self.total)
        for start in range(0, len(arguments), len(self.slots)):
            self._at_once(self.pool, arguments[start : start + len(self.slots)])

    def _at_once(self, pool: ThreadPoolExecutor, arguments: Sequence[tuple[Any, ...]]) -> None:
        """At most one call per slot."""
        for slot in range(len(arguments)):
            self.parts[slot].start(self.total, slot)
        list(pool.map(lambda job: self.calls[job[0]](*job[1]), enumerate(arguments)))
        for slot in range(len(arguments)):
            self.total.add(self.parts[slot])
        self.total.count(len(arguments))

    def close(self) -> None:
        if self.pool:
            self.pool.shutdown()


def _kind(graph: Graph, name: str) -> str | None:
    """How a persistent value changes from sample to sample; None if the samples depend on each other."""
    if name.endswith(".sum"):
        return "sum"
    if name == "counters":
        return "events"
    made = graph.producer.get(graph.updates[name].name)
    return "step" if made is not None and made.op is count_up else None


class State:
    """The persistent values of one device that `accumulate` changes, as views into its state."""

    def __init__(self, device: HostDevice, kinds: Mapping[str, str | None]):
        layout = device.program.state
        assert layout is not None  # a program that accumulates has state
        self.bytes: np.ndarray = device._state
        offsets = layout.offsets()
        spans: dict[str, list[list[int]]] = {"sum": [], "events": [], "step": []}
        for v in layout.fields:
            found = spans.get(kinds.get(v.name) or "")
            if found is None:
                continue
            start, end = offsets[v.name], offsets[v.name] + v.type.bytes
            if found and found[-1][1] == start:  # neighbours are joined: few long additions
                found[-1][1] = end
            else:
                found.append([start, end])
        self.sums: list[np.ndarray] = [self.bytes[a:b].view(np.float32) for a, b in spans["sum"]]
        self.events: list[np.ndarray] = [self.bytes[a:b].view(np.int32) for a, b in spans["events"]]
        self.steps: list[np.ndarray] = [self.bytes[a:b].view(np.int32) for a, b in spans["step"]]

    def follow(self, total: State) -> None:
        """Copy the whole state, with sums and events at zero."""
        self.bytes[:] = total.bytes
        for array in (*self.sums, *self.events):
            array.fill(0)

    def start(self, total: State, index: int) -> None:
        """Set the step counter to that of the sample `index` later."""
        for mine, theirs in zip(self.steps, total.steps):
            mine[:] = (theirs.view(np.uint32) + np.uint32(index)).view(np.int32)

    def add(self, part: State) -> None:
        for mine, theirs in zip(self.sums, part.sums):
            np.add(mine, theirs, out=mine)
            theirs.fill(0)
        for mine, theirs in zip(self.events, part.events):
            mine[:] = np.minimum(mine.astype(np.int64) + theirs, MOST)  # as the C counts
            theirs.fill(0)

    def count(self, steps: int) -> None:
        for mine in self.steps:
            mine[:] = (mine.view(np.uint32) + np.uint32(steps)).view(np.int32)
