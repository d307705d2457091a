"""Whatever comes over the line, a device keeps its last good state and answers the next good frame."""

import os
import time

import numpy as np
import pytest

from insitu.codegen.state import MAGIC
from insitu.devices.frames import (
    DAMAGED,
    GAP,
    KINDS,
    LABEL,
    NO_SUCH,
    NOT_FINITE,
    NOT_READY,
    OK,
    OUTSIDE,
    TOO_LONG,
    UNKNOWN,
    frame,
    read_answer,
    unframe,
)
from insitu.devices.host import open_program
from insitu.devices.link import LinkDevice
from insitu.devices.process import ProcessChannel, build_firmware
from insitu.devices.requests import Link
from insitu.errors import DataError, DeviceError

from .damage import FAULTS, RUN, NoSanitizer, build_checked, conversation, storm, survive
from .firmware import CLASSES, IN_PLACE, WAYS, WIDTH, Lossy, Raw, Restarting, calls, open_link, program, samples


@pytest.fixture(params=WAYS)
def raw(request):
    opened = Raw(kind=request.param)
    yield opened
    opened.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_fault_the_device_answers_and_has_the_state_it_had(raw, fault):
    before = raw.prepared()
    raw.send(FAULTS[fault])
    raw.expect_ping()
    assert raw.state() == before


def last_block_cut(body: bytes) -> bytes:
    """A frame with every byte and the right CRC, whose last block announces one more byte."""
    stuffed = bytearray(frame(body)[1:-1])
    at = 0
    while at + stuffed[at] < len(stuffed):
        at += stuffed[at]
    stuffed[at] += 1
    return b"\0" + bytes(stuffed) + b"\0"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (last_block_cut(RUN), DAMAGED),
        (frame(RUN)[:4] + b"\xaa" + frame(RUN)[5:], DAMAGED),
        (frame(b"x" * 600), TOO_LONG),
        (frame(b"x" * 509), TOO_LONG),
        (frame(b"x" * 5), DAMAGED),
    ],
)
def test_what_cannot_be_read_is_answered_with_a_code_and_no_number(raw, data, status):
    raw.send(data)
    answer = raw.answer()
    assert (answer.status, answer.sequence, answer.data) == (status, 0, b"")


@pytest.mark.parametrize(
    ("kind", "fields", "status"),
    [
        (10, {}, UNKNOWN),
        (255, {}, UNKNOWN),
        ("write", {"verb": 2, "data": b"abcd"}, NO_SUCH),
        ("write", {"verb": 1, "index": 3, "data": b"abcd"}, NO_SUCH),
        ("write", {"verb": 1, "offset": 4 * WIDTH - 3, "data": b"abcd"}, OUTSIDE),
        ("write", {"verb": 1, "offset": 0xFFFFFFFF, "data": b"abcd"}, OUTSIDE),
        ("write", {"verb": 1, "offset": 4, "data": b"abcd"}, GAP),
        ("run", {"verb": 1}, NOT_READY),
        ("run", {"verb": 2}, NO_SUCH),
        ("output", {"verb": 0, "count": 4}, NOT_READY),
        ("output", {"verb": 0, "index": 1, "count": 4}, NO_SUCH),
        ("output", {"verb": 255, "index": 255, "count": 4}, NO_SUCH),
        ("state_out", {"offset": 0xFFFFFFF0, "count": 496}, OUTSIDE),
        ("state_out", {"count": 497}, OUTSIDE),
        ("state_out", {"count": 0xFFFF}, OUTSIDE),
        ("state_in", {"offset": 16, "data": b"abcd"}, GAP),
        ("state_in", {"offset": 0xFFFFFFFE, "data": b"abcd"}, OUTSIDE),
        ("state_commit", {}, 11),
    ],
)
def test_a_request_that_cannot_be_served_says_why(raw, kind, fields, status):
    before = raw.state()
    answer = raw.ask(kind, **fields)
    assert (answer.status, answer.data) == (status, b"")
    assert raw.state() == before


@pytest.mark.parametrize(
    ("inputs", "status"),
    [
        ({"label": -1}, LABEL),
        ({"label": CLASSES}, LABEL),
        ({"label": 2**31 - 1}, LABEL),
        ({"rate": np.inf}, NOT_FINITE),
        ({"rate": np.nan}, NOT_FINITE),
        ({"x": np.where(np.arange(WIDTH) == WIDTH - 1, np.nan, 0).astype(np.float32)}, NOT_FINITE),
        ({"x": np.where(np.arange(WIDTH) == 0, -np.inf, 0).astype(np.float32)}, NOT_FINITE),
    ],
)
def test_inputs_that_make_no_sense_are_refused_and_change_nothing(raw, inputs, status):
    raw.learn(100)
    before = raw.state()
    raw.write_step(300, **inputs)
    assert raw.ask("run", 400, verb=1).status == status
    assert raw.state() == before
    raw.learn(500)
    assert raw.state() != before


def test_the_largest_floats_are_finite(raw):
    raw.write_step(1, x=np.full(WIDTH, np.finfo(np.float32).max, np.float32), label=CLASSES - 1)
    assert raw.ask("run", 99, verb=1).status == OK


def test_inputs_are_used_once(raw):
    raw.learn(100)
    assert raw.ask("run", 400, verb=1).status == NOT_READY


def test_half_an_input_is_not_enough(raw):
    raw.write_step(1)
    raw.ask("write", 50, verb=1, index=0, data=bytes(496))  # begins the first one again
    assert raw.ask("run", 51, verb=1).status == NOT_READY


def test_outputs_are_gone_when_their_place_is_written_to(raw):
    raw.learn(100)
    assert raw.ask("output", 300, verb=1, count=4).status == OK
    assert raw.ask("output", 301, verb=0, count=4).status == NOT_READY
    assert raw.ask("output", 302, verb=1, count=5).status == OUTSIDE
    raw.ask("write", 303, verb=1, data=bytes(4))
    assert raw.ask("output", 304, verb=1, count=4).status == NOT_READY


@pytest.mark.parametrize(
    ("offset", "count", "status"), [(0, 496, OK), (0, 497, OUTSIDE), (4, 496, OK), (5, 496, OUTSIDE)]
)
def test_an_output_is_read_a_frame_at_a_time(raw, offset, count, status):
    raw.learn(100)
    answer = raw.ask("output", 300, verb=1, index=1, offset=offset, count=count)
    assert (answer.status, len(answer.data)) == (status, 0 if status else count)


def test_a_repeated_request_is_answered_again_and_not_done_again(raw):
    host = open_program(program())
    raw.write_step(1)
    first = raw.ask("run", 99, verb=1)
    assert raw.ask("run", 99, verb=1) == first
    assert raw.ask("run", 99, verb=1).done == 1
    host.run("train_step", samples()[0][:1], np.zeros(1, np.int32), np.float32(0.1))
    assert raw.state() == host.save_state()


def test_a_repeated_refusal_stays_one(raw):
    assert raw.ask("run", 99, verb=1).status == NOT_READY
    assert raw.ask("run", 99, verb=1).status == NOT_READY


# states -----------------------------------------------------------------------------------------


def _other_model(saved: bytes) -> bytes:
    return open_program(program("float")).save_state()


WRONG_STATES = {
    "of another model": (lambda s: s[:4] + bytes(4) + s[8:], "another model"),
    "of another size": (_other_model, "wrong size"),
    "cut short": (lambda s: s[:-1], "wrong size"),
    "too long": (lambda s: s + b"\0", "wrong size"),
    "empty": (lambda s: b"", "wrong size"),
    "not a state": (lambda s: b"PK\3\4" + s[4:], "not a saved state"),
    "with a changed bit": (lambda s: s[:200] + bytes([s[200] ^ 1]) + s[201:], "damaged"),
}


@pytest.mark.parametrize("wrong", WRONG_STATES)
def test_a_wrong_state_is_refused_and_changes_nothing(wrong):
    spoil, complaint = WRONG_STATES[wrong]
    with open_link() as device:
        device.run(*calls("int8", 0)[0])
        before = device.save_state()
        with pytest.raises(DataError, match=complaint):
            device.load_state(spoil(before))
        assert device.save_state() == before


def test_a_state_is_refused_where_its_chunks_were_overwritten_by_inputs():
    raw = Raw()
    before = raw.state()
    raw.learn(100)
    after = raw.state()
    assert before[:4] == MAGIC.to_bytes(4, "little")
    for at in range(0, len(before), 496):
        assert raw.ask("state_in", 300 + at, offset=at, data=before[at : at + 496]).status == OK
    raw.ask("write", 5, verb=1, data=bytes(8))
    assert raw.ask("state_commit", 6).status == 11
    assert raw.state() == after
    raw.close()


# the client -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "kind"), [(0, "int8"), (1, "int8"), (2, IN_PLACE)])
def test_ten_steps_over_a_line_that_loses_and_changes_bytes_equal_the_hosts(seed, kind):
    host = open_program(program())
    first = host.save_state()
    line = Lossy(ProcessChannel([str(build_firmware(program(kind)))]), seed)
    with LinkDevice(line, program(kind), timeout=0.05, run_timeout=0.1, tries=50) as device:
        for i in range(10):
            for call in calls("int8", i):
                there, here = device.run(*call), host.run(*call)
                assert [a.tobytes() for a in there] == [a.tobytes() for a in here]
        assert device.save_state() == host.save_state()
        device.load_state(first)
        assert device.save_state() == first
    assert line.faults > 10


class Forgetful(Restarting):
    """Loses the answer to every run, once."""

    def __init__(self):
        super().__init__()
        self.lost, self._pending = set(), b""

    def read(self, most: int, timeout: float) -> bytes:
        whole, _, self._pending = (self._pending + super().read(most, timeout)).rpartition(b"\0")
        return b"".join(b"\0" + piece + b"\0" for piece in whole.split(b"\0") if piece and not self._loses(piece))

    def _loses(self, piece: bytes) -> bool:
        answer = read_answer(unframe(piece) or b"")
        if answer is None or answer.kind != KINDS.index("run") or answer.sequence in self.lost:
            return False
        self.lost.add(answer.sequence)
        return True


def test_a_step_whose_answer_was_lost_is_asked_for_again_soon_and_done_once():
    host, line, start = open_program(program()), Forgetful(), time.monotonic()
    with LinkDevice(line, program(), timeout=0.1, run_timeout=600) as device:
        for i in range(3):
            for call in calls("int8", i):
                assert device.run(*call)[0].tobytes() == host.run(*call)[0].tobytes()
        assert device.save_state() == host.save_state()
    assert len(line.lost) == 3
    assert time.monotonic() - start < 20


def test_the_longer_a_call_takes_the_less_often_the_client_asks():
    waits = Link(Silent(), timeout=2, tries=5)._waits(600)
    assert sum(waits) == 600
    assert waits[:5] == [2, 4, 8, 16, 32]
    assert Link(Silent(), timeout=2, tries=3)._waits(0) == [2, 2, 2]


def test_a_device_that_was_reset_comes_up_clean_and_the_client_says_so():
    line = Restarting()
    with LinkDevice(line, program()) as device:
        first = device.save_state()
        step = calls("int8", 0)[0]
        device.run(*step)
        learned = device.save_state()
        line.power_cycle()
        with pytest.raises(DeviceError, match="was reset"):
            device.run(*step)
        assert device.save_state() == first
        device.load_state(learned)
        device.run(*step)
        line.power_cycle()
        with pytest.raises(DeviceError, match="was reset"):
            device.save_state()


class Interrupted(Restarting):
    """Ctrl-C comes while the client waits for an answer: the device has done it by then, or the request is lost."""

    press = lose = False

    def write(self, data: bytes) -> None:
        if not (self.press and self.lose):
            super().write(data)

    def read(self, most: int, timeout: float) -> bytes:
        if self.press:
            self.press = False
            raise KeyboardInterrupt
        return super().read(most, timeout)


@pytest.mark.parametrize("lose", [False, True])
def test_after_an_interrupt_the_device_may_have_done_the_step_or_not(lose):
    line = Interrupted()
    with LinkDevice(line, program()) as device:
        step = calls("int8", 0)[0]
        device.run(*step)
        line.press, line.lose = True, lose
        with pytest.raises(KeyboardInterrupt):
            device.reset()
        device.run(*step)
        line.power_cycle()
        with pytest.raises(DeviceError, match="was reset"):
            device.ping()


def test_a_reset_after_a_state_was_loaded_is_noticed_too():
    line = Restarting()
    with LinkDevice(line, program()) as device:
        device.load_state(device.save_state())
        line.power_cycle()
        with pytest.raises(DeviceError, match="was reset"):
            device.ping()


def test_a_device_with_another_program_is_refused():
    line = ProcessChannel([str(build_firmware(program("float")))])
    with pytest.raises(DeviceError, match="another program"):
        LinkDevice(line, program())
    line.close()


class Silent:
    def write(self, data: bytes) -> None: ...

    def read(self, most: int, timeout: float) -> bytes:
        time.sleep(max(timeout, 0))
        return b""

    def close(self) -> None: ...


class Chatter(Silent):
    """Sends data all the time, but never an answer."""

    def read(self, most: int, timeout: float) -> bytes:
        time.sleep(0.001)
        return os.urandom(min(most, 64))


@pytest.mark.parametrize("line", [Silent, Chatter])
def test_a_device_that_does_not_answer_is_an_error_in_time(line):
    start = time.monotonic()
    with pytest.raises(DeviceError, match="does not answer"):
        LinkDevice(line(), program(), timeout=0.05, tries=3)
    assert time.monotonic() - start < 5


def test_a_device_that_goes_away_is_an_error():
    device = open_link()
    device.channel.process.kill()
    device.channel.process.wait()
    with pytest.raises(DeviceError, match="gone"):
        device.ping()
    device.close()


def test_a_label_that_is_no_class_is_the_users_mistake():
    with open_link() as device, pytest.raises(DataError, match="not a class"):
        device.run("train_step", samples()[0][:1], np.array([CLASSES], np.int32), np.float32(0.1))


# fuzzing ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=WAYS)
def checked(request):
    try:
        return build_checked(request.param)
    except NoSanitizer as e:
        pytest.skip(f"this compiler has no address sanitizer that works: {e}")


def test_thousands_of_damaged_frames_break_nothing(checked):
    assert survive(checked, b"".join(storm(3000, seed=1))) > 3000


def test_damaged_lines_with_the_right_crc_nowhere_leave_the_state_alone(checked):
    survive(checked, b"".join(storm(1500, seed=2, valid=False)), keeps_state=True)


def test_the_conversation_that_is_damaged_holds_every_kind_of_request_and_is_understood(raw):
    kinds = set()
    for body in conversation():
        raw.send(frame(body))
        answer = raw.answer()
        kinds.add(answer.kind)
        assert answer.status == OK, body
    assert kinds == set(range(10))
