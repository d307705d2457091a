"""What a fleet exchanges: every tensor that one of its programs trains, whatever scheme each device has.

A device that trains some channels of a weight and one that trains all of it meet in one tensor, which has the channels
that anybody trains. `part` is what a device needs of it, `put` writes what it learned back. A device knows only its own
program: a server with several tells it what the others train (`text`, `catalogue_in`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from insitu.errors import DataError
from insitu.federated.units import PART, Arrays, Unit, to_real, units_of
from insitu.graph import Graph
from insitu.ops.channels import rest_of
from insitu.terminal.wording import either, option
from insitu.training.low_rank import factored

Program = tuple[Unit, ...]  # the units of one program


@dataclass(frozen=True)
class Tensor:
    """One exchanged tensor: of these channels of the whole parameter, or of all if there are none listed."""

    name: str
    whole: tuple[int, ...]
    channels: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.whole[:-1], len(self.channels)) if self.channels else self.whole

    def _columns(self, unit: Unit) -> list[int] | None:
        """Where a unit's channels are here; None: it has all of them."""
        if unit.channels == self.channels:
            return None
        place = {c: i for i, c in enumerate(self.channels or range(self.whole[-1]))}
        return [place[c] for c in unit.channels or range(self.whole[-1])]

    def part(self, unit: Unit, array: np.ndarray) -> np.ndarray:
        columns = self._columns(unit)
        return array if columns is None else array[..., columns]

    def put(self, unit: Unit, part: np.ndarray, array: np.ndarray) -> None:
        columns = self._columns(unit)
        if columns is None:
            array[...] = part
        else:
            array[..., columns] = part


@dataclass(frozen=True)
class Catalogue:
    """The tensors of a fleet by name, and the names of layers whose tensors stay on their device."""

    tensors: dict[str, Tensor]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: t.shape for name, t in self.tensors.items()}

    @property
    def text(self) -> str:
        """As a server tells it to devices."""
        return json.dumps([[t.name, t.whole, t.channels] for t in self.tensors.values()], separators=(",", ":"))

    def part(self, units: Iterable[Unit], arrays: Mapping[str, np.ndarray]) -> Arrays:
        """What a program needs of the fleet's arrays."""
        return {u.name: np.ascontiguousarray(self.tensors[u.name].part(u, arrays[u.name])) for u in units}

    def mask(self, units: Iterable[Unit]) -> Arrays:
        """name -> which numbers of the fleet's tensors a program trains."""
        found = {name: np.zeros(t.shape, bool) for name, t in self.tensors.items()}
        for u in units:
            self.tensors[u.name].put(u, np.ones((), bool), found[u.name])
        return found

    def whole(self, units: Iterable[Unit], part: Mapping[str, np.ndarray]) -> Arrays:
        """The fleet's tensors with what a program has of them, and zeros elsewhere."""
        found = {name: np.zeros(t.shape, np.float32) for name, t in self.tensors.items()}
        for u in units:
            self.tensors[u.name].put(u, part[u.name], found[u.name])
        return found


MOST_TEXT, MOST_NUMBERS = 1 << 20, 1 << 26  # of a catalogue that a server may tell


def catalogue_in(text: object, units: Program) -> Catalogue:
    """The catalogue that a server tells a device with these units; a DataError if it is not one, or not theirs."""
    try:
        if not isinstance(text, str) or len(text) > MOST_TEXT:
            raise ValueError("is too long, or no text")
        found = {str(n): Tensor(str(n), tuple(map(int, w)), tuple(map(int, c))) for n, w, c in json.loads(text)}
        if any(min(t.whole, default=1) < 1 or not _ascending(t) for t in found.values()):
            raise ValueError("has a tensor that cannot be")
        if sum(prod(t.whole) for t in found.values()) > MOST_NUMBERS:
            raise ValueError("has too many numbers")
    except (ValueError, TypeError, RecursionError) as e:
        raise DataError(f"what the fleet exchanges is damaged: {e}", where="server") from e
    for u in units:
        t = found.get(u.name)
        if t is None or t.whole != u.shape or not _has(t, u):
            raise DataError(f"the fleet does not exchange {u.name} as this device has it", where="server",
                            hint="a learner of its model, with a scheme that it was given too")  # fmt: skip
    return Catalogue(dict(sorted(found.items())))


def _ascending(t: Tensor) -> bool:
    """Are its channels some of those that there are, each once, in order?"""
    rising = all(a < b for a, b in zip(t.channels, t.channels[1:]))
    return rising and (not t.channels or (t.channels[0] >= 0 and t.channels[-1] < t.whole[-1]))


def _has(t: Tensor, u: Unit) -> bool:
    return not t.channels or (bool(u.channels) and set(u.channels) <= set(t.channels))


def exchanged(units: Iterable[Unit], personal: Sequence[str] = ()) -> Program:
    """The units that leave the device: those of personal layers (names, or beginnings of them) do not."""
    kept = tuple(u for u in units if not any(_belongs(u.name, p) for p in personal))
    if not kept:
        raise DataError(f"everything is personal: {', '.join(personal)}", hint="exchange at least one layer")
    _check_whole(kept)
    return kept


def _check_whole(units: Program) -> None:
    """A DataError for low-rank updates: a fleet would average factors, and their product would be no average."""
    weight = next(iter(factored(u.name for u in units)), None)
    if weight is not None:
        layer = weight.rpartition(".")[0]
        what = "has a low-rank update, and the mean of factors is not the mean of what they add to the weight"
        ways = either(shell=f"--personal {layer}", python=f'personal=["{layer}"]')
        raise DataError(what, where=layer, hint=f"{option(scheme='last:2')}, or keep it on its device: {ways}")


def _belongs(name: str, layer: str) -> bool:
    return name == layer or name.startswith(f"{layer}.")


def check_personal(graphs: Mapping[str, Graph], personal: Iterable[str]) -> None:
    """A DataError if the model has no such layer: what was meant to stay on the device would be sent."""
    names = {name for g in graphs.values() for name in g.values}
    for layer in personal:
        if not any(_belongs(name, layer) for name in names):
            known = sorted({u.name.rpartition(".")[0] for u in units_of(graphs)})
            raise DataError(f"the model has no layer {layer!r}", where="personal", hint=", ".join(known))


def catalogue_of(programs: Iterable[Program]) -> Catalogue:
    """The tensors that any of these programs trains."""
    found: dict[str, Tensor] = {}
    for units in programs:
        for u in units:
            found[u.name] = _joined(found.get(u.name), u)
    return Catalogue(dict(sorted(found.items())))


def _joined(tensor: Tensor | None, u: Unit) -> Tensor:
    if tensor is None:
        return Tensor(u.name, u.shape, u.channels)
    if tensor.whole != u.shape:
        raise DataError(f"has the shapes {tensor.whole} and {u.shape}", where=u.name, hint="one model for all devices")
    channels = tuple(sorted({*tensor.channels, *u.channels})) if tensor.channels and u.channels else ()
    return Tensor(u.name, u.shape, () if len(channels) == u.shape[-1] else channels)


def first_arrays(catalogue: Catalogue, programs: Sequence[tuple[Program, Mapping[str, Graph], Arrays]]) -> Arrays:
    """The fleet's arrays at the start, from the programs' graphs and states: all come from the same model."""
    found: Arrays = {}
    for name, tensor in catalogue.tensors.items():
        units, graphs, state = next(p for p in programs if name in {u.name for u in p[0]})
        u = next(u for u in units if u.name == name)
        whole = whole_parameter(u, graphs, to_real([u], state)[name])
        found[name] = np.ascontiguousarray(whole[..., list(tensor.channels)] if tensor.channels else whole)
    return found


def whole_parameter(u: Unit, graphs: Mapping[str, Graph], part: np.ndarray) -> np.ndarray:
    """A parameter with its frozen channels, in real units."""
    if not u.channels:
        return part
    fixed = f"{u.value.name.removesuffix(PART)}.fixed"
    graph = next(g for g in graphs.values() if fixed in g.constants)
    kind, whole = graph.values[fixed].type, np.zeros(u.shape, np.float32)
    scales = 1.0 if kind.quant is None else kind.quant.scales(kind.rank)
    whole[..., rest_of(u.channels, u.shape[-1])] = graph.constants[fixed] * scales
    u.put(whole, part)
    return whole
