"""Flower's own processes on this machine: a superlink, the run of our app on it, and supernodes.

    with Superlink(port) as link:              restarted if it dies
        link.run(settings)                     the run continues from the last round that was completed

Everything they write goes to a scratch folder (FLWR_HOME), and everything that was started is stopped again, also if
this process is killed (guarded.py). Without certificates they listen on this machine alone.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from insitu.errors import DeviceError, ToolError, needs
from insitu.federated.guarded import Guarded
from insitu.federated.ports import LOOPBACK, check_port, free_port
from insitu.federated.security import Security

APP = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "insitu-fleet"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "insitu"

[tool.flwr.app.components]
serverapp = "insitu_fleet.app:server"
clientapp = "insitu_fleet.app:client"

[tool.flwr.app.config]
{config}
"""
CODE = '''"""The app of a fleet: both sides are in insitu.federated.deployed."""

from insitu.federated.deployed import device_app, server_app

server = server_app()
client = device_app()
'''


def tool(name: str) -> str:
    """The path of one of Flower's commands."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise needs("flwr", "flower", "a fleet")
    return str(path)


def environment(home: Path) -> dict[str, str]:
    """For Flower's processes: a home of their own, this Python's commands first, nothing reported to anybody."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "PATH": path}


@dataclass
class Superlink:
    """A superlink of Flower's, with a scratch folder of its own."""

    home: Path
    port: int = 0
    host: str = LOOPBACK
    security: Security = field(default_factory=Security)
    process: Guarded | None = None

    def __enter__(self) -> Superlink:
        self.home.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.stop()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        if self.process is not None:
            self.process.stop()  # what a superlink that died has left behind
        check_port(self.host, self.port)
        command = [tool("flower-superlink"), *link_flags(self.security), "--host", self.host, "--port", str(self.port),
                   "--disable-runtime-dependency-installation"]  # fmt: skip
        self.process = started(command, self.home, "superlink.log")
        wait_for(self.host, self.port, self.process, self.home / "superlink.log")

        for i, key in enumerate(self.security.nodes):  # a new superlink knows nobody
            self.flwr("supernode", "register", str(key), "fleet", "--name", f"device-{i}")

    def run(self, settings: Mapping[str, object]) -> str:
        """Submit the app; returns the number of the run."""
        folder = write_app(self.home / "app", settings)
        return str(self.flwr("run", str(folder), "fleet")["run-id"])

    def flwr(self, *words: str) -> dict:
        """What one of Flower's commands answers about this superlink."""
        lines = ["[superlink]", 'default = "fleet"', "", "[superlink.fleet]", f'address = "{self.address}"',
                 run_line(self.security)]  # fmt: skip
        (self.home / "config.toml").write_text("\n".join(lines) + "\n")
        command = [tool("flwr"), *words, "--format", "json"]
        done = subprocess.run(command, env=environment(self.home), capture_output=True, text=True, timeout=120)
        try:
            found = json.loads(done.stdout[done.stdout.index("{") :])
            if found.get("success", True) is True:
                return found
        except ValueError:
            pass
        raise ToolError(f"flwr {' '.join(words[:2])} failed: {(done.stdout + done.stderr).strip()[-800:]}")

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


def link_flags(security: Security) -> list[str]:
    """How a superlink protects its connections."""
    if security.certificate is None:
        return ["--insecure"]
    files = (("certfile", security.certificate), ("keyfile", security.key), ("ca-certfile", security.authority))
    flags = [word for name, path in files for word in (f"--ssl-{name}", str(path))]
    return [*flags, *(["--enable-supernode-auth"] if security.nodes else [])]


def node_flags(security: Security) -> list[str]:
    """How a supernode does."""
    if security.authority is None:
        return ["--insecure"]
    key = ["--auth-supernode-private-key", str(security.node_key)] if security.node_key else []
    return ["--root-certificates", str(security.authority), *key]


def run_line(security: Security) -> str:
    """How Flower's own commands do: a line of their configuration."""
    return f'root-certificates = "{security.authority}"' if security.authority else "insecure = true"


def write_app(folder: Path, settings: Mapping[str, object]) -> Path:
    """The folder of a Flower app with these settings."""
    inside = folder / "insitu_fleet"
    inside.mkdir(parents=True, exist_ok=True)
    config = "\n".join(f"{name} = {json.dumps(value)}" for name, value in settings.items() if value is not None)
    (folder / "pyproject.toml").write_text(APP.format(config=config))
    (inside / "__init__.py").write_text('"""A fleet of learners."""\n')
    (inside / "app.py").write_text(CODE)
    return folder


def start_node(home: Path, superlink: str, settings: Mapping[str, object], security: Security,
               name: str = "supernode") -> Guarded:  # fmt: skip
    """A supernode of Flower's that runs our app for one device."""
    home.mkdir(parents=True, exist_ok=True)
    words = " ".join(f"{key}={json.dumps(value)}" for key, value in settings.items() if value is not None)
    command = [tool("flower-supernode"), *node_flags(security), "--superlink", superlink, "--host", LOOPBACK, "--port",
               str(free_port()), "--node-config", words]  # fmt: skip
    return started(command, home, f"{name}.log")


def started(command: list[str], home: Path, log: str) -> Guarded:
    with (home / log).open("ab") as out:
        return Guarded(command, env=environment(home), stdout=out, stderr=out, stdin=subprocess.DEVNULL)


def wait_for(host: str, port: int, process: Guarded, log: Path, seconds: float = 120) -> None:
    """Until somebody listens there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            with socket.create_connection((host, port), timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise DeviceError(f"did not start: {log.read_text(errors='replace')[-500:]}", where=f"superlink {host}:{port}")
