"""A secure round through Flower: `SecureDeltas(FedAvg(), [learner], clip=1.0)` in place of `Deltas(...)`.

Four messages to each device: for its keys, for sealed shares of its secrets, for its masked change, and for the shares
that take the masks off the sum. Devices may leave at any point; with fewer than the threshold the round is refused and
the model stays. The inner strategy gets the mean as the reply of one device: those that compare devices are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp import strategy as flower

from insitu.errors import DataError
from insitu.federated.app import ANSWER, PHASE
from insitu.federated.checks import norm
from insitu.federated.handout import Base
from insitu.federated.noted import DOWN, UP, Dropped, Traffic, said
from insitu.federated.scored import WEIGHT
from insitu.federated.secure.device import LETTER_BYTES, model_hash
from insitu.federated.secure.numbers import FAR, as_arrays, pack_entries, read_masked, step_of, unpack_entries
from insitu.federated.secure.party import LEAST, check_roster, checked_public, least_threshold, too_few
from insitu.federated.secure.secrets import SHARE_BYTES
from insitu.federated.secure.total import bits_for, unmasked
from insitu.federated.strategy import RECORD, Deltas, as_record, field_of
from insitu.federated.strategy import as_arrays as arrays_of
from insitu.federated.units import Arrays

MEANS = (flower.FedAvg, flower.FedProx, flower.FedAvgM, flower.FedAdam, flower.FedAdagrad, flower.FedYogi)
Answers = dict[int, bytes]  # by place in the roster


@dataclass
class Asked:
    """One round: who was asked, with what, and what came back last."""

    grid: Grid
    number: int
    config: ConfigRecord
    timeout: float
    nodes: list[int]  # by place
    last: Message | None = None


@dataclass
class SecureDeltas(Deltas):
    """Deltas of which the server sees only the sum."""

    clip: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_secure(self)
        self.uniform = True

    def round(self, grid: Grid, number: int, arrays: Arrays, config: ConfigRecord, timeout: float) -> Arrays:
        base = self.handout.next(arrays)
        made = self.strategy.configure_train(number, as_record(base.arrays), config, grid)
        asked = Asked(grid, number, config, timeout, sorted(m.metadata.dst_node_id for m in made))
        self.traffic.append(Traffic(number))
        try:
            total, devices = self._sum(asked, base)
            return self._applied(asked, base, total, devices)
        except DataError as e:
            self.dropped.append(Dropped(number, 0, f"the round was refused: {e}"))
            return arrays

    def _sum(self, asked: Asked, base: Base) -> tuple[np.ndarray, list[int]]:
        """The sum of the changes, and the places of those who are in it."""
        places = range(len(asked.nodes))
        keys = self._ask(asked, "keys", {i: {} for i in places}, lambda i, data: checked_public(data).packed)
        asked.nodes, roster = [asked.nodes[i] for i in sorted(keys)], [keys[i] for i in sorted(keys)]
        threshold, bits = least_threshold(len(roster)), bits_for(len(roster))
        if len(roster) < LEAST:
            raise too_few(len(roster), LEAST)
        check_roster(roster)
        terms = {"bits": bits, "clip": self.clip}  # with the settings: the same for everybody
        wanted = {"roster": b"".join(roster), "threshold": threshold, "model": model_hash(base.packed), **terms}
        sealed = self._ask(asked, "letters", dict.fromkeys(range(len(roster)), wanted), _letters_for(len(roster)))
        told = {i: {"base": self.handout.blob_for(asked.nodes[i]), "letters": _for(i, sealed), **terms} for i in sealed}
        program = next(iter(self.programs.values()))
        masked = self._ask(asked, "sum", told, lambda i, data: read_masked(data, bits, program, base.id))
        for i in masked:
            self.handout.has(asked.nodes[i])
        if len(masked) < threshold:
            raise too_few(len(masked), threshold)
        alive = {"alive": pack_entries(dict.fromkeys(masked, b""))}
        shares = self._ask(asked, "reveal", dict.fromkeys(masked, alive), lambda i, d: unpack_entries(d, SHARE_BYTES))
        return unmasked(masked, roster, sorted(sealed), shares, threshold, bits), sorted(masked)

    def _ask(self, asked: Asked, phase: str, told: Mapping[int, Mapping[str, Any]], read) -> dict[int, Any]:
        """One message to each of these places; answers that cannot be read are dropped."""
        config, place = dict(asked.config), {asked.nodes[i]: i for i in told}
        messages = [Message(RecordDict({RECORD: ConfigRecord({**config, **told[i], PHASE: phase})}), asked.nodes[i],
                            MessageType.TRAIN, group_id=str(asked.number)) for i in told]  # fmt: skip
        for i, each in told.items():
            self.traffic[-1].count(asked.nodes[i], DOWN, sum(len(v) for v in each.values() if isinstance(v, bytes)))
        found: dict[int, Any] = {}
        for reply in self.answers(asked.grid, messages, asked.timeout):
            try:
                i = place[reply.metadata.src_node_id]
                if i in found:
                    raise DataError("answers twice")
                found[i] = read(i, self._answer(reply))
                asked.last = reply
            except (DataError, KeyError) as e:
                self.dropped.append(Dropped(asked.number, reply.metadata.src_node_id, f"{phase}: {e}"))
        return dict(sorted(found.items()))

    def _answer(self, reply: Message) -> bytes:
        if reply.has_error():
            raise DataError(f"the device reports: {said(reply.error.reason)}")
        data = field_of(reply, ANSWER)
        if not isinstance(data, bytes):
            raise DataError("is missing", where="answer")
        self.traffic[-1].count(reply.metadata.src_node_id, UP, len(data))
        return data

    def _applied(self, asked: Asked, base: Base, total: np.ndarray, devices: list[int]) -> Arrays:
        """The model after the mean change, through the inner strategy."""
        program, step = next(iter(self.programs.values())), step_of(self.clip, self.noise)
        mean = as_arrays(total / len(devices), program, step)
        self._check(mean, len(devices))
        traffic = self.traffic[-1]
        traffic.replies, traffic.who = len(devices), [_who(asked.nodes[i]) for i in devices]
        moved = {name: base.arrays[name] + mean[name] for name in base.arrays}
        assert asked.last is not None  # somebody answered
        metrics = MetricRecord({WEIGHT: len(devices), "train-loss": 0.0})
        asked.last.content = RecordDict({"arrays": as_record(moved), "metrics": metrics})
        found, _ = self.strategy.aggregate_train(asked.number, [asked.last])
        whole = self.whole(found)
        return arrays_of(whole) if whole is not None else base.arrays

    def _check(self, mean: Arrays, devices: int) -> None:
        """Honest devices cannot move the model further than their bound. Who lies is not seen, only that one does."""
        count, noise = sum(a.size for a in mean.values()), self.noise.multiplier if self.noise else 0.0
        spread = noise * (count**0.5 + FAR) / devices**0.5  # of the norm of the mean noise, and FAR deviations more
        most = self.clip * (1 + spread) + step_of(self.clip, self.noise) * count**0.5
        if not norm(mean) <= most:
            raise DataError(f"the mean moves the model by {norm(mean):.3g}, honest devices by {most:.3g} at most")


def _who(node: int) -> dict:
    return {"node": node, "samples": 0, "program": 0, "left_out": []}


def _letters_for(devices: int) -> Callable[[int, object], dict[int, bytes]]:
    """Reads the letters of a device: one to each other device."""

    def read(place: int, data: object) -> dict[int, bytes]:
        found = unpack_entries(data, LETTER_BYTES)
        if set(found) != set(range(devices)) - {place}:
            raise DataError("not one letter to each other device")
        return found

    return read


def _for(place: int, sealed: Mapping[int, Mapping[int, bytes]]) -> bytes:
    """The letters to one device, by their senders."""
    return pack_entries({i: letters[place] for i, letters in sealed.items() if place in letters and i != place})


def check_secure(strategy: Deltas) -> None:
    """Refuse what needs to see single changes."""
    name = type(strategy.strategy).__name__
    if type(strategy.strategy) not in MEANS:
        known = ", ".join(kind.__name__ for kind in MEANS)
        raise DataError(f"{name} needs to see single devices' changes, which secure aggregation hides", hint=known)
    if len(strategy.programs) != 1:
        raise DataError("devices with unlike schemes cannot be summed under masks", hint="one scheme for all devices")
