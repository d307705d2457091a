"""One of several schemes that a program was compiled with, chosen at run time: nothing is flashed again.

    learner = insitu.compile(model, scheme="head+ladder:22", board="stm32f746", ...)
    with learner.on("serial:/dev/ttyACM0") as board:
        board.rung("head").fit(x, y)                  # the other layers rest, and a step takes less time
        rung(board.device, "head").train(updates)     # the same, update by update

The program has a function for each: `train_step` for the largest scheme, `train_step_head`, ... for the others. They
share the arena and the state, so that what one has learned the other goes on with. In C, call the one you want.
"""

from __future__ import annotations

from typing import Any

from insitu.devices.device import STEP, Arrays, Counter, Device, Trained, Updates, Verbs, train_by_calls
from insitu.errors import DeviceError
from insitu.schemes.update import Scheme
from insitu.terminal.wording import option


class Rung:
    """The same device; its `train_step` is that of a smaller scheme."""

    def __init__(self, device: Device, verb: str):
        self.device, self.verb = device, verb

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)

    @property
    def verbs(self) -> Verbs:
        found = {verb: types for verb, types in self.device.verbs.items() if not verb.startswith(STEP)}
        return {**found, STEP: self.device.verbs[self.verb]}

    @property
    def counter(self) -> Counter | None:
        return RungCounter(self.device.counter, self.verb) if self.device.counter else None

    def run(self, verb: str, *inputs: Any) -> Arrays:
        return self.device.run(self.verb if verb == STEP else verb, *inputs)

    def train(self, updates: Updates) -> Trained:
        return train_by_calls(self, updates)  # type: ignore[arg-type]


class RungCounter:
    """The counter of a device, where `train_step` is that of a smaller scheme."""

    def __init__(self, counter: Counter, verb: str):
        self.counter, self.verb = counter, verb

    def measure(self, verb: str, *inputs: Any) -> tuple[Arrays, dict[str, int]]:
        return self.counter.measure(self.verb if verb == STEP else verb, *inputs)

    def counted(self) -> dict[str, dict[str, int]]:
        found = self.counter.counted()
        others = {verb: layers for verb, layers in found.items() if not verb.startswith(STEP)}
        return {**others, **({STEP: found[self.verb]} if self.verb in found else {})}

    def stack_bytes(self) -> int:
        return self.counter.stack_bytes()


def rung(device: Device, scheme: str) -> Rung:
    """The device, training only this scheme, which must be one that its program was compiled with."""
    verb = Scheme(scheme, ()).verb
    if verb not in device.verbs:
        known = [name.removeprefix(f"{STEP}_") for name in device.verbs if name.startswith(f"{STEP}_")]
        hint = f"compile with {option(scheme='head+ladder:22')}, for example"
        if known:
            hint = f"{', '.join(known)}; or none, for the largest scheme that it was compiled with"
        raise DeviceError(f"has no smaller scheme {scheme}", hint=hint)
    return Rung(device, verb)
