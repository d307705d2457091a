"""A chip of QEMU's under gdb's remote protocol: stop at functions, look at memory and change it, reset the chip."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from insitu.boards import Board

from .chips import command, expect_port, free_port

CHUNK = 1024


class Gdb:
    """The raw protocol: a packet is `$text#checksum`, and needs no acknowledgement once that was agreed."""

    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.pending = b""
        self.ask("QStartNoAckMode")
        self.socket.sendall(b"+")

    def close(self) -> None:
        self.socket.close()

    def send(self, text: str) -> None:
        body = text.encode()
        self.socket.sendall(b"$" + body + b"#%02x" % (sum(body) & 0xFF))

    def receive(self) -> str:
        while b"#" not in self.pending or len(self.pending) < self.pending.index(b"#") + 3:
            got = self.socket.recv(65536)
            assert got, "QEMU has gone"
            self.pending += got
        start, end = self.pending.index(b"$"), self.pending.index(b"#")
        text = self.pending[start + 1 : end].decode()
        self.pending = self.pending[end + 3 :]
        return text

    def ask(self, text: str) -> str:
        self.send(text)
        return self.receive()

    def read(self, address: int, count: int) -> bytes:
        parts = range(0, count, CHUNK)
        return b"".join(bytes.fromhex(self.ask(f"m{address + at:x},{min(CHUNK, count - at):x}")) for at in parts)

    def write(self, address: int, data: bytes) -> None:
        for at in range(0, len(data), CHUNK):
            part = data[at : at + CHUNK]
            assert self.ask(f"M{address + at:x},{len(part):x}:{part.hex()}") == "OK"

    def register(self, number: int) -> int:
        return int.from_bytes(bytes.fromhex(self.ask("g")[8 * number : 8 * number + 8]), "little")

    def breakpoint(self, address: int, on: bool = True) -> None:
        assert self.ask(f"{'Z' if on else 'z'}0,{address & ~1:x},2") == "OK"

    def go(self) -> None:
        """Run, first over the breakpoint that it may stand at."""
        self.ask("s")
        self.send("c")

    def stop(self) -> None:
        self.socket.sendall(b"\x03")
        self.receive()


class Monitor:
    """QEMU's own monitor."""

    def __init__(self, port: int):
        self.file = socket.create_connection(("127.0.0.1", port), timeout=60).makefile("rw")
        self.file.readline()
        self.ask("qmp_capabilities")

    def ask(self, word: str) -> None:
        self.file.write(json.dumps({"execute": word}) + "\n")
        self.file.flush()
        while "return" not in json.loads(self.file.readline()):
            pass


@contextmanager
def debugged(board: Board, image: Path) -> Iterator[tuple[str, Gdb, Monitor]]:
    """The chip with this image, stopped at its start: the URL of its UART, gdb's side, and the monitor."""
    uart, gdb, monitor = free_port(), free_port(), free_port()
    noise = image.with_name("noise.bin")
    noise.write_bytes(bytes(board.sram.bytes))
    more = ["-S", "-gdb", f"tcp:127.0.0.1:{gdb}", "-qmp", f"tcp:127.0.0.1:{monitor},server=on,wait=off"]
    process = subprocess.Popen([*command(board, image, noise, uart), *more], stderr=subprocess.PIPE)
    try:
        expect_port(process, gdb)
        yield f"socket://127.0.0.1:{uart}", Gdb(gdb), Monitor(monitor)
    finally:
        process.kill()
        process.communicate()
