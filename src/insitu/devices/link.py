"""A client of the device protocol, with the interface that every device has (device.py).

requests.py sends each request until it is answered; agree.py says how two programs differ.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from functools import wraps
from threading import RLock

import numpy as np

from insitu.codegen import Program
from insitu.codegen.device import DATA_BYTES, INFO, PROTOCOL, Interface, interface_of
from insitu.codegen.state import brought_up, check_saved
from insitu.devices.agree import differences
from insitu.devices.device import Counter, Trained, Updates, Verbs, train_by_calls
from insitu.devices.faults import Fault, fault_error
from insitu.devices.forked import each_process
from insitu.devices.host import fit, rounds_of, zip_inputs
from insitu.devices.requests import Channel, Link
from insitu.errors import DataError, DeviceError
from insitu.ops.update import COUNTERS

RUN_TIMEOUT = 600.0  # seconds that a verb may take
LINE_COUNTERS = ("done", "frames", "rejected")


def in_turn(method):
    """A method whose requests belong together: other threads wait until all of them are answered."""

    @wraps(method)
    def run(self, *arguments, **named):
        with self.lock:
            return method(self, *arguments, **named)

    return run


class LinkDevice:
    """A program on the far end of a channel: the host device's calls, over the line, one after the other."""

    quick = False  # unknown: it depends on the other end

    def __init__(self, channel: Channel, program: Program | Interface, *, timeout: float = 2.0,
                 run_timeout: float = RUN_TIMEOUT, tries: int = 5):  # fmt: skip
        self.interface = program if isinstance(program, Interface) else interface_of(program)
        self.program = program
        self.channel, self.run_timeout = channel, run_timeout
        each_process(self, LinkDevice._unlocked)
        self.link = Link(channel, timeout, tries, self.faulted)
        self.class_names: tuple[str, ...] | None = None  # what a living program calls its classes now (living.py)
        self._numbers = {verb: number for number, verb in enumerate(self.interface.verbs)}
        self._info = self._agree(self._description())

    def _unlocked(self) -> None:
        self.lock = RLock()

    def __enter__(self) -> LinkDevice:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        if not self.link.closed:
            self.link.closed = True
            self.channel.close()

    def faulted(self, fault: Fault) -> DeviceError:
        """What to raise when the core has trapped."""
        return fault_error(fault)

    @property
    def verbs(self) -> Verbs:
        """The program's functions: name -> inputs, outputs."""
        return self.interface.verbs

    @property
    def counter(self) -> Counter | None:
        """None: the far end does not count instructions."""
        return None

    def info(self) -> dict[str, int]:
        """The device's description of itself, in bytes and numbers."""
        return dict(self._info)

    def predict(self, *inputs):
        """The outputs for these inputs: one array, or a tuple of them."""
        shaped = self.run("predict", *inputs)
        return shaped[0] if len(shaped) == 1 else shaped

    @in_turn
    def run(self, verb: str, *inputs) -> tuple[np.ndarray, ...]:
        """Run one of the program's functions, several times if there are more samples than the graph takes."""
        if verb not in self.interface.verbs:
            raise DataError(f"the program has no {verb!r}", hint=", ".join(self.interface.verbs))
        values, results = self.interface.verbs[verb]
        arrays = [fit(v, x) for v, x in zip_inputs(values, inputs)]
        rounds = rounds_of(values, arrays)
        outputs = [np.empty((rounds * (v.shape or (1,))[0], *v.shape[1:]), v.type.numpy) for v in results]
        flat = [o.reshape(rounds, -1) for o in outputs]
        for i in range(rounds):
            self._call(verb, [_sample(v, a, i) for v, a in zip(values, arrays)])
            for k, v in enumerate(results):
                flat[k][i] = np.frombuffer(self._read("output", v.type.bytes, self._numbers[verb], k), v.type.numpy)
        return tuple(o.reshape(v.shape) if rounds == 1 else o for o, v in zip(outputs, results))

    @in_turn
    def train(self, updates: Updates) -> Trained:
        """Make these updates."""
        return train_by_calls(self, updates)

    @in_turn
    def ping(self, data: bytes = b"") -> float:
        """Seconds to the device and back."""
        start = time.perf_counter()
        if self.link.ask("ping", data=data) != data:
            raise DeviceError("a ping came back changed", where="device")
        return time.perf_counter() - start

    @in_turn
    def counters(self) -> dict[str, int]:
        """Updates skipped, clipped, saturated; since the start: calls, loads and resets done, good and bad frames."""
        words = np.frombuffer(self.link.ask("counters"), "<u4").tolist()
        return dict(zip((*LINE_COUNTERS, *COUNTERS), words))

    # state ------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """A copy of everything persistent, by name."""
        layout = self.interface.state
        return layout.unpack(check_saved(self.save_state(), layout)) if layout else {}

    @in_turn
    def save_state(self) -> bytes:
        """The state as written by <prefix>_save."""
        layout = self._layout()
        data = self._read("state_out", self.interface.saved_bytes)
        check_saved(data, layout)
        return data

    @in_turn
    def load_state(self, data: bytes) -> None:
        """Load a saved state; a wrong or damaged one is an error and changes nothing: it is not even sent.

        A device that receives in place (docs/protocol.md) has no state while one arrives. If that is interrupted, it
        needs a complete state, or a reset, before it does anything else.
        """
        data = brought_up(data, self._layout())
        check_saved(data, self._layout())
        for at in range(0, len(data), DATA_BYTES):
            self.link.ask("state_in", offset=at, data=data[at : at + DATA_BYTES])
        self.link.ask("state_commit")

    @in_turn
    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set these persistent values; those that are not named stay."""
        layout = self._layout()
        self.load_state(layout.saved(layout.pack({**self.state(), **arrays})))

    @in_turn
    def reset(self) -> None:
        """Back to the program's initial state."""
        self.link.ask("reset")

    # ------------------------------------------------------------------------------------------

    def _layout(self):
        if self.interface.state is None:
            raise DataError("this program has no state: it was compiled for inference only")
        return self.interface.state

    def write_inputs(self, verb: str, samples: list[bytes]) -> int:
        """Send the inputs of a verb; returns its number."""
        number = self._numbers[verb]
        for index, data in enumerate(samples):
            busy = self.run_timeout if self.interface.rows.get(verb) == index else 0.0  # it is processed as it arrives
            for at in range(0, len(data), DATA_BYTES):
                chunk = data[at : at + DATA_BYTES]
                self.link.ask("write", patience=busy, verb=number, index=index, offset=at, data=chunk)
        return number

    def _call(self, verb: str, samples: list[bytes]) -> None:
        self.link.ask("run", patience=self.run_timeout, verb=self.write_inputs(verb, samples))

    def _read(self, kind: str, bytes_: int, verb: int = 0, index: int = 0) -> bytes:
        parts = []
        for at in range(0, bytes_, DATA_BYTES):
            count = min(DATA_BYTES, bytes_ - at)
            got = self.link.ask(kind, verb=verb, index=index, offset=at, count=count)
            if len(got) != count:
                raise DeviceError(f"the device sent {len(got)} bytes, not {count}", where=kind)
            parts.append(got)
        return b"".join(parts)

    def _description(self) -> bytes:
        """What the device says of itself: as many frames as it takes."""
        found = part = self.link.ask("info")
        while len(part) == DATA_BYTES:
            part = self.link.ask("info", offset=len(found))
            found += part
        return found

    def _agree(self, info: bytes) -> dict[str, int]:
        """The device's description of itself, if it runs exactly this program."""
        wanted = self.interface.info()
        size = struct.calcsize(INFO)
        if len(info) < size:
            raise DeviceError("its description of itself makes no sense", where="device")
        protocol, frame_bytes, model, program, arena, saved, verbs = struct.unpack(INFO, info[:size])
        if protocol != PROTOCOL:
            raise DeviceError(f"uses version {protocol} of the protocol, this is version {PROTOCOL}", where="device")
        if info != wanted:
            raise DeviceError(
                f"runs another program: {differences(info, wanted)}",
                where="device",
                hint="flash the firmware built from this program, or open the device with the program it runs",
            )
        return {
            "protocol": protocol, "frame_bytes": frame_bytes, "model": model, "program": program, "verbs": verbs,
            "arena_bytes": arena, "state_bytes": self.interface.state.bytes if self.interface.state else 0,
            "saved_bytes": saved,
        }  # fmt: skip


def _sample(value, array: np.ndarray, i: int) -> bytes:
    """The bytes of sample i of an input; a scalar is the same for every sample."""
    flat = array.reshape(-1)
    return (flat[i * value.type.size : (i + 1) * value.type.size] if value.shape else flat[:1]).tobytes()
