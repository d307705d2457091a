"""A storm of damaged frames, and a device built under the address sanitizer, which notices every slip."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from insitu.codegen.device import INFO
from insitu.devices.frames import BETWEEN, Answer, frame, read_answer, request, stuff, unframe
from insitu.devices.host import open_program
from insitu.devices.process import build_firmware
from insitu.errors import ToolError

from ..mutate import mutations
from .firmware import program, samples

SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")
CHUNK = 496
MARK = b"the end"
LIMIT_S = 120

RUN = request("run", 9, verb=1)
ALL = 65_536
FAULTS = {
    "garbage": np.random.default_rng(0).bytes(10_000),
    "zeros": bytes(5000),
    "a cut frame": frame(RUN)[:-6] + b"\0",
    "a frame without its beginning": frame(RUN)[5:],
    "a block that is longer than its frame": b"\0\x30ab\0",
    "a wrong CRC": b"\0" + stuff(RUN + b"abcd") + b"\0",
    "a CRC and nothing else": frame(b""),
    "less than a CRC": b"\0" + stuff(b"abc") + b"\0",
    "a frame shorter than its head": frame(RUN[:11]),
    "a frame of 64 KB": frame(request("ping", 5) + b"x" * ALL),
    "a frame of 64 KB of zeros": frame(bytes(ALL)),
    "an unknown request": frame(request(99, 5)),
    "an answer": frame(request(0x83, 5)),
    "a run of an unknown verb": frame(request("run", 5, verb=7)),
    "no end": b"\0" + b"a" * ALL,
}


class NoSanitizer(Exception):
    """This compiler cannot build with the address sanitizer, or the result does not start."""


def build_checked(kind: str = "int8") -> Path:
    """The firmware under the sanitizers, if the compiler has them."""
    try:
        made = build_firmware(program(kind), SANITIZE)
    except ToolError as e:
        raise NoSanitizer(e.what) from e
    tried = subprocess.run([str(made)], input=b"", capture_output=True, timeout=LIMIT_S, check=False)
    if tried.returncode:
        raise NoSanitizer(tried.stderr.decode(errors="replace")[:200])
    return made


@cache
def conversation() -> tuple[bytes, ...]:
    """The bodies of good requests, at least one of every kind: a prediction, a step, the state out and in."""
    x, y = samples(1)
    saved = open_program(program()).save_state()
    inputs = (x.tobytes(), y.tobytes(), np.float32(0.01).tobytes())
    chunks = range(0, len(saved), CHUNK)
    asked = [("ping", {"data": b"hello"}), ("info", {}), *_writes(0, inputs[:1]), ("run", {"verb": 0}),
             ("output", {"verb": 0, "count": CHUNK}), ("output", {"verb": 0, "offset": CHUNK, "count": 4}),
             *_writes(1, inputs), ("run", {"verb": 1}),
             ("output", {"verb": 1, "count": 4}), ("output", {"verb": 1, "index": 1, "count": CHUNK}),
             *(("state_out", {"offset": at, "count": min(CHUNK, len(saved) - at)}) for at in chunks),
             *(("state_in", {"offset": at, "data": saved[at : at + CHUNK]}) for at in chunks),
             ("state_commit", {}), ("counters", {}), ("reset", {})]  # fmt: skip
    return tuple(request(kind, i + 1, **fields) for i, (kind, fields) in enumerate(asked))


def _writes(verb: int, inputs: tuple[bytes, ...]) -> list[tuple[str, dict]]:
    return [
        ("write", {"verb": verb, "index": index, "offset": at, "data": data[at : at + CHUNK]})
        for index, data in enumerate(inputs)
        for at in range(0, len(data), CHUNK)
    ]


def storm(count: int, seed: int, valid: bool = True) -> Iterator[bytes]:
    """`count` damaged frames in the form they have on the line, with good ones in between.

    Every other one is damaged inside but has the right CRC, so that the damage gets past it. With `valid` off, none has
    the right CRC, and there are no good ones.
    """
    bodies = conversation()
    each = -(-count // len(bodies))
    inside = [mutations(body, each, seed, range(min(12, len(body)))) for body in bodies]
    outside = [mutations(frame(body), each, seed + 1) for body in bodies]
    for k in range(count):
        i = k % len(bodies)
        if not valid:
            yield _spoiled(next(outside[i]))
        elif k // len(bodies) % 2:
            yield frame(next(inside[i]))
        else:
            yield next(outside[i])
        if valid and k % 3:
            yield frame(bodies[i])


def _spoiled(data: bytes) -> bytes:
    """The same data, if no piece of it is a good frame."""
    return b"\0".join(piece if unframe(piece) is None else piece[:-1] for piece in data.split(b"\0")) + b"\0"


def survive(firmware: Path, frames: bytes, keeps_state: bool = False) -> int:
    """Send them all: the device must not crash, must answer the last request, and must have a complete state.

    A device that receives states in place may be left between two states: then it says so to every request, and a reset
    gives it a state again. Returns the number of answers.
    """
    first = open_program(program()).save_state()
    parts = range(0, len(first), CHUNK)
    read = [("state_out", {"offset": at, "count": min(CHUNK, len(first) - at)}) for at in parts]
    asked = [("ping", {"data": MARK}), ("info", {}), *read, ("reset", {}), *read]
    ending = [request(kind, 0xFF00 + i, **fields) for i, (kind, fields) in enumerate(asked)]
    answers = replies(firmware, frames + b"\0" + b"".join(map(frame, ending)))
    ping, info, *rest = answers[-len(ending) :]
    states = rest[: len(parts)], rest[-len(parts) :]
    found, after = (b"".join(a.data for a in answered) for answered in states)
    assert ping.data == MARK and after == first
    assert not keeps_state or found == first
    arena, saved = struct.unpack_from(INFO, info.data)[4:6]
    if {a.status for a in states[0]} == {BETWEEN}:
        assert arena < saved, "there is room for two states"
    else:
        open_program(program()).load_state(found)
    return len(answers)


def replies(firmware: Path, sent: bytes) -> list[Answer]:
    """A device's answers to all of this; each must make sense, and the device must not have crashed."""
    done = subprocess.run([str(firmware)], input=sent, capture_output=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr.decode(errors="replace")[:2000]
    bodies = [unframe(piece) for piece in done.stdout.split(b"\0") if piece]
    answers = [read_answer(body) for body in bodies if body is not None]
    known = [a for a in answers if a]
    assert len(known) == len(bodies), "an answer that makes no sense"
    return known
