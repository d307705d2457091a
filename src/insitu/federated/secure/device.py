"""A device's answers to the four messages of a secure round. Its secrets stay in its own context."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from insitu.errors import DataError
from insitu.federated.account import check_budget
from insitu.federated.catalogue import Catalogue
from insitu.federated.delta import base_hash
from insitu.federated.member import Member, Task
from insitu.federated.secure.numbers import (
    as_numbers,
    bounded,
    pack_entries,
    step_of,
    unpack_entries,
    write_masked,
)
from insitu.federated.secure.party import Party
from insitu.federated.secure.secrets import SECRET_BYTES, SHARE_BYTES
from insitu.federated.secure.total import bits_for

LETTER_BYTES = 2 * SHARE_BYTES + 16  # two shares and the tag
Kept = MutableMapping[str, bytes]  # the device's own
MOST_REVEALED = 4096  # models that a device remembers having answered for
OWN = ("phase", "base", "model", "roster", "threshold", "letters", "alive")  # of one message; the rest are terms


def answered(phase: str, settings: Mapping[str, Any], member: Member, catalogue: Catalogue, task: Task,
             kept: Kept) -> bytes:  # fmt: skip
    """The answer to one of the four messages."""
    if phase not in PHASES:
        raise DataError(f"no such message: {phase}", where="secure aggregation")
    party = Party.new() if phase == "keys" else Party.keep(kept["party"]) if "party" in kept else None
    if party is None:
        raise DataError("this device has no part in this round", where="secure aggregation")
    answer = PHASES[phase](party, settings, member, catalogue, task)
    kept["party"] = party.kept()
    if party.revealed:
        del kept["party"]  # nobody who takes the device later finds the secrets of its rounds
    return answer


def terms_of(settings: Mapping[str, Any], model: bytes) -> bytes:
    """A hash of all that decides what a device answers: the model (its whole hash), the bound, and how to learn."""
    told = {name: v for name, v in sorted(settings.items()) if name not in OWN}
    return hashlib.sha256(model + json.dumps(told, default=bytes.hex).encode()).digest()


def model_hash(packed: bytes) -> bytes:
    """Of a base; not cut short: a server could make two bases that share eight bytes."""
    return hashlib.sha256(packed).digest()


def _keys(party: Party, *_: Any) -> bytes:
    return party.public.packed


def _letters(party: Party, settings: Mapping[str, Any], *_: Any) -> bytes:
    roster = unpack_roster(settings["roster"])
    check_numbers(float(settings["clip"]), int(settings["bits"]), len(roster))
    terms = terms_of(settings, bytes(settings["model"]))
    return pack_entries(party.letters(roster, int(settings["threshold"]), terms))


def check_numbers(clip: float, bits: int, devices: int) -> None:
    """Refuse numbers in which a sum could wrap or not be told."""
    if not 0 < clip < float("inf") or bits != bits_for(devices):
        raise DataError(
            f"a bound of {clip:g} and {bits} bits are not for {devices} devices", where="secure aggregation"
        )


def unpack_roster(data: bytes) -> list[bytes]:
    each = 2 * SECRET_BYTES
    return [data[at : at + each] for at in range(0, len(data), each)]


def _sum(party: Party, settings: Mapping[str, Any], member: Member, catalogue: Catalogue, task: Task) -> bytes:
    """Learn, bound the change, and mask it. Neither loss nor samples are told."""
    clip, bits = float(settings["clip"]), int(settings["bits"])
    if member.secure is None:
        raise DataError("this device does not know of secure aggregation", where="secure aggregation")
    party.check_terms(terms_of(settings, model_hash(settings["base"])))
    party.model = base_hash(settings["base"])
    _check_new(party, member)
    check_budget(member.account, member.noise, member.budget)
    letters = unpack_entries(settings["letters"], LETTER_BYTES)
    lesson = member.learn(settings["base"], catalogue, task)
    change = {name: a - lesson.base[name] for name, a in lesson.learned.items()}
    small = bounded(change, min(clip, member.secure), member.noise)
    wanted = {name: a + member.sender.left.get(name, 0) for name, a in small.items()}
    numbers, left = as_numbers(wanted, member.units, step_of(clip, member.noise))
    masked = party.masked(numbers, letters, bits)
    member.account = member.account.after()
    member.sender.left = left
    return write_masked(masked, bits, member.units, settings["base"])


def _check_new(party: Party, member: Member) -> None:
    """Refuse a model whose sum this device has helped to unmask: two sums that differ by one device show its change."""
    if party.model in member.revealed:
        raise DataError("this device has answered for this model already", where="secure aggregation")


def _reveal(party: Party, settings: Mapping[str, Any], member: Member, *_: Any) -> bytes:
    _check_new(party, member)  # again: another round with the same model may have ended meanwhile
    shares = party.reveal(list(unpack_entries(settings["alive"], 0)))
    member.revealed = [*member.revealed, party.model][-MOST_REVEALED:]
    return pack_entries(shares)


PHASES: dict[str, Callable[..., bytes]] = {"keys": _keys, "letters": _letters, "sum": _sum, "reveal": _reveal}
