"""Send messages to devices a few at a time.

Flower's simulation engine looks at every message for every device ten times a second: with 200 of each, that takes more
time than the training. With a few on their way at once it does not. Deployed fleets get all messages at once: their
devices work at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from flwr.app import Message
from flwr.serverapp import Grid

PAUSE = 0.02  # seconds between two looks for answers


def replies_to(grid: Grid, messages: Iterable[Message], timeout: float, at_once: int | None = None) -> list[Message]:
    """The answers to these messages that come in time; at most `at_once` messages are on their way."""
    waiting = list(messages)
    if at_once is None or len(waiting) <= at_once:
        return list(grid.send_and_receive(waiting, timeout=timeout))
    found: list[Message] = []
    sent: set[str] = set()
    end = time.monotonic() + timeout
    while (waiting or sent) and time.monotonic() < end:
        now, waiting = waiting[: at_once - len(sent)], waiting[at_once - len(sent) :]
        sent |= set(grid.push_messages(now)) if now else set()
        new = list(grid.pull_messages(sent))
        sent -= {m.metadata.reply_to_message_id for m in new}
        found += new
        time.sleep(0 if new else PAUSE)
    return found
