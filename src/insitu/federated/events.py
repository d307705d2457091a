"""What a device did, line by line in a file that its own processes write and `insitu fleet join` reads.

Flower starts a new process for every message; this file is how the process that a user started hears of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from insitu.federated.noted import said
from insitu.terminal.table import size

MOST_WIDE, MOST_LINES = 2000, 20  # of an error, on the terminal of a device's owner


@dataclass
class Events:
    """The events in a file, read as they come."""

    file: Path
    read: int = 0  # bytes
    last: dict[str, Any] = field(default_factory=dict)  # the one after which nothing comes

    def new(self) -> list[dict[str, Any]]:
        """Those that came since the last call; a line that is not complete yet waits."""
        if not self.file.exists():
            return []
        with self.file.open("rb") as f:
            f.seek(self.read)
            whole = f.read().rpartition(b"\n")[0]
        self.read += len(whole) + 1 if whole else 0
        found = [json.loads(line) for line in whole.splitlines() if line]
        self.last = next((e for e in found if e.get("over")), self.last)
        return found


def words_of(event: dict[str, Any]) -> str:
    """An event in one line; nothing about those that are only part of a round."""
    if "failed" in event:
        return f"this device could not answer: {harmless(event['failed'])}"
    if "round" in event:
        boards = "".join(f"; left out: {said}" for said in event["left_out"])
        return f"round {event['round']}: loss {event['loss']:.4f} over {event['samples']:,} samples, " \
               f"{size(event['sent'])} sent{_worth(event)}{boards}"  # fmt: skip
    if event.get("phase") == "sum":
        return f"a round under masks: {size(event['sent'])} sent{_worth(event)}"
    if event.get("scores") and not event.get("over"):
        return f"{_which(event)} on this device: {measured(event['scores'])}"
    return ""


def _which(event: dict[str, Any]) -> str:
    if (back := event.get("back")) is not None:
        name = f"model after round {said(back)}" if back else "first model"
        return f"the {name}, to which the fleet goes back as it is better on the devices' tests,"
    after = event.get("after")
    return f"the fleet's model after round {after}" if after else "the first model"


def _worth(event: dict[str, Any]) -> str:
    """What a device with noise of its own has told so far."""
    return f", epsilon {event['epsilon']:.2f} so far" if "epsilon" in event else ""


def harmless(words: str) -> str:
    """Parts of an error may be the server's words, which must not write all over a terminal."""
    return "\n".join(said(line, MOST_WIDE) for line in words.splitlines()[:MOST_LINES])


def measured(scores: dict[str, float]) -> str:
    """A score in words."""
    if "accuracy" in scores:
        return f"{scores['accuracy']:.1%}"
    return f"error {scores['error']:.4g}" if "error" in scores else "not tested"


WHOSE = {0.0: "with the fleet's model, as own passes did harm", 1.0: "after passes of its own",
         2.0: "after passes of its own without the fleet's model, which does not suit it"}  # fmt: skip


def ending(event: dict[str, Any]) -> str:
    """What the last message left this device with."""
    if "failed" in event:
        return "the run is over; this device could not answer its last message"
    scores = event.get("scores") or {}
    said = f", {WHOSE[float(scores['kept'])]}" if scores.get("kept") in WHOSE else ""
    return f"the run is over: {measured(scores)} on this device{said}"
