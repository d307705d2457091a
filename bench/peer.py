"""A training step of another framework in a Python of its own, timed on request. The parent side; see peer_steps.py.

Frameworks need different versions of the same packages, so each is installed apart; an environment variable names the
interpreter. A peer without one, or one that does not start, is skipped with a reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

SCRIPT = Path(__file__).with_name("peer_steps.py")
PYTHONS = {"jax": "INSITU_BENCH_JAX", "onnxruntime": "INSITU_BENCH_ORT"}  # framework -> variable with its interpreter
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}


class Missing(Exception):
    """Why a peer takes no part."""


class Peer:
    """A child process that makes steps when it is asked to."""

    def __init__(self, framework: str):
        python = os.environ.get(PYTHONS[framework], "")
        if not python:
            raise Missing(f"{framework}: {PYTHONS[framework]} names no Python")
        packages = str(Path(torch.__path__[0]).parent)  # onnxruntime.training imports torch
        self.child = _started([python, str(SCRIPT), framework, packages], framework)
        word, *rest = self._answer().split(maxsplit=1)
        if word != "ready":
            raise Missing(f"{framework}: {word} {' '.join(rest)}")
        self.version = rest[0]

    def burst(self, count: int) -> float:
        """Milliseconds of CPU per step, over this many."""
        assert self.child.stdin is not None
        print(count, file=self.child.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()
        self.child.wait(30)

    def _answer(self) -> str:
        assert self.child.stdout is not None
        return self.child.stdout.readline().strip() or "ended without an answer"


def _started(command: list[str], framework: str) -> subprocess.Popen:
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                env={**os.environ, **ONE_THREAD})  # fmt: skip
    except OSError as e:
        raise Missing(f"{framework}: {e}") from e


def peers() -> dict[str, Peer]:
    """The frameworks that can be run here; for each other one, a line on stderr says why it cannot."""
    found = {}
    for framework in PYTHONS:
        try:
            found[framework] = Peer(framework)
        except Missing as e:
            print(f"skipped {e}", file=sys.stderr)
    return found
