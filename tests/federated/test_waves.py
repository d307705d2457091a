"""Messages in waves: every device is asked once, and never more are on their way than allowed."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

from insitu.federated.waves import replies_to


class About:
    def __init__(self, number: str):
        self.dst_node_id = self.reply_to_message_id = number


class Message:
    """To the device with this number, or its answer."""

    def __init__(self, number: str):
        self.metadata = About(number)


class Engine:
    """Answers the oldest message on its way at every look; those in `silent` never."""

    def __init__(self, silent: tuple[str, ...] = (), gone: tuple[str, ...] = ()):
        self.open, self.gone = list[str](), gone  # those that are gone cannot be asked
        self.most, self.silent, self.asked = 0, silent, list[str]()

    def push_messages(self, messages):
        names = [m.metadata.dst_node_id for m in messages]
        self.open += names
        self.asked += names
        self.most = max(self.most, len(self.open))
        self.open = [n for n in self.open if n not in self.gone]
        return [None if n in self.gone else n for n in names]

    def pull_messages(self, numbers):
        assert set(numbers) == set(self.open)
        ready = [n for n in self.open if n not in self.silent][:1]
        self.open = [n for n in self.open if n not in ready]
        return [Message(n) for n in ready]

    def send_and_receive(self, messages, *, timeout):
        return messages


def numbers(replies) -> list[str]:
    return sorted(r.metadata.reply_to_message_id for r in replies)


@pytest.mark.parametrize("at_once", [1, 3, 20, None])
def test_every_message_is_answered_and_few_are_on_their_way(at_once):
    engine, messages = Engine(), [Message(str(i)) for i in range(20)]
    found = replies_to(engine, messages, 10, at_once)  # type: ignore[arg-type]
    assert numbers(found) == numbers(messages) and engine.most <= (at_once or 0 if at_once != 20 else 0)


def test_a_device_that_never_answers_does_not_hold_up_the_others():
    engine, messages = Engine(silent=("2",)), [Message(str(i)) for i in range(9)]
    found = replies_to(engine, messages, 0.5, 3)  # type: ignore[arg-type]
    assert numbers(found) == sorted(set(numbers(messages)) - {"2"}) and engine.most == 3


def test_devices_that_did_not_answer_last_time_are_asked_last_and_waited_for_less():
    engine, began = Engine(silent=("0", "1")), time.monotonic()
    found = replies_to(engine, [Message(str(i)) for i in range(6)], 2, 3, {"0", "1"})  # type: ignore[arg-type]
    assert len(found) == 4 and engine.asked == ["2", "3", "4", "5", "0", "1"] and time.monotonic() - began < 1.5


def test_devices_that_cannot_be_asked_are_not_waited_for():
    engine, began = Engine(gone=("0", "3")), time.monotonic()
    found = replies_to(engine, [Message(str(i)) for i in range(6)], 60, 2)  # type: ignore[arg-type]
    assert numbers(found) == ["1", "2", "4", "5"] and time.monotonic() - began < 10
