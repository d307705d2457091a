"""A fleet through Flower's own processes on loopback: two supernodes, and a gateway with three boards in QEMU.

The boards run the image that would be flashed. Everything is killed in turn, and the run still completes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.boards import find_board
from insitu.errors import DeviceError
from insitu.federated.gateway import Board, Gateway, from_samples
from insitu.federated.member import Member, Task
from insitu.federated.rounds import Fleet
from insitu.federated.serving import Served, serve
from insitu.federated.units import to_real, units_of
from tests.devices.chips import command, expect_port, free_port
from tests.federated.fleet import members, samples
from tests.learners import imported

for package in ("flwr", "serial", "elftools", "ziglang"):
    pytest.importorskip(package, reason=f"{package} is not installed: it is part of the dev extra")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="no qemu-system-arm"),
    pytest.mark.skipif(not shutil.which("flower-superlink"), reason="Flower's commands are not on the PATH"),
]
RATE, BOARD = 0.02, "stm32f405"


class Chip:
    """A board in QEMU, which can be unplugged and plugged in again on the same port."""

    def __init__(self, image: Path, folder: Path):
        self.board, self.image, self.port = find_board(BOARD), image, free_port()
        self.noise = folder / "noise.bin"
        self.noise.write_bytes(np.random.default_rng(7).bytes(self.board.sram.bytes))
        self._start = lambda: subprocess.Popen(command(self.board, self.image, self.noise, self.port))
        self.plug_in()

    def plug_in(self) -> None:
        self.process = self._start()
        expect_port(self.process, self.port)

    def unplug(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def place(self) -> str:
        return f"serial:socket://127.0.0.1:{self.port}"


class Site:
    """The files of everybody, and the processes that were started."""

    def __init__(self, folder: Path):
        self.folder, self.learner = folder, insitu.compile(
            imported(), classes=4, scheme="last:1", precision="float", head_init="uniform", board=BOARD)  # fmt: skip
        self.learner.save(folder / "g.insitu")
        self.learner.write(folder / "build")
        self.data = [folder / f"{k}.npz" for k in range(3)]
        for (x, y), path in zip([*members(2), samples(60, 9)], self.data):
            np.savez(path, x=x, y=y)
        self.chips = [Chip(folder / "build" / "firmware.bin", folder) for _ in range(3)]
        self.nodes: dict[str, subprocess.Popen] = {}

    def join(self, name: str, address: str) -> None:
        """As a user would: `insitu fleet join`, or `gateway`, in a process of its own."""
        word, more = ("gateway", ["--build", self.folder / "build"]) if name == "gateway" else ("join", [])
        if name == "gateway":
            more += ["--boards", ",".join(chip.place for chip in self.chips)]
        data = self.data[2 if name == "gateway" else int(name)]
        files = [self.folder / "g.insitu", "--data", data, "--test", data]  # no sample is kept apart
        command = [sys.executable, "-m", "insitu", "fleet", word, *files, "--superlink", address, *more]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.nodes[name] = subprocess.Popen([str(c) for c in command], stdout=log, stderr=log)

    def kill(self, pattern: str, parent: int | None = None) -> None:
        """Kill one of Flower's processes, without a warning."""
        under = [] if parent is None else ["-P", str(parent)]
        found = subprocess.run(["pgrep", *under, "-f", pattern], capture_output=True, text=True)
        os.kill(int(found.stdout.split()[0]), signal.SIGKILL)

    def serve(self, rounds: int, meanwhile=lambda site: None) -> dict:
        """Serve in another thread, everybody joins, and `meanwhile` happens."""
        output, found = self.folder / "together.insitu", {}
        settings = {"rounds": rounds, "clients": 3, "epochs": 1, "rate": RATE, "strategy": "fedavg", "timeout": 180.0}
        ready, where = threading.Event(), []

        def on(address: str) -> None:
            where.append(address)
            ready.set()

        def work() -> None:
            found.update(serve(Served(self.folder / "g.insitu", output, settings), on))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert ready.wait(120)
        self.address = where[0]
        for name in ("0", "1", "gateway"):
            self.join(name, self.address)
        meanwhile(self)
        thread.join(540)
        assert not thread.is_alive(), self.logs()
        return found

    def round(self) -> int:
        """The last round that was completed."""
        path = self.folder / "together.insitu.rounds"
        try:
            with np.load(path) as found:
                return int(found["round"])
        except (OSError, ValueError):
            return 0

    def wait_for(self, number: int, seconds: float = 240) -> None:
        end = time.monotonic() + seconds
        while self.round() < number and not (self.folder / "together.insitu.json").exists():
            assert time.monotonic() < end, self.logs()
            time.sleep(0.2)

    def logs(self) -> str:
        return "\n".join(f"{p.name}: {p.read_text(errors='replace')[-600:]}" for p in self.folder.rglob("*.log"))

    def close(self) -> None:
        for node in self.nodes.values():
            node.terminate()
        for node in self.nodes.values():
            node.wait(30)
        for chip in self.chips:
            chip.unplug()


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    with ExitStack() as stack:
        stack.callback(made.close)
        yield made


class Absent(set):
    """Boards that do not answer in a round of the plain simulation."""

    def open(self, site: Site, name: str):
        if name in self:
            raise DeviceError("is unplugged", where=name)
        return site.learner.on("process").device


def plain(site: Site, rounds: list[dict]) -> Fleet:
    """The same rounds in this process with those who took part in each, the boards as processes of this machine."""
    data, absent = [dict(np.load(path)) for path in site.data], Absent()
    x, y = data[2]["x"], data[2]["y"]
    names = [chip.place for chip in site.chips]
    boards = [Board(name, lambda name=name: absent.open(site, name), from_samples(site.learner, x[i::3], y[i::3]))
              for i, name in enumerate(names)]  # fmt: skip
    devices = [Member(insitu.open(site.folder / "g.insitu"), d["x"], d["y"]) for d in data[:2]]
    gateway = Gateway(insitu.open(site.folder / "g.insitu"), boards)
    fleet, counts = Fleet([*devices, gateway]), [len(d["y"]) for d in data[:2]]
    for r in rounds:
        chosen = sorted(counts.index(w["samples"]) if w["samples"] in counts else 2 for w in r["who"])
        absent |= {name for name in names for w in r["who"] for said in w["left_out"] if said.startswith(name)}
        for board in boards:
            board.lost(DeviceError("a new round"))
        fleet.round(Task(epochs=1, rate=RATE, seed=1000 * r["round"]), chosen)
        absent.clear()
    gateway.close()
    return fleet


def equals_plain(site: Site, about: dict) -> None:
    made, wanted = insitu.open(site.folder / "together.insitu"), plain(site, about["rounds"]).arrays
    found = to_real(units_of(made.graphs), made.device.state())
    for name, a in wanted.items():
        np.testing.assert_allclose(found[name], a, atol=1e-4 * max(1.0, np.abs(a).max()), err_msg=name)


def test_flowers_processes_come_to_the_model_of_plain_rounds(site):
    about = site.serve(2)
    assert [r["replies"] for r in about["rounds"]] == [3, 3] and not about["dropped"]
    equals_plain(site, about)


def test_a_board_a_supernode_and_the_superlink_die_in_turn_and_the_run_completes(site):
    def havoc(site: Site) -> None:
        site.wait_for(1)
        site.chips[0].unplug()
        site.wait_for(2)
        site.chips[0].plug_in()
        site.kill("flower-supernode", site.nodes["0"].pid)
        site.wait_for(3)
        site.kill(f"flower-superlink.*--port {site.address.rpartition(':')[2]}")

    about = site.serve(5, havoc)
    assert [r["round"] for r in about["rounds"]] == [1, 2, 3, 4, 5]
    assert any(w["left_out"] for w in about["rounds"][1]["who"]), about  # the board that was unplugged
    assert about["rounds"][-1]["replies"] == 3
    equals_plain(site, about)
