"""Requests to a device over a byte stream, each answered once or an error.

A request is repeated until its answer comes; the device executes a repeated request only once. frames.py has the form
of a frame; a `Channel` carries it (process.py, serial.py, the emulator). What is asked for is in link.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from insitu.codegen.state import COMPLAINTS
from insitu.devices.device import closed
from insitu.devices.faults import Fault, fault_error, read_fault
from insitu.devices.frames import (
    BETWEEN,
    BUSY,
    DAMAGED,
    DAMAGED_FRAME,
    FLASH,
    GAP,
    KINDS,
    LABEL,
    LACKS,
    NO_ROOM,
    NO_SAMPLE,
    NO_SUCH,
    NOT_FINITE,
    NOT_READY,
    NOTHING,
    OK,
    OUTSIDE,
    STATE,
    STATELESS,
    TOO_LONG,
    UNKNOWN,
    Answer,
    frame,
    read_answer,
    request,
    unframe,
)
from insitu.errors import DataError, DeviceError
from insitu.terminal.wording import either, option

STATUS = {
    DAMAGED: "got a damaged frame",
    TOO_LONG: "got a frame that is too long",
    UNKNOWN: "does not know this request",
    NO_SUCH: "has no such verb, input or output",
    OUTSIDE: "was asked for more bytes than it has",
    GAP: "got a chunk that does not follow the one before",
    NOT_READY: "does not have all inputs, or has no such output: was it reset?",
    LABEL: "got a label that is not a class",
    NOT_FINITE: "got an input that is not finite",
    STATELESS: "runs a program for inference only, which has no state",
    **{STATE + code: f"says that the state {complaint}" for code, complaint in COMPLAINTS.items()},
    BETWEEN: "is between two states: a new one overwrote the old one, but did not arrive completely",
    NO_SAMPLE: "keeps no sample with this id",
    NO_ROOM: "cannot take this class: no row of a float head is free, the name is in use, or a bout is running",
    BUSY: "is in the middle of a bout",
    NOTHING: "has no checkpoint",
    LACKS: "has a class in use without a sample to learn from: a bout would unlearn it",
    FLASH: "could not write its flash: what it was asked to save may be gone after the next start",
}
HINTS: dict[int, Callable[[], str]] = {
    BUSY: lambda: "let it finish: rehearse",
    LACKS: lambda: f"give it samples of that class first, or learn anyway: {option(partial=True)}",
    NO_ROOM: lambda: f"compile with {option(max_classes='N')}",
    BETWEEN: lambda: either(shell="send a complete state: insitu run DIR --load FILE; or reset the board",
                            python="send a complete state: load(...); or device.reset() to the initial one"),
}  # fmt: skip
USERS_FAULT = {LABEL, NOT_FINITE, STATELESS, NO_SAMPLE, NO_ROOM, NOTHING, LACKS, *(STATE + code for code in COMPLAINTS)}
LIVED = ("observe", "label", "rehearse", "checkpoint", "rollback", "add_class", "forget", "erase")
COUNTED = ("run", "state_commit", "reset", *LIVED)  # requests that the device counts as done
QUIET = 0.1  # seconds of silence after which a report of damage is about the last request
RESENT = 20  # how often noise may damage a request before it counts as not answered


class Channel(Protocol):
    """A byte stream to a device."""

    def write(self, data: bytes) -> None: ...

    def read(self, most: int, timeout: float) -> bytes:
        """At least one byte, at most `most`; nothing after `timeout` seconds. A DeviceError at the end of it."""
        ...

    def close(self) -> None: ...


class Link:
    """Requests over a channel: each is answered once, or is a DeviceError; `faulted` makes one of a trapped core."""

    def __init__(self, channel: Channel, timeout: float = 2.0, tries: int = 5,
                 faulted: Callable[[Fault], DeviceError] = fault_error):  # fmt: skip
        self.channel, self.timeout, self.tries, self.faulted = channel, timeout, tries, faulted
        self.done: int | None = None  # what the device should have done since it started
        self.unsure = 0  # requests that were interrupted, which the device may have done or not
        self.closed = False
        self._sequence, self._pending = int(time.time_ns()) & 0xFFFF, bytearray()

    def ask(self, kind: str, *, patience: float = 0.0, **fields) -> bytes:
        """The data of the answer; an error of the device is raised. `patience` is the number of seconds it may take."""
        if self.closed:
            raise closed("device")
        self._sequence = self._sequence % 0xFFFF + 1  # 0 answers requests that could not be read
        sent = frame(request(kind, self._sequence, **fields))
        waits = self._waits(patience)
        for wait in waits:
            answer = self._interruptible(sent, kind, wait)
            if answer is not None:
                self._same_life(answer, kind)
                raise_status(answer.status, kind)
                return answer.data
        raise DeviceError(
            f"does not answer ({kind}, asked {len(waits)} times)",
            where="device",
            hint="check port, baud rate and firmware",
        )

    def _waits(self, patience: float) -> list[float]:
        """Seconds to wait for an answer, one entry per attempt: growing if there is patience.

        A device that computes does not read, so asking again too often would only fill its line.
        """
        waits = [self.timeout]
        while len(waits) < self.tries or sum(waits) < patience:
            waits.append(min(2 * waits[-1], patience - sum(waits)) if sum(waits) < patience else self.timeout)
        return waits

    def _same_life(self, answer: Answer, kind: str) -> None:
        """A device that has done less than it was asked to has restarted, and has forgotten what it learned."""
        least = None if self.done is None else self.done + (kind in COUNTED and answer.status == OK)
        most, self.done, self.unsure = self.unsure, answer.done, 0
        if least is not None and (answer.done - least) & 0xFFFFFFFF > most:
            raise DeviceError(
                "was reset, or someone else uses it: its state has changed",
                where="device",
                hint="load_state(...) with the last state you saved, then continue",
            )

    def _interruptible(self, sent: bytes, kind: str, wait: float) -> Answer | None:
        """The answer, or None on a timeout. After Ctrl-C nobody knows whether the device does what it was asked."""
        try:
            return self._asked(sent, KINDS.index(kind), wait)
        except KeyboardInterrupt:
            self.unsure += kind in COUNTED
            raise

    def _asked(self, sent: bytes, kind: int, wait: float) -> Answer | None:
        """The answer to a request, which is repeated as often as noise damages it; None on a timeout."""
        for _ in range(RESENT):
            self.channel.write(sent)
            answer = self._answer(kind, wait)
            if answer is not DAMAGED_FRAME:
                return answer
        return None

    def _answer(self, kind: int, timeout: float) -> Answer | None:
        """The answer to the current request; None on a timeout, DAMAGED_FRAME if it must be sent again.

        A report of damage may be about bytes that were on the line before the request, and so may a damaged frame. Only
        if the line has been quiet for a while since, it is about the request, or was the answer. A line that is never
        quiet has no answer.
        """
        end, damaged = time.monotonic() + timeout, False
        last = end + QUIET
        while True:
            found = self._next(end)
            if found is None:  # nothing came in time
                return DAMAGED_FRAME if damaged and end < last else None
            answer = read_answer(found)
            if answer and answer.sequence == self._sequence and answer.kind == kind:
                return answer
            if answer and (fault := read_fault(answer)):
                self._drop()
                raise self.faulted(fault)
            reported = answer and answer.sequence == 0 and answer.status in (DAMAGED, TOO_LONG)
            if reported or not found:
                damaged, end = True, min(last, time.monotonic() + min(QUIET, timeout))

    def _drop(self) -> None:
        """Forget all bytes until the line is quiet: a board that was reset must not be taken for one that faulted."""
        end = time.monotonic() + self.timeout
        while self.channel.read(4096, QUIET) and time.monotonic() < end:
            pass
        self._pending.clear()

    def _next(self, end: float) -> bytes | None:
        """The body of the next frame, b"" for a damaged one, None on a timeout."""
        while True:
            border = self._pending.find(0)
            if border >= 0:
                piece = bytes(self._pending[:border])
                del self._pending[: border + 1]
                if piece:
                    return unframe(piece) or b""
                continue
            left = end - time.monotonic()
            got = self.channel.read(4096, left) if left > 0 else b""
            if not got and time.monotonic() >= end:
                return None
            self._pending += got


def raise_status(status: int, kind: str) -> None:
    if status == OK:
        return
    what = STATUS.get(status, f"gave status {status}")
    fault = DataError if status in USERS_FAULT else DeviceError
    raise fault(f"the device {what}", where=kind, hint=HINTS.get(status, str)())
