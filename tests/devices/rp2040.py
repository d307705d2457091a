"""npm's rp2040js, an RP2040 that nobody here wrote, running a .uf2: fetched once into the cache, never installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from insitu.files import cache_folder

PACKAGE = "rp2040js@1.4.1"
HARNESS = Path(__file__).parent / "rp2040.mjs"


def installed() -> Path:
    """The folder with the package; skips where Node, npm or the package cannot be had."""
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            pytest.skip(f"no {tool}")
    folder = cache_folder() / PACKAGE.replace("@", "-")
    if not (folder / "node_modules" / "rp2040js").is_dir():
        command = ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(folder), PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{PACKAGE} cannot be fetched: {done.stderr.strip()[-200:]}")
    return folder


@contextmanager
def running(uf2: Path) -> Iterator[tuple[str, subprocess.Popen]]:
    """The chip with this file in its flash; gives the URL of its serial port, and the process that speaks of it."""
    command = ["node", str(HARNESS), str(installed()), str(uf2)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield f"socket://127.0.0.1:{said(process, 'port')}", process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen, what: str) -> int:
    """The number that it prints after this word."""
    assert process.stdout is not None and process.stderr is not None
    for line in process.stdout:
        if line.startswith(what):
            return int(line.split()[1])
    raise AssertionError(process.stderr.read())


def last(process: subprocess.Popen, what: str) -> int:
    """The last number that it printed after this word, once it has ended."""
    assert process.stdout is not None
    return [int(line.split()[1]) for line in process.stdout if line.startswith(what)][-1]
