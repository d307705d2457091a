"""A board on a serial port: pyserial on one end of a pseudo-terminal, the firmware on the other."""

import os

import pytest

from insitu.devices.host import open_program
from insitu.devices.serial import open_serial
from insitu.errors import DeviceError

from .firmware import calls, program, samples
from .terminal import Terminal

pytest.importorskip("serial")
if not hasattr(os, "openpty"):
    pytest.skip("no pseudo-terminals on this system", allow_module_level=True)


@pytest.fixture
def board():
    made = Terminal(program())
    yield made
    made.close()


def test_ten_training_steps_through_a_serial_port_equal_the_hosts(board):
    host = open_program(program())
    with open_serial(board.port, program()) as device:
        assert device.predict(samples()[0]).tobytes() == host.predict(samples()[0]).tobytes()
        for i in range(10):
            for call in calls("int8", i):
                there, here = device.run(*call), host.run(*call)
                assert [a.tobytes() for a in there] == [a.tobytes() for a in here]
        assert device.save_state() == host.save_state()


def test_every_byte_passes_the_terminal_unchanged(board):
    with open_serial(board.port, program()) as device:
        device.ping(bytes(range(256)))


def test_what_a_board_says_before_it_is_asked_does_not_matter(board):
    os.write(board.near, b"booting...\r\n\0\x05junk")
    with open_serial(board.port, program(), timeout=0.5) as device:
        os.write(board.near, b"debug: 1\r\n")
        device.ping(b"hello")


def test_another_client_finds_the_state_that_was_learned(board):
    with open_serial(board.port, program()) as device:
        device.run(*calls("int8", 0)[0])
        learned = device.save_state()
    with open_serial(board.port, program()) as device:
        assert device.save_state() == learned


def test_a_port_that_is_not_there_is_an_error_that_names_it():
    with pytest.raises(DeviceError, match="/dev/nothing: cannot be opened"):
        open_serial("/dev/nothing", program())


URLS = {
    "socket://127.0.0.1:9": "is the serial port server at 127.0.0.1:9 on",
    "rfc2217://127.0.0.1:9": "is the serial port server at 127.0.0.1:9 on",
    "hwgrep://nothing-has-this-name": "is the rest of the address right",
    "moon://10.0.0.7": "is the rest of the address right",
}


@pytest.mark.parametrize("url", URLS)
def test_an_address_that_does_not_answer_has_a_hint_of_its_own(url):
    with pytest.raises(DeviceError, match="cannot be opened") as error:
        open_serial(url, program())
    assert URLS[url] in error.value.hint and "/dev/tty" not in error.value.hint.replace("spy:///dev/ttyACM0", "")


def test_a_board_with_another_program_is_refused(board):
    with pytest.raises(DeviceError, match="another program"):
        open_serial(board.port, program("float"))


def test_a_board_that_is_unplugged_is_an_error(board):
    device = open_serial(board.port, program(), timeout=0.2, tries=2)
    board.unplug()
    with pytest.raises(DeviceError):
        device.ping()
    device.close()
