"""What `serve` and `join` start ends with them, however they end; and a port that is taken says by whom."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from insitu.errors import DeviceError
from insitu.federated.attempt import alive
from insitu.federated.ports import LOOPBACK, check_port, free_port, holder_of
from tests.federated.fleet import fresh

PARENT = """
import sys, time
from insitu.federated.guarded import Guarded
child = "import subprocess as s, time; p = s.Popen(['sleep', '600']); print(p.pid, flush=True); time.sleep(600)"
made = Guarded([sys.executable, "-c", child], stdout=sys.stdout)
print(made.pid, flush=True)
if "stop" in sys.argv:
    time.sleep(1)
    made.stop()
else:
    time.sleep(600)
"""


def gone(pids, seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.1)
    return not any(alive(pid) for pid in pids)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_process_and_its_children_end_with_a_parent_that_is_killed_or_stops_them(how):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, how], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(parent.stdout.readline()) for _ in range(2)]
    assert all(alive(pid) for pid in pids)
    if how == "kill":
        parent.kill()
    assert gone(pids)
    parent.wait(30)


def test_a_port_that_is_taken_says_by_whom():
    check_port(LOOPBACK, free_port())
    with socket.create_server((LOOPBACK, 0)) as s:
        port = s.getsockname()[1]
        with pytest.raises(DeviceError) as e:
            check_port(LOOPBACK, port)
    assert "another port: port=N" in str(e.value)
    if Path("/proc/net/tcp").exists():
        program = Path("/proc/self/cmdline").read_bytes().split(b"\0")[0].decode()
        assert f"process {os.getpid()} listens there: {program}" in str(e.value)


@pytest.mark.slow
def test_the_superlink_ends_with_a_server_that_is_killed_and_a_second_server_is_told_who_listens(tmp_path):
    pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')
    fresh().save(tmp_path / "g.insitu")
    port, log = free_port(), tmp_path / "serve.log"
    command = [sys.executable, "-m", "insitu", "fleet", "serve", str(tmp_path / "g.insitu"), "--port", str(port),
               "-o", str(tmp_path / "together.insitu")]  # fmt: skip
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        end = time.monotonic() + 240
        while "listening" not in log.read_text():
            assert server.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.2)
        link = holder_of(port)
        second = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert second.returncode == 1 and f"process {link} listens there" in second.stderr
        server.send_signal(signal.SIGKILL)
        assert link is not None and gone([link], 60)
        check_port(LOOPBACK, port)
    finally:
        with suppress(ProcessLookupError):
            server.kill()
        server.wait(30)
