"""A fleet over the network, around Flower's own commands: a server with its superlink, a device with its supernode.

If the superlink or the app on it dies, both are started again and the run is submitted anew; the app continues after
the last round that was completed. A new superlink knows none of the supernodes and turns them away, which ends them:
`join` starts its supernode again. Ctrl-C stops everything that was started.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from insitu.errors import DataError, DeviceError
from insitu.federated.attempt import ended, submitted
from insitu.federated.checkpoint import rounds_in
from insitu.federated.events import Events, words_of
from insitu.federated.ports import LOOPBACK, check_port
from insitu.federated.processes import Superlink, start_node
from insitu.federated.security import Security, check_server, whole_protection
from insitu.store.lock import locked
from insitu.terminal.colour import say

AGAIN = 5  # times that a superlink or an app is started again without a new round in between
LOG = "supernode.log"
ACCEPTED = "SuperNode ID"  # what a supernode logs once a superlink knows it
REFUSED = "Failed to initialize the connection to the SuperLink."  # and what it logs if it is refused
PATIENCE, PAUSE = 600.0, 1.0  # seconds for which a device tries to come back, and between two tries
LOOK, GONE = 0.5, 4.0  # seconds between two looks; and after which a server that does not listen has ended
QUIET = 8.0  # seconds after which a device says what it waits for; Flower's own start takes about two


@dataclass(frozen=True)
class Served:
    """What a server needs: the learner's file, where its result goes, the settings of the run, and where to listen."""

    learner: Path
    output: Path
    settings: Mapping[str, Any]
    host: str | None = None
    port: int | None = None
    security: Security = field(default_factory=Security)

    @property
    def done(self) -> Path:
        return Path(f"{self.output}.json")

    @property
    def rounds(self) -> Path:
        return Path(f"{self.output}.rounds")


def serve(wanted: Served, ready: Callable[[str], None], wait: float = 0.5) -> dict[str, Any]:
    """Serve until all rounds are done; returns what happened."""
    host = wanted.host or LOOPBACK
    if host != LOOPBACK and wanted.security.certificate is None:
        hint = f"{whole_protection()}, or a tunnel to 127.0.0.1"
        raise DataError("listening for other machines needs a certificate", where=host, hint=hint)
    if wanted.port:
        check_port(host, wanted.port)  # says who listens there, which is more than that its result is taken
    with held(wanted.output):
        return _served(wanted, host, ready, wait)


def _served(wanted: Served, host: str, ready: Callable[[str], None], wait: float) -> dict[str, Any]:
    wanted.done.unlink(missing_ok=True)
    with TemporaryDirectory() as home, Superlink(Path(home), wanted.port or 0, host, wanted.security) as link:
        ready(link.address)
        _serve(wanted, link, wait)
    wanted.rounds.unlink(missing_ok=True)
    return json.loads(wanted.done.read_text())


@contextmanager
def held(output: Path) -> Iterator[None]:
    """Refuse a second server with the same result: each would write its rounds over those of the other."""
    lock = output.with_name(f".{output.name}.lock")
    with lock.open("w") as file:
        if not locked(file.fileno()):
            raise DataError("another server is at work on it", where=str(output), hint="another file for the result")
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _serve(wanted: Served, link: Superlink, wait: float) -> None:
    """Submit the run, again and again, until there is a result."""
    number, failures, reached = 0, 0, _written(wanted.rounds)
    told = len(rounds_in(wanted.rounds))
    while not wanted.done.exists():
        for words in rounds_in(wanted.rounds)[told:]:
            say(words)
            told += 1
        over = ended(link.home, number)
        if over is not None and over.error:
            raise DeviceError(f"the run failed: {over.error}", where="server")
        if number == 0 or over is not None or not link.alive:
            failures, reached = (0 if _written(wanted.rounds) != reached else failures), _written(wanted.rounds)
            if failures > AGAIN:
                raise DeviceError(f"died {failures} times: {_log(link.home)}", where="superlink")
            number, failures = number + 1, failures + 1
            _submit(wanted, link, number)
        time.sleep(wait)


def _submit(wanted: Served, link: Superlink, number: int) -> None:
    if not link.alive:
        link.start()
    files = {"learners": str(wanted.learner), "output": str(wanted.output)}
    link.run({**wanted.settings, **files, **submitted(link.home, number)})


def _written(path: Path) -> float:
    """When this file was written last."""
    return path.stat().st_mtime if path.exists() else 0.0


def _log(home: Path) -> str:
    return (home / "superlink.log").read_text(errors="replace")[-400:]


@dataclass(frozen=True)
class Joined:
    """What a device needs: the server's address, its own files, and how the connection is protected."""

    superlink: str
    settings: Mapping[str, Any]
    security: Security = field(default_factory=Security)
    patience: float = PATIENCE
    quiet: float = QUIET


def join(wanted: Joined) -> dict[str, Any]:
    """Take part until the run is over; returns the last event (events.py). A supernode that ends after it was accepted
    once is started again. Ctrl-C leaves earlier."""
    check_server(wanted.superlink, wanted.security.authority)
    accepted, since = False, time.monotonic()
    with TemporaryDirectory() as folder:
        events = Events(Path(folder) / "events")
        while True:
            log = _taken_part(wanted, events)
            if events.last and gone(wanted.superlink):
                return events.last
            if ACCEPTED in log:
                accepted, since = True, time.monotonic()
            if not accepted or time.monotonic() - since > wanted.patience:
                raise DeviceError(f"ended: {_reason(log)}", where=f"supernode of {wanted.superlink}")
            time.sleep(PAUSE)


def _taken_part(wanted: Joined, events: Events) -> str:
    """One supernode, until it ends or the run is over; returns what it logged. It ends with code 0 even if the server
    refused it."""
    settings = {**wanted.settings, "events": str(events.file)}
    with TemporaryDirectory() as home:
        process, log = start_node(Path(home), wanted.superlink, settings, wanted.security), Path(home) / LOG
        try:
            _follow(process, log, wanted, events)
        finally:
            process.stop()
        return log.read_text(errors="replace")


def _follow(process: subprocess.Popen, log: Path, wanted: Joined, events: Events) -> None:
    """Say what happens, until the supernode ends, or the server does after its last message. If no server has accepted
    this device after some seconds, and none listens (Flower's own start may take long), say what it waits for."""
    end = time.monotonic() + wanted.quiet
    while process.poll() is None:
        for words in filter(None, map(words_of, events.new())):
            say(words)
        if events.last and gone(wanted.superlink):
            return
        if time.monotonic() > end:
            end = float("inf")
            if ACCEPTED not in log.read_text(errors="replace") and not listens(wanted.superlink):
                say(f"note: no server answers at {wanted.superlink} yet; waiting until `insitu fleet serve` listens "
                    "there. Ctrl-C stops")  # fmt: skip
        time.sleep(LOOK)
    events.new()


def gone(address: str, seconds: float = GONE) -> bool:
    """Has nobody listened there for some seconds?"""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if listens(address, seconds):
            return False
        time.sleep(LOOK)
    return True


def listens(address: str, seconds: float = GONE) -> bool:
    """Does anybody take connections there?"""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=seconds):
            return True
    except OSError:
        return False


def _reason(log: str) -> str:
    """What a supernode says at last; for one that was refused, what the server said, and what to do."""
    if REFUSED not in log:
        return log.strip()[-500:]
    said = log.partition(REFUSED)[2].strip().splitlines()[:1]
    return f"the server refused this device ({''.join(said)}); does the server know its public key?"
