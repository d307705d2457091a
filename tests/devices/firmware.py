"""Programs on a device that several tests share, and unreliable lines to it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch import nn

import insitu
from insitu.codegen import Program
from insitu.codegen.device import DATA_BYTES
from insitu.codegen.state import HEADER_BYTES
from insitu.devices.frames import OK, Answer, frame, read_answer, request, unframe
from insitu.devices.link import LinkDevice
from insitu.devices.process import ProcessChannel, build_firmware
from insitu.devices.requests import Channel

WIDTH, CLASSES = 130, 125  # samples and outputs are a chunk, plus a few bytes


def samples(count: int = 12, seed: int = 0):
    """Points whose class is the largest of their first coordinates."""
    x = np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32)
    return x, x[:, :CLASSES].argmax(1).astype(np.int32)


def network(out: int = CLASSES) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 5), nn.ReLU(), nn.Linear(5, out)).eval()


OPTIONS = {
    "int8": {"classes": CLASSES, "scheme": "full", "data": samples()[0]},
    "float": {"classes": CLASSES, "scheme": "full", "precision": "float"},
    "batch": {"classes": CLASSES, "scheme": "full", "precision": "float", "batch": 2},
    "targets": {"scheme": "full", "precision": "float", "recipe": insitu.Recipe(loss="mse")},
}


IN_PLACE = "in place"  # the same as int8, but a received state overwrites the old one
WAYS = ("int8", IN_PLACE)


@cache
def program(kind: str = "int8") -> Program:
    if kind == IN_PLACE:
        return replace(program("int8"), in_place=True)
    if kind == "inference":
        return insitu.load(network(), torch.zeros(1, WIDTH)).program()
    module = network(WIDTH) if kind == "targets" else network()
    learner = insitu.compile(module, example=torch.zeros(1, WIDTH), head_init="uniform", **OPTIONS[kind])
    return learner.device.program


def calls(kind: str, i: int):
    """Verb and inputs of each call of the i-th update."""
    x, y = samples()
    x, y, rate = x[i : i + 1], y[i : i + 1], np.float32(0.05)
    if kind == "batch":
        return [("accumulate", x, y), ("accumulate", x + 1, y), ("apply", rate, np.float32(0.5))]
    return [("train_step", x, x if kind == "targets" else y, rate)]


class Raw:
    """Frames to a device and back, without a client in between."""

    def __init__(self, channel: Channel | None = None, kind: str = "int8"):
        self.channel = channel or ProcessChannel([str(build_firmware(program(kind)))])
        self._pending = b""

    def send(self, data: bytes) -> None:
        self.channel.write(data)

    def ask(self, kind: str | int, sequence: int = 1, **fields) -> Answer:
        self.send(frame(request(kind, sequence, **fields)))
        return self.answer()

    def answer(self, timeout: float = 10.0) -> Answer:
        """The next complete frame; a failure if none comes in time."""
        while True:
            piece, border, rest = self._pending.partition(b"\0")
            if border:
                self._pending = rest
                if piece:
                    break
                continue
            got = self.channel.read(4096, timeout)
            assert got, "the device does not answer"
            self._pending += got
        body = unframe(piece)
        assert body is not None, f"a damaged answer: {piece!r}"
        found = read_answer(body)
        assert found is not None, f"no answer: {body!r}"
        return found

    def write_step(self, sequence: int, *, label: int = 0, rate: float = 0.1, x=None) -> None:
        """All inputs of a training step, in requests numbered from here on."""
        inputs = (samples()[0][0] if x is None else x, np.int32(label), np.float32(rate))
        for index, array in enumerate(inputs):
            data = np.ascontiguousarray(array).tobytes()
            for at in range(0, len(data), DATA_BYTES):
                sequence += 1
                chunk = data[at : at + DATA_BYTES]
                assert self.ask("write", sequence, verb=1, index=index, offset=at, data=chunk).status == OK

    def learn(self, sequence: int) -> None:
        self.write_step(sequence)
        assert self.ask("run", sequence + 50, verb=1).status == OK

    def prepared(self) -> bytes:
        """The state of a device that has learned something and waits with all inputs of a step."""
        self.learn(100)
        self.write_step(200)
        return self.state()

    def state(self, sequence: int = 900) -> bytes:
        size, found = HEADER_BYTES + program().state_bytes, b""
        while len(found) < size:
            sequence += 1
            count = min(DATA_BYTES, size - len(found))
            answer = self.ask("state_out", sequence, offset=len(found), count=count)
            assert answer.status == OK
            found += answer.data
        return found

    def send_state(self, saved: bytes, sequence: int, end: int | None = None, start: int = 0) -> None:
        """The chunks of a saved state, or those up to `end`, from `start` on."""
        saved = saved[:end]
        for at in range(start, len(saved), DATA_BYTES):
            sequence += 1
            assert self.ask("state_in", sequence, offset=at, data=saved[at : at + DATA_BYTES]).status == OK

    def expect_ping(self, most: int = 10_000) -> None:
        """The device answers a ping, after at most this many complaints about earlier data."""
        self.send(frame(request("ping", 77, data=b"still there")))
        for _ in range(most):
            answer = self.answer()
            if answer.sequence == 77:
                assert answer.data == b"still there"
                return
            assert answer.status != OK
        raise AssertionError("no answer to a ping")

    def close(self) -> None:
        self.channel.close()


class Lossy:
    """A line that now and then loses or changes data."""

    def __init__(self, channel, seed: int, share: float = 0.15):
        self.channel, self.rng, self.share = channel, np.random.default_rng(seed), share
        self.faults = 0

    def write(self, data: bytes) -> None:
        self.channel.write(self._spoiled(data))

    def read(self, most: int, timeout: float) -> bytes:
        return self._spoiled(self.channel.read(most, timeout))

    def close(self) -> None:
        self.channel.close()

    def _spoiled(self, data: bytes) -> bytes:
        if not data or self.rng.random() >= self.share:
            return data
        self.faults += 1
        at = int(self.rng.integers(len(data)))
        changed = bytearray(data)
        changed[at] ^= 1 << int(self.rng.integers(8))
        return (data[:at], data[at + 1 :], bytes(changed), b"", data[:at] + b"\0" + data[at:])[self.rng.integers(5)]


class Restarting:
    """A device that can lose power."""

    def __init__(self, kind: str = "int8"):
        self.command = [str(build_firmware(program(kind)))]
        self.channel = ProcessChannel(self.command)

    def power_cycle(self) -> None:
        self.channel.close()
        self.channel = ProcessChannel(self.command)

    def write(self, data: bytes) -> None:
        self.channel.write(data)

    def read(self, most: int, timeout: float) -> bytes:
        return self.channel.read(most, timeout)

    def close(self) -> None:
        self.channel.close()


def open_link(kind: str = "int8", **options) -> LinkDevice:
    return LinkDevice(ProcessChannel([str(build_firmware(program(kind)))]), program(kind), **options)
