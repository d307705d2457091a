"""The line to an emulated core: faults, a reset, and pyserial through a pseudo-terminal, on the firmware of a board."""

import os
import select
import signal
import threading

import pytest

from insitu.devices.emulator import EmulatorChannel, open_emulator
from insitu.devices.host import open_program
from insitu.devices.serial import open_serial

from .damage import FAULTS
from .firmware import Raw, calls, program, samples

for package in ("unicorn", "elftools", "ziglang"):
    pytest.importorskip(package)

BOARD = "nrf52840"


@pytest.fixture(scope="module")
def emulator():
    return open_emulator(program(), BOARD)


@pytest.fixture
def fresh(emulator):
    emulator.restart()
    return emulator


def test_after_every_fault_an_emulated_core_answers_and_has_the_state_it_had(fresh):
    raw = Raw(EmulatorChannel(fresh.core))
    before = raw.prepared()
    for fault in FAULTS.values():
        raw.send(fault)
        raw.expect_ping()
        assert raw.state() == before


def test_a_reset_between_frames_brings_up_the_state_the_program_began_with(fresh):
    raw, first = Raw(EmulatorChannel(fresh.core)), open_program(program()).save_state()
    assert raw.prepared() != first
    fresh.restart()
    assert raw.state() == first
    raw.learn(300)


@pytest.mark.parametrize("moment", range(1, 7))
def test_ctrl_c_waits_for_the_answer_of_a_core_and_is_never_lost(fresh, moment, monkeypatch):
    """Python drops what is raised inside of Unicorn's callbacks: the work went on as if nobody had pressed it."""
    dropped, x = [], samples()[0]
    monkeypatch.setattr("sys.unraisablehook", dropped.append)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    press = threading.Timer(0.013 * moment, os.kill, (os.getpid(), signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            press.start()
            for _ in range(100):
                fresh.predict(x)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not dropped


class Terminal:
    """Passes bytes between a pseudo-terminal and a core; `port` is the terminal's name."""

    def __init__(self, core):
        self.core = core
        self.near, self.far = os.openpty()
        self.port = os.ttyname(self.far)
        self._stop, self._stopping = os.pipe()
        self._thread = threading.Thread(target=self._carry)
        self._thread.start()

    def _carry(self) -> None:
        while self._stop not in select.select([self.near, self._stop], [], [])[0]:
            self.core.send(os.read(self.near, 4096))
            said = self.core.receive()
            while said:
                said = said[os.write(self.near, said) :]

    def close(self) -> None:
        os.close(self._stopping)
        self._thread.join(60)
        for end in (self.near, self.far, self._stop):
            os.close(end)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals on this system")
def test_ten_training_steps_through_a_serial_port_and_an_emulated_core_equal_the_hosts(fresh):
    pytest.importorskip("serial")
    host, terminal = open_program(program()), Terminal(fresh.core)
    try:
        with open_serial(terminal.port, program(), timeout=10) as device:
            assert device.predict(samples()[0][:2]).tobytes() == host.predict(samples()[0][:2]).tobytes()
            for i in range(10):
                for call in calls("int8", i):
                    there, here = device.run(*call), host.run(*call)
                    assert [a.tobytes() for a in there] == [a.tobytes() for a in here]
            assert device.save_state() == host.save_state()
    finally:
        terminal.close()
