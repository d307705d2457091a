"""The scheme with the largest summed gain within a budget: exact, as a small integer program (scipy's HiGHS).

One yes-or-no variable for every bias, every share of every weight, and for every layer that could be the first trained
one: that layer decides how far gradients go back. State is exactly additive. The arena is estimated by what a step must
hold at once (`Model`). Whether a scheme really fits is asked for afterwards (`measure`), and the estimate is corrected
by the answer. evolve.py is another way to the same goal, for comparison.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np

from insitu.errors import needs
from insitu.schemes.contribution import Contribution, Gain
from insitu.schemes.cost import Bytes, input_bytes, mask_sums
from insitu.schemes.ladder import highest, rungs
from insitu.schemes.layers import Layer
from insitu.schemes.update import Scheme, Update

ROUNDS = 4  # plans for one budget and one kind of estimate, at most
MORE = 16  # a part of the budget to try beyond the estimate, as long as nothing has shown how far it is off
FARTHEST = 2  # times the budget: an estimate above it has nothing left to offer
FINE = 64  # a part of the budget that is not worth another plan
LESS = 8  # a part of the budget to give up if instructions or flash are short
HEAD = Scheme("head", ())
SECONDS = 20.0  # for one solution
PLAIN = Bytes()
ELEMENT = 2  # bytes of a gradient's element, 16-bit


@dataclass(frozen=True)
class Need:
    """What a scheme really needs: SRAM and flash in bytes, instructions of one step."""

    sram: int
    flash: int = 0
    instructions: int = 0

    def within(self, budget: Need) -> bool:
        """0 in a budget: no limit."""
        pairs = zip((self.sram, self.flash, self.instructions), (budget.sram, budget.flash, budget.instructions))
        return all(not most or need <= most for need, most in pairs)

    def less(self, need: Need, estimate: Need) -> Need:
        """This budget without what a program needs beyond its estimate: what was too large is not found in it again."""
        return Need(
            _less(self.sram, need.sram - estimate.sram),
            _less(self.flash, need.flash - estimate.flash),
            _less(self.instructions, need.instructions - estimate.instructions),
        )


def _less(most: int, over: int) -> int:
    """A limit without so much; no limit stays none."""
    return max(1, most - max(0, over)) if most else 0


Measure = Callable[[Scheme, Need], Need | None]  # of a program for this budget; None: it cannot be trained


@dataclass(frozen=True)
class Part:
    """A thing that can be chosen: the bias of a layer (share 0) or a share of its weight."""

    at: int  # the layer's place
    share: Fraction
    gain: float
    state: int
    held: int  # bytes of the layer's input that a step keeps

    def onto(self, u: Update) -> Update:
        return Update(u.layer, u.bias or not self.share, self.share or u.share)


@dataclass(frozen=True, eq=False)
class Model:
    """The additive model of a network: parts with their gain and bytes, and what the depth of training costs."""

    layers: list[Layer]
    table: Contribution
    each: Bytes = PLAIN
    beyond: tuple[int, ...] = ()  # for each first trained layer, the bytes beyond the estimate that plans have shown

    @cached_property
    def parts(self) -> list[Part]:
        found = []
        for at, layer in enumerate(self.layers):
            gain = self.table.gains.get(layer.name, Gain())
            if gain.bias > 0 and layer.bias is not None:
                found.append(Part(at, Fraction(0), gain.bias, self.each.bias(layer), 0))
            found += [
                Part(at, share, worth, self.each.weight(layer, share), input_bytes(layer, share))
                for share, worth in sorted(gain.shares.items())
                if worth > 0
            ]
        return found

    @cached_property
    def depths(self) -> list[int]:
        """For each first trained layer: masks from there on, and the largest gradient that passes through."""
        masks, found, most = mask_sums(self.layers), [], 0
        for layer in reversed(self.layers):
            node = layer.node
            most = max(most, ELEMENT * max(node.inputs[0].type.size, node.output.type.size))
            found.append(masks[layer.name] + most)
        return [depth + more for depth, more in zip_longest(found[::-1], self.beyond, fillvalue=0)]

    @cached_property
    def everything(self) -> list[int]:
        """All biases, and the largest share of each weight."""
        return sorted({(part.at, part.share > 0): k for k, part in enumerate(self.parts)}.values())

    @cached_property
    def rungs(self) -> list[list[int]]:
        """The parts of each rung of the ladder that this table makes, from none to all there are."""
        parts = {(self.layers[part.at].name, part.share): k for k, part in enumerate(self.parts)}
        found, done = [[]], dict[tuple[str, bool], int]()
        for step in rungs(self.layers, self.table, self.each):
            if (step.layer, step.share) in parts:
                done[step.layer, step.share > 0] = parts[step.layer, step.share]
                found.append(sorted(done.values()))
        return found if found[-1] == self.everything else [*found, self.everything]

    def scheme(self, chosen: Sequence[int], name: str = "found") -> Scheme:
        done: dict[int, Update] = {}
        for k in chosen:
            part = self.parts[k]
            done[part.at] = part.onto(done.get(part.at, Update(self.layers[part.at].name, bias=False)))
        return Scheme(name, tuple(done[at] for at in sorted(done)))

    def gain(self, chosen: Sequence[int]) -> float:
        return sum(self.parts[k].gain for k in chosen)

    def state(self, chosen: Sequence[int]) -> int:
        return sum(self.parts[k].state for k in chosen)

    def first(self, chosen: Sequence[int]) -> int:
        """The place of the first trained layer."""
        return min(self.parts[k].at for k in chosen)

    def bytes(self, chosen: Sequence[int], floor: int) -> int:
        """State and arena, estimated; `floor` is the arena of the forward pass alone."""
        if not chosen:
            return floor
        held = sum(self.parts[k].held for k in chosen) + self.depths[self.first(chosen)]
        return self.state(chosen) + max(floor, held)


def solve(model: Model, sram: int, floor: int) -> list[int]:
    """The parts with the largest summed gain whose estimated bytes are at most `sram`. Deterministic."""
    tool, count, depth = _scipy(), len(model.parts), len(model.layers)
    if not count or sram <= floor:
        return []
    gains = np.array([p.gain for p in model.parts])
    gains = gains / gains.max() + 1e-9 * np.arange(count, 0, -1)  # of equal ones, the earlier
    rows, most = zip(*_rows(model, sram, floor))
    with _quiet():
        found = tool.milp(
            np.concatenate([-gains, np.zeros(depth)]), integrality=np.ones(count + depth), bounds=tool.Bounds(0, 1),
            constraints=tool.LinearConstraint(np.array(rows), -np.inf, np.array(most)),
            options={"time_limit": SECONDS, "mip_rel_gap": 1e-6},
        )  # fmt: skip
    return [] if found.x is None else [k for k in range(count) if found.x[k] > 0.5]


def _rows(model: Model, sram: int, floor: int) -> Iterator[tuple[np.ndarray, float]]:
    """The limits, as rows over all parts and then all first layers, and what a row may add up to."""
    parts, depth = model.parts, len(model.layers)
    state, held = (np.array([getattr(p, name) for p in parts], float) for name in ("state", "held"))
    at, weight = np.array([p.at for p in parts]), np.array([p.share > 0 for p in parts])
    none, places = np.zeros(depth), np.arange(depth)
    yield np.concatenate([state, none]), sram - floor
    yield np.concatenate([state + held, np.array(model.depths, float)]), sram
    yield np.concatenate([np.zeros(len(parts)), none + 1]), 1
    for k in range(len(parts)):  # a part needs a first layer at its place or before
        yield np.concatenate([np.arange(len(parts)) == k, -1.0 * (places <= at[k])]), 0
    for place in places:  # one share per weight
        yield np.concatenate([(at == place) & weight, none]), 1


@contextmanager
def _quiet() -> Iterator[None]:
    """HiGHS, as some versions of scipy bring it, prints to stdout whatever its options say; results go there."""
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
        flush(None)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _scipy() -> Any:
    try:
        from scipy import optimize
    except ImportError:
        raise needs("scipy", "search", "a search for schemes") from None
    return optimize


# against the real planner -----------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """A scheme, its gain by the table, and what it really needs."""

    scheme: Scheme
    gain: float
    need: Need


@dataclass(eq=False)
class Rooms:
    """How many bytes the estimate may reach, narrowed down: what fits, or brings nothing, is too small."""

    budget: int
    first: int
    usual: int  # if the estimate were exact
    low: int = 0
    high: int | None = None
    wanted: int | None = None

    def next(self) -> int | None:
        """The room to try; None if what is left to find is not worth a plan."""
        if self.high is None:
            return max(self.first, 0) if self.wanted is None else self.wanted
        if self.high - self.low <= self.budget // FINE:
            return None
        near = self.wanted is not None and self.low < self.wanted < self.high
        return self.wanted if near else (self.low + self.high) // 2

    def too_small(self, room: int) -> None:
        more = max(self.budget // MORE, room - self.low)  # twice as far each time
        self.low = max(self.low, room)
        if self.high is not None:
            self.wanted = None
        elif room > FARTHEST * self.budget:
            self.high = self.low  # whatever there is to train was chosen
        else:
            self.wanted = max(self.usual, room + more)

    def too_large(self, room: int, corrected: int) -> None:
        self.high, self.wanted = room, corrected


@dataclass(eq=False)
class Search:
    """Searches of one network: what measuring taught about the estimate is kept from budget to budget.

    measure     what a scheme needs: less than the budget if it fits, else the least that it can do with
    floor       bytes of arena that the forward pass needs anyhow
    """

    model: Model
    measure: Measure
    floor: int = 0
    error: int = 0  # bytes that schemes need beyond their estimate
    errors: dict[int, int] = field(default_factory=dict)  # the same, by the place of the first trained layer
    found: list[Found] = field(default_factory=list)  # what fitted an earlier budget

    @cached_property
    def head(self) -> Need | None:
        return self.measure(HEAD, Need(0))

    def best(self, budget: Need) -> Found | None:
        """The best scheme that really fits the budget, as far as a few plans tell; None if not even the head does."""
        if self.head is None or not self.head.within(budget):
            return None
        base = self.head.sram - self.floor  # what is not in the model: the head, stack, protocol
        usual = budget.sram - base
        highest(len(self.model.rungs), lambda number: self._fits(self.model.rungs[number], base, budget))
        known = [f for f in self.found if f.need.within(budget)]
        best = max([Found(HEAD, 0.0, self.head), *known], key=lambda f: f.gain)
        best = self._better(best, self.model, Rooms(budget.sram, usual - self.error, usual), base, budget)
        return self._better(best, self.corrected, Rooms(budget.sram, usual, usual), base, budget)

    def _better(self, best: Found, model: Model, rooms: Rooms, base: int, budget: Need) -> Found:
        """The best scheme that a few solutions of this model find, if it is better than this one."""
        tried = set[tuple[int, ...]]()
        while len(tried) < ROUNDS and (room := rooms.next()) is not None:
            chosen = solve(model, room, self.floor)
            if tuple(chosen) in tried or model.gain(chosen) <= best.gain:
                rooms.too_small(room)
                continue
            tried.add(tuple(chosen))
            need = self._needs(chosen, base, budget)
            if need is not None and need.within(budget):
                best = self.found[-1]
                rooms.too_small(room)
            else:
                less = model.bytes(chosen, self.floor) - _over(need, budget)
                rooms.too_large(room, less)
                if model is self.model:
                    self.error = budget.sram - base - less
        return best

    def _fits(self, rung: list[int], base: int, budget: Need) -> bool:
        """Does this rung of the ladder fit? The head alone does, and what has no room for its state is not planned."""
        if not rung or any(f.scheme == self.model.scheme(rung) and f.need.within(budget) for f in self.found):
            return True
        need = self._needs(rung, base, budget) if self.model.state(rung) < budget.sram - base else None
        return need is not None and need.within(budget)

    def _needs(self, chosen: list[int], base: int, budget: Need) -> Need | None:
        """What a program needs; it is kept if it fits, and how far the estimate is off.

        One that fits was only made as small as it had to be, so its estimate may be off by less."""
        scheme = self.model.scheme(chosen)
        need = self.measure(scheme, budget)
        if need is not None:
            self.errors[self.model.first(chosen)] = need.sram - base - self.model.bytes(chosen, self.floor)
            if need.within(budget):
                self.found.append(Found(scheme, self.model.gain(chosen), need))
        return need

    @property
    def corrected(self) -> Model:
        """The model with what was learned for each first trained layer; between two that are known, on a line."""
        known, places = sorted(self.errors.items()), range(len(self.model.layers))
        at, beyond = zip(*known) if known else ((0,), (0,))
        return replace(self.model, beyond=tuple(np.interp(places, at, beyond).round().astype(int).tolist()))

    def front(self, budgets: Sequence[Need]) -> list[Found]:
        """The best scheme for each budget, without those that another one beats in both gain and SRAM."""
        return not_beaten([f for budget in budgets if (f := self.best(budget))])


def _over(need: Need | None, budget: Need) -> int:
    """The bytes by which a scheme is too large; if something else than SRAM is short, less of everything must do."""
    return budget.sram // LESS if need is None or need.sram <= budget.sram else need.sram - budget.sram


def not_beaten(found: Sequence[Found]) -> list[Found]:
    kept: list[Found] = []
    for f in sorted(found, key=lambda f: (f.need.sram, -f.gain)):
        if not kept or f.gain > kept[-1].gain:
            kept.append(f)
    return kept
