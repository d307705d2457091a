"""Ctrl-C at a good moment: the first one waits until the work can stop, a second one does not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class AtOnce(KeyboardInterrupt):
    """A second Ctrl-C: whatever was going on is cut off, maybe in the middle of a request to a device."""


@contextmanager
def patient() -> Iterator[Callable[[], None]]:
    """Yields `check`, to be called where work may stop: it raises KeyboardInterrupt if Ctrl-C was pressed before.

    Only applies if Ctrl-C would raise KeyboardInterrupt anyway: in the main thread, without a handler of the caller.
    """
    if threading.current_thread() is not threading.main_thread() or not _usual():
        yield lambda: None
        return
    pressed: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if pressed:
            raise AtOnce
        pressed.append(number)

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def held() -> Iterator[None]:
    """Ctrl-C waits until the end, and takes effect there: for calls that cannot be left by an exception.

    Python prints an exception raised in a callback of a C library, and drops it.
    """
    before, pressed = signal.getsignal(signal.SIGINT), []
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, lambda *call: pressed.append(call))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        for call in pressed:
            before(*call)


def _usual() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler
