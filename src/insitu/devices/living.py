"""A board that lives: it keeps its own samples and learns from them. The client of those requests (docs/protocol.md).

    life = Living(device)
    id = life.observe(x, label=2)
    life.rehearse(steps=20, rate=0.01)
    life.statistics()

The device is any on a line (emulator, serial port) whose program was compiled with a store.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from insitu.codegen.device import DATA_BYTES
from insitu.data.arguments import number, whole
from insitu.devices.host import fit, zip_inputs
from insitu.devices.link import LinkDevice
from insitu.errors import DataError, DeviceError
from insitu.graph import Value
from insitu.graph.classes import checked, unknown
from insitu.terminal.wording import option

# the words of the answer to `statistics`, in order: whole numbers, then floats
COUNTS = ("next_id", "observed", "steps", "bouts", "undone", "guards", "right", "lost", "won", "usual", "kept", "phase",
          "left", "last_id", "dropped", "failures", "cuts", "erases", "continued", "guess", "wear", "wear_sum",
          "unlabelled", "trying", "checkpoints", "bank_erases")  # fmt: skip
REALS = ("loss", "confidence", "drift", "recent_confidence")
CLASS = "<IIIII32s"
RECORD = "<IhHHBB"
PHASES = ("idle", "saving", "asking the guards", "learning", "asking the guards again", "saving", "saving")
TRYING = "trying the row of a new class"  # before any of these
NONE, GUARD = -1, 1  # the label of a sample that has none yet; a flag
SLICES = 64  # of a bout, in one request
NAME_BYTES = 31  # of a class (RULES_NAME in c/device/rules.h, less its end)
COLLECT = 0.5  # from this drift on, labels of what is seen now would help


@dataclass(frozen=True)
class Kept:
    """A sample that a device keeps."""

    id: int
    label: int  # NONE: not yet known
    guard: bool
    worth: int
    uses: int


class Living:
    """The life of the program on a device."""

    def __init__(self, device: LinkDevice):
        life = device.interface.life
        if life is None:
            raise DataError("this program keeps no samples", hint=f"compile with {option(board='NAME', store='64K')}")
        self.device, self.life = device, dict(life)
        self._verb = "encode" if "encode" in device.verbs else "predict"

    @property
    def classes(self) -> int:
        return int(self.life["classes"])

    @property
    def capacity(self) -> int:
        return int(self.life["capacity"])

    # what it does -----------------------------------------------------------------------------

    def observe(self, *x: Any, label: int | str = NONE, told: bool = True) -> int:
        """Show it one sample; returns its id, or that of an equal sample that it keeps already; 0 if not `told`.
        A label is a class, by number or name."""
        device, label = self.device, self.number(label)
        with device.lock:
            values = device.verbs[self._verb][0]
            samples = [fit(v, _one(v, a)).tobytes() for v, a in zip_inputs(values, x)]
            number = device.write_inputs(self._verb, samples)
            self._ask("observe", struct.pack("<i", label), verb=number)
            return self._tried()["last_id"] if told else 0

    def _tried(self) -> dict[str, Any]:
        """The statistics once the row of a new class has been tried on every kept sample, slice by slice."""
        while left := (found := self.statistics())["trying"]:
            self._ask("rehearse", struct.pack("<IIfI", min(left, SLICES), 0, 0.0, False))
        return found

    def label(self, id: int, label: int | str) -> None:
        """The label of a sample that it keeps."""
        with self.device.lock:
            self._ask("label", struct.pack("<Ii", whole(id, "the id") & 0xFFFFFFFF, self.number(label)))
            self._tried()

    def rehearse(self, steps: int, rate: float, partial: bool = False) -> dict[str, Any]:
        """A whole bout of learning; returns the statistics after it. A class in use that has no sample to learn from is
        an error, because it would be unlearned; `partial` learns anyway."""
        with self.device.lock:
            self.begin(steps, rate, partial)
            return self.go_on()

    def begin(self, steps: int, rate: float, partial: bool = False) -> None:
        """The beginning of a bout. `go_on` does its work."""
        with self._writing():
            self.slices(0, whole(steps, "steps", 1), number(rate, "the learning rate"), partial)

    def go_on(self, seconds: float | None = None) -> dict[str, Any]:
        """Go on with a bout, to its end or for so many seconds; returns the statistics."""
        began, more = time.monotonic(), True
        with self._writing():
            while more and (seconds is None or time.monotonic() - began < seconds):
                more = self.slices(SLICES)
            return self.statistics()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Requests that write flash. Where that failed, an error says so."""
        with self.device.lock:
            before = self.statistics()["failures"]
            yield
            failed = self.statistics()["failures"] > before
        if failed:
            what = "could not write its flash: this bout was not begun, or what it learned is not saved"
            raise DeviceError(f"the device {what}", hint="statistics() counts failures; a worn page stays worn")

    def slices(self, count: int, steps: int = 0, rate: float = 0.0, partial: bool = False, told: bool = True) -> bool:
        """Some slices of a bout, or the beginning of one of so many steps. Is there more to do (if `told`)?"""
        self._ask("rehearse", struct.pack("<IIfI", count, steps, rate, partial))
        return told and self.statistics()["phase"] != 0

    def checkpoint(self) -> None:
        """Write all that it knows to flash."""
        self._ask("checkpoint")

    def rollback(self) -> None:
        """Back to the state of the last checkpoint."""
        self._ask("rollback")

    def add_class(self, name: str) -> int:
        """Take a new class; returns its number."""
        if name in self.names:
            raise DataError(f"there is a class named {name!r} already", where="add_class", hint="another name")
        (name,) = checked((name,))
        if not 0 < len(name.encode()) <= NAME_BYTES:
            raise DataError(f"must have 1 to {NAME_BYTES} bytes on a board, not {len(name.encode())}", where="its name")
        self._ask("add_class", name.encode())
        self.device.class_names = None
        return self.number(name)

    def forget(self, label: int | str) -> int:
        """Drop a class with all its samples; returns how many they were."""
        k, kept = self.number(label), self.statistics()["kept"]
        used = [i for i, c in enumerate(self.class_statistics()) if c["in_use"]]
        if used == [k]:
            raise DataError("the last class cannot be forgotten", where=str(label))
        self._ask("forget", struct.pack("<i", k))
        self.device.class_names = None
        return kept - self.statistics()["kept"]

    def forget_unlabelled(self) -> int:
        """Drop the samples that have no label; returns how many they were."""
        with self.device.lock:
            kept = self.statistics()["kept"]
            self._ask("forget", struct.pack("<i", NONE))
            return kept - self.statistics()["kept"]

    def erase(self) -> None:
        """Delete everything, also from its flash: samples, checkpoints, added classes, what it has learned."""
        with self.device.lock:
            self._ask("erase")
            self.device.class_names = None

    def number(self, label: int | str) -> int:
        """The number of a class, from its name or number."""
        if not isinstance(label, str):
            k = whole(label, "the class", NONE)
            if k >= self.classes:
                raise DataError(f"{k} is not a class", hint=f"0 to {self.classes - 1}")
            return k
        if label not in self.names:
            raise unknown(label, [name for name in self.names if name])
        return self.names.index(label)

    # what it knows ----------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes, as the device knows them; "" for a class without one."""
        if self.device.class_names is None:  # asked for once, and after each change
            self.device.class_names = tuple(c["name"] for c in self.class_statistics())
        return self.device.class_names

    def statistics(self) -> dict[str, Any]:
        """What it has done so far, and what it is doing."""
        form = f"<{len(COUNTS)}I{len(REALS)}f"
        found = self._read("statistics", struct.calcsize(form))
        return dict(zip((*COUNTS, *REALS), struct.unpack(form, found)))

    def erases(self, statistics: Mapping[str, Any]) -> int:
        """Pages of flash erased over its whole life: for samples, and for checkpoints."""
        return statistics["wear_sum"] * int(self.life.get("segment_pages", 1)) + statistics["bank_erases"]

    def class_statistics(self) -> list[dict[str, Any]]:
        """Of each class: is it in use, its samples so far, those kept to learn from and as guards, its name."""
        names = ("in_use", "labelled", "trainees", "guards", "in_mean", "name")
        found = []
        for k in range(self.classes):
            *words, name = struct.unpack(CLASS, self._read("statistics", struct.calcsize(CLASS), verb=k + 1))
            found.append(dict(zip(names, (*words, name.rstrip(b"\0").decode(errors="replace")))))
        return found

    def records(self) -> list[Kept]:
        """The samples that it keeps, in order of their ids."""
        with self.device.lock:
            count = self.statistics()["kept"] * struct.calcsize(RECORD)
            parts = [
                self.device.link.ask("records", offset=at, count=min(DATA_BYTES, count - at))
                for at in range(0, count, DATA_BYTES)
            ]
        rows = struct.iter_unpack(RECORD, b"".join(parts))
        return [Kept(id, label, bool(flags & GUARD), worth, uses) for id, label, uses, _, worth, flags in rows]

    def latents(self) -> list[bytes]:
        """What it has stored of each sample, in the same order: the outputs of the frozen layers, one after another."""
        with self.device.lock:
            return [self._latent(i, int(self.life["latent_bytes"])) for i in range(self.statistics()["kept"])]

    def _latent(self, i: int, bytes: int) -> bytes:
        parts = [(at, min(DATA_BYTES, bytes - at)) for at in range(0, bytes, DATA_BYTES)]
        return b"".join(self.device.link.ask("latents", offset=i * bytes + at, count=count) for at, count in parts)

    def asks(self, n: int = 5) -> list[int]:
        """The samples whose label would help most."""
        waiting = [r for r in self.records() if r.label == NONE]
        return [r.id for r in sorted(waiting, key=lambda r: (-r.worth, r.id))[:n]]

    # ------------------------------------------------------------------------------------------

    def _ask(self, kind: str, data: bytes = b"", verb: int = 0) -> bytes:
        with self.device.lock:
            return self.device.link.ask(kind, patience=self.device.run_timeout, verb=verb, data=data)

    def _read(self, kind: str, bytes: int, verb: int = 0) -> bytes:
        found = self._ask(kind, verb=verb)
        if len(found) != bytes:
            raise DeviceError(f"the device sent {len(found)} bytes, not {bytes}", where=kind)
        return found


def living(device: object) -> Living | None:
    """The life of the program on a device; None if it has none."""
    return Living(device) if isinstance(device, LinkDevice) and device.interface.life is not None else None


def _one(value: Value, x: Any) -> np.ndarray:
    """One sample, with or without the axis of samples."""
    x = np.asarray(x)
    x = x[None] if x.shape == value.shape[1:] else x
    if x.shape != value.shape:
        raise DataError(f"is {value.type}, but the sample has the shape {x.shape}", where=f"input {value.name}")
    return x


def outcome(statistics: Mapping[str, Any]) -> str:
    """What the last bout came to, in words."""
    if not statistics["bouts"]:
        return "no bout yet"
    if statistics["guards"] < 4:
        return f"{statistics['guards']} guards: too few to judge a bout"
    change = f"{statistics['lost']} went wrong in the last bout, {statistics['won']} went right"
    return f"{statistics['right']} of {statistics['guards']} guards right; {change}"
