"""Send messages to devices, a few at a time if need be, and wait for their answers.

Flower's simulation engine looks at every message for every device ten times a second: with 200 of each, that takes more
time than the training. With a few on their way at once it does not. Deployed fleets get all messages at once: their
devices work at the same time. A device that did not answer when it was asked last is waited for a tenth of the time
after the others, not for all of it: one that is connected and never answers would slow down every round.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from flwr.app import Message
from flwr.serverapp import Grid

PAUSE, REMOTE = 0.02, 1.0  # seconds between two looks for answers: of an engine in this process, and over a network
GRACE = 0.1  # of the whole time, for devices that did not answer last time, once all others have


def replies_to(grid: Grid, messages: Iterable[Message], timeout: float, at_once: int | None = None,
               silent: Collection[int] = ()) -> list[Message]:  # fmt: skip
    """The answers to these messages that come in time; at most `at_once` messages are on their way. `silent` are the
    devices that did not answer last time."""
    waiting = list(messages)
    many = at_once is not None and len(waiting) > at_once
    if not many and not any(m.metadata.dst_node_id in silent for m in waiting):
        return list(grid.send_and_receive(waiting, timeout=timeout))
    waiting.sort(key=lambda m: m.metadata.dst_node_id in silent)  # those who answer need not wait for the others
    return _collected(grid, waiting, timeout, at_once or len(waiting), silent)


def _collected(grid: Grid, waiting: list[Message], timeout: float, at_once: int,
               silent: Collection[int]) -> list[Message]:  # fmt: skip
    found: list[Message] = []
    end = time.monotonic() + timeout
    sent: dict[str, int] = {}  # message -> node
    pause, hurry = (PAUSE if at_once < len(waiting) else REMOTE), False
    while (waiting or sent) and time.monotonic() < end:
        now, waiting = waiting[: at_once - len(sent)], waiting[at_once - len(sent) :]
        sent |= _pushed(grid, now) if now else {}
        new = list(grid.pull_messages(list(sent)))
        for m in new:
            sent.pop(m.metadata.reply_to_message_id, None)
        found += new
        if not hurry and not waiting and all(node in silent for node in sent.values()):
            hurry, end = True, min(end, time.monotonic() + GRACE * timeout)
        time.sleep(0 if new else pause)
    return found


def _pushed(grid: Grid, messages: list[Message]) -> dict[str, int]:
    """Message -> node; without those that Flower could not send, to devices that are gone."""
    nodes = [m.metadata.dst_node_id for m in messages]
    return {number: node for number, node in zip(grid.push_messages(messages), nodes) if number}
