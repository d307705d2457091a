"""Programs on a device that several tests share, and lines to it that misbehave."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import nn

import insitu
from insitu.codegen import Program
from insitu.devices.link import Answer, LinkDevice, frame, read_answer, request, unframe
from insitu.devices.process import ProcessChannel, build_firmware

WIDTH, CLASSES = 130, 125  # samples and outputs are a chunk, and a few bytes more


def samples(count: int = 12, seed: int = 0):
    """Points whose largest coordinate among the first is their class."""
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


@cache
def program(kind: str = "int8") -> Program:
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
    """Frames to a device and back, with no client in between."""

    def __init__(self, kind: str = "int8"):
        self.channel = ProcessChannel([str(build_firmware(program(kind)))])
        self._pending = b""

    def send(self, data: bytes) -> None:
        self.channel.write(data)

    def ask(self, kind: str | int, sequence: int = 1, **fields) -> Answer:
        self.send(frame(request(kind, sequence, **fields)))
        return self.answer()

    def answer(self, timeout: float = 10.0) -> Answer:
        """The next whole frame that comes; none within the time is a failure."""
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

    def close(self) -> None:
        self.channel.close()


class Lossy:
    """A line that, now and then, loses or changes what it carries."""

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
    """A device that can lose its power."""

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
