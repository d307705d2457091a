"""Messages in waves: every device is asked once, and never more are on their way than allowed."""

from __future__ import annotations

import pytest

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

from insitu.federated.waves import replies_to


class About:
    def __init__(self, number: str):
        self.reply_to_message_id = number


class Reply:
    def __init__(self, number: str):
        self.metadata = About(number)


class Engine:
    """Answers the oldest message on its way at every look; those in `silent` never."""

    def __init__(self, silent: tuple[str, ...] = ()):
        self.open: list[str] = []
        self.most, self.silent = 0, silent

    def push_messages(self, messages):
        self.open += messages
        self.most = max(self.most, len(self.open))
        return list(messages)

    def pull_messages(self, numbers):
        assert set(numbers) == set(self.open)
        ready = [n for n in self.open if n not in self.silent][:1]
        self.open = [n for n in self.open if n not in ready]
        return [Reply(n) for n in ready]

    def send_and_receive(self, messages, *, timeout):
        return [Reply(m) for m in messages]


def numbers(replies) -> list[str]:
    return sorted(r.metadata.reply_to_message_id for r in replies)


@pytest.mark.parametrize("at_once", [1, 3, 20, None])
def test_every_message_is_answered_and_few_are_on_their_way(at_once):
    engine, messages = Engine(), [str(i) for i in range(20)]
    found = replies_to(engine, messages, 10, at_once)  # type: ignore[arg-type]
    assert numbers(found) == sorted(messages) and engine.most <= (at_once or 0 if at_once != 20 else 0)


def test_a_device_that_never_answers_does_not_hold_up_the_others():
    engine, messages = Engine(silent=("2",)), [str(i) for i in range(9)]
    found = replies_to(engine, messages, 0.5, 3)  # type: ignore[arg-type]
    assert numbers(found) == sorted(set(messages) - {"2"}) and engine.most == 3
