"""Ports of this machine: a free one, and who holds one that is not free."""

from __future__ import annotations

import socket
from pathlib import Path

from insitu.errors import DeviceError
from insitu.terminal.wording import option

LOOPBACK = "127.0.0.1"
LISTENING = "0A"  # in /proc/net/tcp
MOST_SAID = 120  # characters of a command


def free_port() -> int:
    with socket.socket() as s:
        s.bind((LOOPBACK, 0))
        return s.getsockname()[1]


def check_port(host: str, port: int) -> None:
    """Refuse a port at which somebody listens already, and say who."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((host, port))
    except OSError as e:
        pid, other = holder_of(port), f"another port: {option(port='N')}"
        if pid is None:
            words, hint = f"cannot listen there: {e.strerror}", other
        else:
            words, hint = f"process {pid} listens there: {command_of(pid)}", f"kill {pid} ends it; or {other}"
        raise DeviceError(words, where=f"{host}:{port}", hint=hint) from e


def holder_of(port: int) -> int | None:
    """The process that listens at a port; None if that cannot be found out (other systems, other users' processes)."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    for entry in Path("/proc").glob("[0-9]*") if wanted else ():
        try:
            if any(str(each.readlink()) in wanted for each in (entry / "fd").iterdir()):
                return int(entry.name)
        except OSError:
            continue  # it ended, or belongs to somebody else
    return None


def _inodes(port: int) -> list[str]:
    """Of the sockets that listen at a port."""
    found = []
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            words = line.split()
            if words[3] == LISTENING and int(words[1].rpartition(":")[2], 16) == port:
                found.append(words[9])
    return found


def command_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        return words.decode(errors="replace")[:MOST_SAID].strip()
    except OSError:
        return "?"
