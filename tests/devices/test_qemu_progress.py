"""A run on QEMU never seems to hang: slow work is named while it goes on, and a QEMU that is stuck is an error."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from threading import Timer
from time import monotonic

import numpy as np
import pytest

from insitu.cli import main
from insitu.deploy import deploy, limits_of
from insitu.deploy.bundle import write_board
from insitu.devices import qemu
from insitu.terminal.progress import speaking

from ..firmware.images import conv_graphs
from ..training.small_nets import SHAPE

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)
pytestmark = pytest.mark.skipif(not shutil.which(qemu.COMMAND), reason=f"no {qemu.COMMAND}")

PAUSE = 2.0  # seconds that a request is held up


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("board")
    write_board(deploy(conv_graphs(), limits_of("nrf52840", 65536, None)), place)
    rng = np.random.default_rng(0)
    np.savez(place / "x.npz", x=rng.normal(size=(9, *SHAPE[1:])).astype(np.float32), y=np.arange(9) % 3)
    return place


@pytest.fixture
def paused(monkeypatch):
    """Stops QEMU just before its first request to learn, for so many seconds or for ever (None)."""

    def start(seconds: float | None) -> None:
        plain, stopped = qemu.QemuDevice._call, []

        def call(self, verb, samples):
            if not stopped:
                stopped.append(self.qemu.process.pid)
                os.kill(stopped[0], signal.SIGSTOP)
                if seconds is not None:
                    Timer(seconds, os.kill, (stopped[0], signal.SIGCONT)).start()
            return plain(self, verb, samples)

        monkeypatch.setattr(qemu.QemuDevice, "_call", call)
        monkeypatch.setattr("insitu.cli.speaking", lambda: speaking(every=0.3))

    return start


WORK = {
    "epoch 1 of 1 (0 %)": ("--steps", "3", "--rate", "0.05"),
    "measuring the learning rate ...": ("--data", "{folder}/x.npz"),
}


@pytest.mark.parametrize("words", WORK)
def test_a_slow_request_is_named_while_it_goes_on(words, folder, paused, capsys):
    paused(PAUSE)
    given = [word.format(folder=folder) for word in WORK[words]]
    assert main(["run", str(folder), "--on", "qemu", *given]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith(words) and line.endswith("s so far")], said


def test_a_qemu_that_is_stuck_ends_with_an_error(folder, paused, capsys, monkeypatch):
    monkeypatch.setattr(qemu, "MONITOR", 1.0)
    paused(None)
    began = monotonic()
    assert main(["run", str(folder), "--on", "qemu", "--steps", "3", "--rate", "0.05", "--timeout", "2"]) == 1
    assert monotonic() - began < 60
    assert "QEMU does not answer its monitor in 1 seconds" in capsys.readouterr().err
