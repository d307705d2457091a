"""A state received over the old one: whatever happens meanwhile, the device never works with half a state."""

import struct
from importlib.util import find_spec

import numpy as np
import pytest

from insitu.codegen.device import DATA_BYTES, device_arena_bytes, interface_of
from insitu.codegen.state import HEADER_BYTES
from insitu.devices.emulator import EmulatorChannel, open_emulator
from insitu.devices.frames import BETWEEN, GAP, NOT_READY, OK, frame, request
from insitu.devices.host import open_program
from insitu.devices.link import LinkDevice
from insitu.errors import DataError, DeviceError

from .firmware import IN_PLACE, Raw, Restarting, calls, open_link, program, samples

BOARD = "nrf52840"
EMULATED = all(find_spec(package) for package in ("unicorn", "elftools", "ziglang"))
HALF = 4 * DATA_BYTES  # of a state of 9 chunks
NEEDS_STATE = {
    "write": {"verb": 1, "data": bytes(4)},
    "run": {"verb": 1},
    "output": {"verb": 1, "count": 4},
    "state_out": {"count": 16},
    "counters": {},
}


@pytest.fixture(scope="module")
def emulator():
    return open_emulator(program(IN_PLACE), BOARD) if EMULATED else None


@pytest.fixture(params=["a process", "an emulated core"])
def raw(request, emulator):
    if request.param == "a process":
        opened = Raw(kind=IN_PLACE)
        yield opened
        opened.close()
        return
    if emulator is None:
        pytest.skip("nothing here emulates")
    emulator.restart()
    yield Raw(EmulatorChannel(emulator.core))


@pytest.fixture(scope="module")
def learned() -> bytes:
    """A state that is not the first one."""
    host = open_program(program())
    host.run(*calls("int8", 0)[0])
    return host.save_state()


@pytest.fixture(scope="module")
def first() -> bytes:
    return open_program(program()).save_state()


def statuses(raw: Raw, sequence: int) -> set[int]:
    return {raw.ask(kind, sequence + i, **fields).status for i, (kind, fields) in enumerate(NEEDS_STATE.items())}


def interrupted(raw: Raw, saved: bytes) -> None:
    """Half of a state has arrived, and the rest does not come."""
    raw.send_state(saved, 100, end=HALF)
    assert statuses(raw, 200) == {BETWEEN}


def committed(raw: Raw, saved: bytes, sequence: int = 300) -> None:
    raw.send_state(saved, sequence)
    assert raw.ask("state_commit", sequence + 90).status == OK


def test_the_arena_is_smaller_than_a_saved_state_if_and_only_if_that_comes_in_place():
    for kind in ("int8", IN_PLACE):
        made = interface_of(program(kind))
        assert (made.arena_bytes < made.saved_bytes) == (kind == IN_PLACE)
    assert device_arena_bytes(program(IN_PLACE)) == program().arena_bytes
    assert interface_of(program(IN_PLACE)).info() != interface_of(program()).info()


def test_a_state_that_came_in_place_is_the_state(raw, learned, first):
    assert raw.state() == first
    committed(raw, learned)
    assert raw.state() == learned
    raw.learn(500)
    assert raw.state() != learned


def test_half_a_state_is_none_until_a_whole_one_has_come(raw, learned):
    interrupted(raw, learned)
    assert raw.ask("ping", 290, data=b"there?").data == b"there?"
    assert raw.ask("info", 291).data == interface_of(program(IN_PLACE)).info()
    committed(raw, learned)
    assert raw.state() == learned
    raw.learn(500)


def test_a_reset_ends_half_a_state(raw, learned, first):
    interrupted(raw, learned)
    assert raw.ask("reset", 290).status == OK
    assert raw.state() == first
    assert raw.ask("state_in", 291, offset=HALF, data=learned[HALF : HALF + 4]).status == GAP
    raw.learn(500)


def test_requests_that_are_refused_on_the_way_do_not_end_a_state(raw, learned):
    interrupted(raw, learned)
    raw.send_state(learned, 400, start=HALF)
    assert raw.ask("state_commit", 490).status == OK
    assert raw.state() == learned


def test_a_head_alone_touches_nothing(raw, learned, first):
    assert raw.ask("state_in", 1, data=learned[:HEADER_BYTES]).status == OK
    assert raw.state() == first
    assert raw.ask("state_in", 2, offset=HEADER_BYTES, data=learned[HEADER_BYTES : HEADER_BYTES + 1]).status == OK
    assert statuses(raw, 3) == {BETWEEN}


def word(saved: bytes, number: int, change: int = 1) -> bytes:
    """A first chunk with one word of its header changed."""
    (found,) = struct.unpack_from("<I", saved, 4 * number)
    return saved[: 4 * number] + struct.pack("<I", found ^ change) + saved[4 * number + 4 : DATA_BYTES]


WRONG = {
    "not a state": (lambda s: word(s, 0), 12),
    "of another model": (lambda s: word(s, 1), 13),
    "of another size": (lambda s: word(s, 2), 11),
    "less than a head": (lambda s: s[: HEADER_BYTES - 1], 11),
    "nothing": (lambda s: b"", 11),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_state_of_this_model_is_refused_before_anything_is_touched(raw, learned, wrong):
    spoil, status = WRONG[wrong]
    before = raw.prepared()
    assert raw.ask("state_in", 300, data=spoil(learned)).status == status
    assert raw.state() == before
    assert raw.ask("run", 301, verb=1).status == OK, "the inputs of a step were there, and still are"


def test_what_is_no_state_of_this_model_does_not_end_half_of_one_that_is(raw, learned):
    interrupted(raw, learned)
    for i, (spoil, status) in enumerate(WRONG.values()):
        assert raw.ask("state_in", 290 + i, data=spoil(learned)).status == status
    assert statuses(raw, 300) == {BETWEEN}
    raw.send_state(learned, 400, start=HALF)
    assert raw.ask("state_commit", 490).status == OK and raw.state() == learned


def test_a_wrong_crc_is_found_in_the_end_and_leaves_no_state(raw, learned):
    raw.send_state(word(learned, 3) + learned[DATA_BYTES:], 100)
    assert raw.ask("state_commit", 190).status == 14
    assert statuses(raw, 200) == {BETWEEN}
    assert raw.ask("state_commit", 290).status == 11, "what came is forgotten"
    committed(raw, learned)
    assert raw.state() == learned


def test_a_commit_that_comes_too_early_leaves_no_state_and_ends_what_came(raw, learned):
    interrupted(raw, learned)
    assert raw.ask("state_commit", 290).status == 11
    assert raw.ask("state_in", 291, offset=HALF, data=learned[HALF : HALF + 4]).status == GAP
    assert statuses(raw, 300) == {BETWEEN}
    committed(raw, learned, 400)


def test_a_commit_of_nothing_changes_nothing(raw, first):
    assert raw.ask("state_commit", 1).status == 11
    assert raw.state() == first


def test_a_damaged_chunk_is_not_taken_and_can_be_sent_again(raw, learned):
    interrupted(raw, learned)
    chunk = frame(request("state_in", 290, offset=HALF, data=learned[HALF : HALF + DATA_BYTES]))
    raw.send(chunk[:40] + bytes([chunk[40] ^ 0x40 or 1]) + chunk[41:])
    assert (raw.answer().sequence, raw.ask("ping", 291).status) == (0, OK)
    raw.send_state(learned, 400, start=HALF)
    assert raw.ask("state_commit", 490).status == OK and raw.state() == learned


def test_chunks_and_commits_that_come_again_are_answered_again_and_done_once(raw, learned):
    for at in range(0, len(learned), DATA_BYTES):
        fields = {"offset": at, "data": learned[at : at + DATA_BYTES]}
        assert {raw.ask("state_in", 1 + at, **fields).status for _ in range(3)} == {OK}
    assert {(a.status, a.done) for a in (raw.ask("state_commit", 9) for _ in range(3))} == {(OK, 1)}
    assert raw.state() == learned


def test_a_refusal_that_comes_again_stays_one(raw, learned):
    interrupted(raw, learned)
    assert {raw.ask("run", 290, verb=1).status for _ in range(3)} == {BETWEEN}


def test_a_chunk_that_does_not_follow_is_refused_and_the_right_one_still_taken(raw, learned):
    interrupted(raw, learned)
    after = HALF + DATA_BYTES
    assert raw.ask("state_in", 290, offset=after, data=learned[after : after + 4]).status == GAP
    raw.send_state(learned, 400, start=HALF)
    assert raw.ask("state_commit", 490).status == OK and raw.state() == learned


def test_a_state_ends_the_inputs_that_came_before_it(raw, learned):
    raw.write_step(100)
    committed(raw, learned)
    assert raw.ask("run", 500, verb=1).status == NOT_READY
    assert raw.state() == learned


# the client -------------------------------------------------------------------------------------


class Breaking(Restarting):
    """A line that, on request, only passes a limited number of writes."""

    def __init__(self):
        super().__init__(IN_PLACE)
        self.left = 1 << 30

    def write(self, data: bytes) -> None:
        self.left -= 1
        if self.left >= 0:
            super().write(data)


def broken_off(device: LinkDevice, line: Breaking, saved: bytes) -> None:
    line.left = 3
    with pytest.raises(DeviceError, match="does not answer"):
        device.load_state(saved)
    line.left = 1 << 30


def test_after_a_state_that_broke_off_the_client_says_what_to_do_and_that_works(learned, first):
    line = Breaking()
    with LinkDevice(line, program(IN_PLACE), timeout=0.2, tries=2) as device:
        broken_off(device, line, learned)
        for use in (lambda: device.run(*calls("int8", 1)[0]), device.save_state, device.state, device.counters):
            with pytest.raises(DeviceError, match="between two states") as e:
                use()
            assert "load(...)" in e.value.hint and "reset" in e.value.hint
        device.load_state(learned)
        assert device.save_state() == learned
        broken_off(device, line, first)
        device.reset()
        assert device.save_state() == first


def test_a_device_that_loses_its_power_in_the_middle_comes_up_with_its_first_state(learned, first):
    line = Breaking()
    with LinkDevice(line, program(IN_PLACE), timeout=0.2, tries=2) as device:
        device.run(*calls("int8", 0)[0])
        broken_off(device, line, learned)
        line.power_cycle()
        with pytest.raises(DeviceError, match="was reset"):
            device.ping()
        assert device.save_state() == first
        device.load_state(learned)
        assert device.save_state() == learned


DAMAGED = {
    "a changed bit": lambda s: s[:700] + bytes([s[700] ^ 1]) + s[701:],
    "another model": lambda s: s[:4] + bytes(4) + s[8:],
    "cut short": lambda s: s[:-1],
    "too long": lambda s: s + b"\0",
    "empty": lambda s: b"",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_found_before_a_byte_of_it_is_sent(learned, damage):
    with open_link(IN_PLACE) as device:
        device.run(*calls("int8", 0)[0])
        before, frames = device.save_state(), device.counters()["frames"]
        with pytest.raises(DataError):
            device.load_state(DAMAGED[damage](learned))
        assert device.counters()["frames"] == frames + 1
        assert device.save_state() == before


def test_training_after_a_state_that_came_in_place_gives_the_bytes_of_the_host(emulator, learned):
    if emulator is None:
        pytest.skip("nothing here emulates")
    emulator.restart()
    host = open_program(program())
    host.load_state(learned)
    emulator.load_state(learned)
    for i in range(3):
        for call in calls("int8", i):
            there, here = emulator.run(*call), host.run(*call)
            assert [a.tobytes() for a in there] == [a.tobytes() for a in here]
    assert emulator.save_state() == host.save_state() != learned
    x = samples()[0][:2]
    assert np.array_equal(emulator.predict(x), host.predict(x))
