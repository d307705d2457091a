"""A fleet over the network, around Flower's own commands: a server with its superlink, a device with its supernode.

If the superlink dies, it is started again and the run submitted anew; the app continues after the last round that was
completed. Ctrl-C stops everything that was started.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from insitu.errors import DataError, DeviceError
from insitu.federated.processes import LOOPBACK, Security, Superlink, start_node, stop

AGAIN = 5  # times that a superlink is started again


@dataclass(frozen=True)
class Served:
    """What a server needs: the learner's file, where its result goes, the settings of the run, and where to listen."""

    learner: Path
    output: Path
    settings: Mapping[str, Any]
    host: str | None = None
    port: int | None = None
    security: Security = field(default_factory=Security)


def serve(wanted: Served, ready: Callable[[str], None], wait: float = 0.5) -> dict[str, Any]:
    """Serve until all rounds are done; returns what happened."""
    host = wanted.host or LOOPBACK
    if host != LOOPBACK and wanted.security.certificate is None:
        hint = "--certificate, --key and --authority, or a tunnel to 127.0.0.1"
        raise DataError("listening for other machines needs a certificate", where=host, hint=hint)
    done = Path(f"{wanted.output}.json")
    done.unlink(missing_ok=True)
    settings = {**wanted.settings, "learners": str(wanted.learner), "output": str(wanted.output)}
    with TemporaryDirectory() as home, Superlink(Path(home), wanted.port or 0, host, wanted.security) as link:
        ready(link.address)
        link.run(settings)
        restarts = 0
        while not done.exists():
            if not link.alive:
                restarts += 1
                if restarts > AGAIN:
                    raise DeviceError(f"died {restarts} times: {_log(home)}", where="superlink")
                link.start()
                link.run(settings)
            time.sleep(wait)
    Path(f"{wanted.output}.rounds").unlink(missing_ok=True)
    return json.loads(done.read_text())


def _log(home: str) -> str:
    return (Path(home) / "superlink.log").read_text(errors="replace")[-400:]


@dataclass(frozen=True)
class Joined:
    """What a device needs: the server's address, its own files, and how the connection is protected."""

    superlink: str
    settings: Mapping[str, Any]
    security: Security = field(default_factory=Security)


def join(wanted: Joined) -> None:
    """Take part until the connection ends, or Ctrl-C."""
    with TemporaryDirectory() as home:
        process = start_node(Path(home), wanted.superlink, wanted.settings, wanted.security)
        try:
            process.wait()
        finally:
            stop(process)
        log = (Path(home) / "supernode.log").read_text(errors="replace")
    if process.returncode:
        raise DeviceError(f"ended: {log.strip()[-500:]}", where="supernode")
