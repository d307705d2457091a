"""What a device has told under noise of its own: how often it answered, what that is worth, and its last answer.

A server that could ask twice about one model would get two answers with other noise, and their mean has less of it. The
same question therefore gets the same bytes; every other one is counted, whatever the server says about its rounds. A
device may have a budget: it answers no more once its answers are worth that much.
"""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass, replace
from typing import Any

from insitu.errors import DataError
from insitu.federated.privacy import Noise


@dataclass(frozen=True)
class Account:
    """How many different answers were given, and the last one: to which question, in which bytes."""

    answers: int = 0
    asked: bytes = b""
    delta: bytes = b""

    def after(self, asked: bytes = b"", delta: bytes = b"") -> Account:
        """With one more answer."""
        return replace(self, answers=self.answers + 1, asked=asked, delta=delta)


def question(packed: bytes, task: Any) -> bytes:
    """What identifies a question: the model and all that decides how it is learned from."""
    return hashlib.sha256(packed + repr(astuple(task)).encode()).digest()


def check_budget(account: Account, noise: Noise | None, most: float | None) -> None:
    """Refuse another answer that this device cannot afford."""
    if noise is None or most is None:
        return
    spent, after = noise.epsilon(account.answers), noise.epsilon(account.answers + 1)
    if after > most:
        words = f"{account.answers} answers are worth epsilon {spent:.2f}, another one {after:.2f}"
        raise DataError(f"this device tells no more than epsilon {most:g}: {words}", where="privacy")
