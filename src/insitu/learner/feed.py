"""How samples get to a device fast: addresses instead of arrays, threads where samples are independent.

    Feed        where each training sample lies: in the data, among cached outputs of the frozen prefix, or made
                afresh by an augmentation
    Crew        the gradients of a batch, computed by several threads and added up in the order of the samples
    run_many    one function over many samples that do not change the state

Results never depend on the number of threads. Nothing here decides what is trained or checks data (learner.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from insitu.devices.host import HostDevice
from insitu.errors import DataError
from insitu.graph import Graph
from insitu.ops.dropout import count_up

Arrays = tuple[np.ndarray, ...]
Augment = Callable[[np.ndarray, np.random.Generator], np.ndarray]
Locate = Callable[[int, int], tuple[list[int], object]]
WORTH_A_THREAD = 64 << 10  # bytes of arena: programs that need less are over before a thread has started
SLOTS = 4  # samples in flight for each thread
AT_ONCE = 64  # samples before others have their turn


def usual_threads(device: HostDevice) -> int:
    return min(os.cpu_count() or 1, 8) if device.program.arena_bytes >= WORTH_A_THREAD else 1


@dataclass(frozen=True, eq=False)
class Feed:
    """Where training samples lie and which device takes them."""

    device: HostDevice
    rows: Arrays  # one array an input: [samples, views, ...]; a single view where there is an augmentation
    cached: bool = False  # are they outputs of the frozen prefix?
    augment: Augment | None = None
    views: int | None = None  # how many fixed changes of each sample the augmentation makes; None: ever new ones
    seed: int = 0

    def locate(self) -> Locate:
        """A function of (sample, epoch): the addresses of its inputs, and what must stay alive until they are read."""
        if self.augment is not None:
            return self._augmented
        views = self.rows[0].shape[1]
        starts = [(r.ctypes.data, r[0].nbytes, r[0, 0].nbytes) for r in self.rows]
        if len(starts) == 1:  # the usual case, and in the inner loop
            ((start, sample, view),) = starts
            return lambda n, epoch: ([start + n * sample + epoch % views * view], None)
        return lambda n, epoch: ([s + n * a + epoch % views * b for s, a, b in starts], None)

    def gathered(self, chosen: list[int], epoch: int) -> Arrays:
        """These samples side by side: one array an input, [samples, ...]."""
        if self.augment is None:
            return tuple(r[chosen, epoch % r.shape[1]] for r in self.rows)
        first = np.concatenate([self._changed(n, epoch) for n in chosen])
        return first, *(r[chosen, 0] for r in self.rows[1:])

    def _augmented(self, n: int, epoch: int):
        one = self._changed(n, epoch)
        return [one.ctypes.data, *(r[n].ctypes.data for r in self.rows[1:])], one

    def _changed(self, n: int, epoch: int) -> np.ndarray:
        assert self.augment is not None
        view = epoch % self.views if self.views else epoch
        return augmented(self.augment, self.rows[0][n], (self.seed, view, n))


def augmented(augment: Augment, sample: np.ndarray, seed: Sequence[int]) -> np.ndarray:
    """A changed copy of one sample [1, ...]; the same seed gives the same change."""
    made = np.ascontiguousarray(augment(sample, np.random.default_rng(seed)))
    if made.shape != sample.shape or made.dtype != sample.dtype:
        raise DataError(f"the augmentation made {made.dtype}{made.shape} of {sample.dtype}{sample.shape}")
    if made.dtype.kind == "f" and not np.isfinite(made).all():
        raise DataError("the augmentation made a number that is not finite", where=f"sample {seed[-1]}")
    return made


def run_many(feed: Feed, verb: str = "predict", views: int = 1, report: Callable | None = None) -> Arrays:
    """The outputs for every view of every sample, [samples * views, ...], of a function that leaves the state alone."""
    device, locate, threads = feed.device, feed.locate(), usual_threads(feed.device)
    values, count = device.routines[verb].outputs, len(feed.rows[0]) * views
    outputs = tuple(np.empty((count, *v.shape), v.type.numpy) for v in values)
    ends = [(o.ctypes.data, v.type.bytes) for v, o in zip(values, outputs)]

    def some(part: range, arena: np.ndarray) -> None:
        call = device.bound(verb, arena)
        for i in part:
            where, _keep = locate(*divmod(i, views))
            call(*where, *(start + i * size for start, size in ends))

    def run(part: range) -> None:
        for first in range(part.start, part.stop, AT_ONCE):
            device.turn(verb)(partial(some, range(first, min(first + AT_ONCE, part.stop))))
            if report and part.start == 0:
                report(first * threads, count)

    parts = [range(count * t // threads, count * (t + 1) // threads) for t in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, parts))
    return tuple(o.reshape(-1, *v.shape[1:]) for o, v in zip(outputs, values))


class Crew:
    """Adds up the gradients of a batch in the device's state, with the bytes one thread would give.

    Each slot is a device of its own and holds the gradients of one sample; they are added to the sums in the order
    of the samples. Where `accumulate` changes more than sums and counts (running statistics), a sample depends on
    the one before it and one thread does all.
    """

    def __init__(self, feed: Feed, threads: int):
        self.feed, self.locate = feed, feed.locate()
        graph = feed.device.program.plans["accumulate"].graph
        self.kinds = {name: _kind(graph, name) for name in graph.updates}
        self.threads = threads if None not in self.kinds.values() else 1
        self.slots = [feed.device.twin() for _ in range(SLOTS * self.threads)] if self.threads > 1 else []
        self.pool = ThreadPoolExecutor(self.threads) if self.slots else None
        self.total, *self.parts = (State(d, self.kinds) for d in (feed.device, *self.slots))

    def accumulate(self, chosen: list[int], epoch: int, ends: Callable[[int], Sequence[int]], label: Callable) -> None:
        """Add the gradients of these samples: labels lie at `label(n)`, the outputs of the k-th go to `ends(k)`."""
        if self.pool is None:
            call = self.feed.device.bound("accumulate")
            for k, n in enumerate(chosen):
                where, _keep = self.locate(n, epoch)
                call(*where, label(n), *ends(k))
            return

        def one(job: tuple[int, int, int]) -> None:
            slot, k, n = job
            where, _keep = self.locate(n, epoch)
            self.slots[slot].bound("accumulate")(*where, label(n), *ends(k))

        for part in self.parts:
            part.follow(self.feed.device)
        for start in range(0, len(chosen), len(self.slots)):
            jobs = [(k - start, k, n) for k, n in enumerate(chosen[start : start + len(self.slots)], start)]
            for slot, _, _ in jobs:
                self.parts[slot].start(self.total, slot)
            list(self.pool.map(one, jobs))
            for slot, _, _ in jobs:
                self.total.add(self.parts[slot])
            self.total.count(len(jobs))

    def close(self) -> None:
        if self.pool:
            self.pool.shutdown()


def _kind(graph: Graph, name: str) -> str | None:
    """How a lasting value changes from sample to sample; None where the samples depend on each other."""
    if name.endswith(".sum"):
        return "sum"
    if name == "counters":
        return "events"
    made = graph.producer.get(graph.updates[name].name)
    return "step" if made is not None and made.op is count_up else None


class State:
    """The lasting values of one device that `accumulate` changes, as views into its state."""

    def __init__(self, device: HostDevice, kinds: Mapping[str, str | None]):
        layout = device.program.state
        assert layout is not None  # a program that accumulates has state
        self.bytes, offsets = device._state, layout.offsets()
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
        self.sums = [self.bytes[a:b].view(np.float32) for a, b in spans["sum"]]
        self.events = [self.bytes[a:b].view(np.int32) for a, b in spans["events"]]
        self.steps = [self.bytes[a:b].view(np.int32) for a, b in spans["step"]]

    def follow(self, device: HostDevice) -> None:
        """Take over a device's state, with sums and events at zero."""
        self.bytes[:] = device._state
        for array in (*self.sums, *self.events):
            array.fill(0)

    def start(self, total: State, index: int) -> None:
        """Count steps as the one who comes `index` samples later would."""
        for mine, theirs in zip(self.steps, total.steps):
            mine[:] = (theirs.view(np.uint32) + np.uint32(index)).view(np.int32)

    def add(self, part: State) -> None:
        for mine, theirs in zip((*self.sums, *self.events), (*part.sums, *part.events)):
            np.add(mine, theirs, out=mine)
            theirs.fill(0)

    def count(self, steps: int) -> None:
        for mine in self.steps:
            mine[:] = (mine.view(np.uint32) + np.uint32(steps)).view(np.int32)
