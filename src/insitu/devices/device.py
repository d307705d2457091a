"""The interface of every device, wherever it runs: a program with its state, which predicts and can be trained.

    with open_emulator(program, "nrf52840") as device:
        device.train(Updates((x, y), order=range(len(x)), rates=[0.01] * len(x)))
        device.predict(x)

The host (host.py), an emulated core (emulator.py), QEMU (qemu.py), a board on a serial port (serial.py) and a process
(process.py) all implement it; a test written against this interface runs on each of them. The device decides how
samples get there: by address on the host, in frames over a line. The learner decides which samples, how often and how
fast (learner/loop.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from insitu.errors import DataError, DeviceError, GraphError
from insitu.graph import Value
from insitu.terminal.wording import either

Arrays = tuple[np.ndarray, ...]
Values = tuple[Value, ...]
Verbs = Mapping[str, tuple[Values, Values]]  # name -> inputs, outputs
STEP = "train_step"


@dataclass(frozen=True, eq=False)
class Updates:
    """Updates to make one after the other, of `batch` samples each; the last may have fewer if gradients add up."""

    arrays: Arrays  # inputs, then labels or targets: each [samples, ...], with the bytes of a sample contiguous
    order: Sequence[int] | np.ndarray  # the indices of the samples, in this order
    rates: Sequence[float]  # of each update
    batch: int = 1
    threads: int | None = None  # to use over the samples of a batch; any number gives the same bytes

    def groups(self) -> Iterator[tuple[int, Sequence[int] | np.ndarray, float]]:
        """For each update: its position in the order, its samples, its rate."""
        for i, first in enumerate(range(0, len(self.order), self.batch)):
            yield first, self.order[first : first + self.batch], self.rates[i]


@dataclass(frozen=True, eq=False)
class Trained:
    """The results of updates for each of their samples, in order, just before it was learned from."""

    losses: np.ndarray  # float32; samples that are taken at once share their mean
    outputs: Arrays
    threads: int = 1  # that were used


class Counter(Protocol):
    """Additional methods of a device that counts instructions."""

    def measure(self, verb: str, *inputs: Any) -> tuple[Arrays, dict[str, int]]:
        """Run a verb once; returns its outputs, and the instructions of each layer, which `counted` also returns."""
        ...

    def counted(self) -> dict[str, dict[str, int]]:
        """Verb -> layer -> instructions: of the call of each verb that took most, or of the last measured one."""
        ...

    def stack_bytes(self) -> int:
        """The maximum depth of the stack."""
        ...


def more_of(known: dict[str, int] | None, found: dict[str, int]) -> dict[str, int]:
    """The instructions of the call that took more, by layer."""
    return known if known and sum(known.values()) >= sum(found.values()) else found


class Device(Protocol):
    """A program that runs somewhere. After `close`, calls that need it to run are a DeviceError."""

    @property
    def verbs(self) -> Verbs:
        """The program's functions: name -> inputs, outputs."""
        ...

    @property
    def counter(self) -> Counter | None:
        """For devices that count instructions; None for the others."""
        ...

    @property
    def quick(self) -> bool:
        """Does a call take well under a millisecond, as far as is known before it is made?"""
        ...

    def info(self) -> dict[str, int]:
        """arena_bytes, state_bytes, and whatever else this device knows about itself."""
        ...

    def predict(self, *inputs: Any) -> Any:
        """The outputs for these inputs, any number of samples: one array, or a tuple of them."""
        ...

    def run(self, verb: str, *inputs: Any) -> Arrays:
        """Run a function of the program, several times if there are more samples than it takes."""
        ...

    def train(self, updates: Updates) -> Trained:
        """Make these updates."""
        ...

    def counters(self) -> dict[str, int]:
        """Updates skipped, clipped and saturated so far."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """A copy of everything persistent, by name."""
        ...

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set these persistent values; those that are not named stay."""
        ...

    def save_state(self) -> bytes:
        """The state as written by the program's own `save`: the same bytes on every device."""
        ...

    def load_state(self, data: bytes) -> None:
        """Load a saved state; a wrong or damaged one is an error and changes nothing."""
        ...

    def reset(self) -> None:
        """Back to the program's initial state."""
        ...

    def close(self) -> None:
        """Release what the device owns: a port, a process, memory. May be called twice."""
        ...

    def __enter__(self) -> Device: ...

    def __exit__(self, *_: object) -> None: ...


def closed(what: str) -> DeviceError:
    """The error for a device that was closed."""
    return DeviceError("is closed", where=what, hint="open it again: on(...) of a learner, or the open_... you called")


# how a program learns ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """How a program takes its samples: one update per call, or gradients that add up until they are applied."""

    verb: str  # train_step, or accumulate; learn, from latents
    samples: int  # that a call takes
    loss: Value
    outputs: Values  # beside the loss

    @property
    def adds_up(self) -> bool:
        return self.verb == "accumulate"

    def results(self, count: int) -> Trained:
        """Room for the results of this many samples."""
        outputs = tuple(np.zeros((count, *v.shape[1:]), v.type.numpy) for v in self.outputs)
        return Trained(np.zeros(count, np.float32), outputs)


def method_of(verbs: Verbs) -> Method:
    """How this program learns."""
    verb = next((v for v in ("accumulate", "train_step", "learn") if v in verbs), None)
    if verb is None:
        hint = either(shell="insitu compile MODEL", python="insitu.compile(...)")
        raise GraphError("this program only predicts: it cannot be trained", hint=f"{hint} makes one that learns")
    inputs, (loss, *outputs) = verbs[verb]
    return Method(verb, inputs[0].shape[0], loss, tuple(outputs))


def check_updates(method: Method, updates: Updates) -> None:
    """Raise an error if the program cannot take its samples in such batches."""
    if method.adds_up:
        return
    if updates.batch != method.samples or len(updates.order) % method.samples:
        what = f"this program takes {method.samples} samples per update, not {len(updates.order)} in {updates.batch}s"
        raise DataError(what, where="train")


def train_by_calls(device: Device, updates: Updates) -> Trained:
    """Make updates using only `run`: for devices on a line."""
    method = method_of(device.verbs)
    check_updates(method, updates)
    found = method.results(len(updates.order))
    for first, chosen, rate in updates.groups():
        if not method.adds_up:
            _keep(found, first, len(chosen), run_step(device, STEP, *_taken(updates, chosen), np.float32(rate)))
            continue
        for k, n in enumerate(chosen, first):
            _keep(found, k, 1, device.run("accumulate", *_taken(updates, [n])))
        device.run("apply", np.float32(rate), np.float32(1 / len(chosen)))
    return found


def _taken(updates: Updates, chosen: Sequence[int] | np.ndarray) -> list[np.ndarray]:
    return [a[list(chosen)] for a in updates.arrays]


def run_step(device: Device, verb: str, *arrays: Any) -> Arrays:
    """A verb of a training program; a living program, which learns from latents, makes a training step in two calls."""
    if verb in device.verbs or verb != STEP:
        return device.run(verb, *arrays)
    *samples, label, rate = arrays
    latents = device.run("encode", *samples) if "encode" in device.verbs else samples
    return device.run("learn", *latents, label, rate)


def _keep(found: Trained, first: int, count: int, outputs: Arrays) -> None:
    for place, part in zip((found.losses, *found.outputs), outputs):
        place[first : first + count] = part
