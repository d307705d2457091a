"""What a large fleet asks of its server: CPU time of a superlink per request, of averaging per reply, and what follows.

    python -m bench.fleet_scale             measured on this machine, then 10,000 and 1,000,000 devices on paper

A supernode of Flower's joins a superlink through the counting proxy of bench.fleet_wire; its own poll is then sent
again, many times, over one connection, and the superlink's CPU time is read. Averaging is that of insitu's strategy:
decode, check, add; ternary deltas of the watch network. On paper: a superlink has one core of this machine and uses
half of it; a round takes 1 % of the devices and waits a minute for the slowest.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.fleet_wire import Proxy
from insitu.federated.checks import Limits, checked_reply
from insitu.federated.handout import base_of
from insitu.federated.processes import Superlink, start_node
from insitu.federated.rounds import averaged, programs_of
from insitu.federated.security import Security
from insitu.terminal.table import table

REPEATS, REPLIES = 400, 200
REQUESTS = 10  # of a device in a round: counted by bench.fleet_wire
WIRE = 24_000  # bytes of a device and round: likewise
POLL, HEARTBEAT = 3.0, 30.0  # seconds
BUSY, SHARE, SECONDS = 0.5, 0.01, 60.0  # of a core, of the devices in a round, of the slowest device
DAY = 86_400
WAIT = 30.0  # seconds for an answer


class Remembering(Proxy):
    """Also keeps the last whole poll; its body may come by itself."""

    poll = part = b""

    def note(self, data: bytes) -> None:
        if data.startswith(b"POST /v1/fleet/pull-messages "):
            self.part = data
        elif self.part and not data.startswith((b"POST ", b"HTTP/")):
            self.part += data
        if complete(self.part):
            self.poll, self.part = self.part, b""


LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def complete(data: bytes) -> bool:
    """Is this a whole HTTP message?"""
    head, end, body = data.partition(b"\r\n\r\n")
    length = LENGTH.search(head)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


def request_seconds() -> float:
    """CPU time of a superlink for one poll."""
    with TemporaryDirectory() as home, Superlink(Path(home)) as link:
        proxy = Remembering(link.address)
        node = start_node(Path(home) / "node", proxy.address, {}, Security())
        try:
            while not proxy.poll:
                time.sleep(0.2)
            assert link.process is not None  # it was started
            again(link.address, proxy.poll, 20)
            before = cpu(link.process.pid)
            again(link.address, proxy.poll, REPEATS)
            return (cpu(link.process.pid) - before) / REPEATS
        finally:
            node.stop()


def again(address: str, request: bytes, count: int) -> None:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT) as line:
        for _ in range(count):
            line.sendall(request)
            answer = b""
            while not complete(answer):
                answer += line.recv(1 << 16)
            if b" 200 " not in answer[:20]:
                raise SystemExit("the superlink refused a poll")


def cpu(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def reply_seconds() -> float:
    """CPU time of decoding, checking and averaging one reply."""
    from insitu.demo.fleet import watches
    from insitu.federated.member import Member, Task
    from insitu.federated.rounds import Fleet

    learner, devices = watches(1)
    fleet = Fleet([Member(learner, *devices[0][0], coding="ternary")])
    base = base_of(fleet.arrays, fleet.catalogue)
    member, programs = fleet.members[0], programs_of([fleet.members[0].units])
    delta = member.train(base.packed, fleet.catalogue, Task()).delta
    start = time.process_time()
    replies = [checked_reply(delta, programs, base.id, base.arrays, Limits()) for _ in range(REPLIES)]
    averaged(base.arrays, replies, fleet.catalogue)
    return (time.process_time() - start) / REPLIES


def on_paper(devices: int, request: float, reply: float) -> tuple[str, ...]:
    taken = devices * SHARE
    round_cpu = taken * (REQUESTS * request + reply)
    idle = devices * (1 / POLL + 1 / HEARTBEAT) * request / BUSY
    daily = devices * (REQUESTS * request + reply) / DAY / BUSY
    seconds = max(SECONDS, round_cpu / BUSY)
    links = [f"{int(np.ceil(n)):,}" for n in (daily, idle)]
    return (f"{devices:,}", f"{taken * WIRE / 1e6:,.1f} MB", f"{round_cpu:,.1f} s", f"{DAY / seconds:,.0f}",
            f"{taken * WIRE / seconds / 1e3:,.0f} KB/s", *links)  # fmt: skip


def main() -> int:
    request, reply = request_seconds(), reply_seconds()
    print(f"superlink: {1e3 * request:.2f} ms of CPU per request; averaging: {1e3 * reply:.2f} ms per reply")
    head = ("devices", "a round", "its CPU time", "rounds a day, one superlink", "bytes", "superlinks: each once a day",
            "all connected")  # fmt: skip
    print(table(head, [on_paper(n, request, reply) for n in (10_000, 1_000_000)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
