"""Children for `read_in_child` at the cost of a fork: a server process that has the frameworks in memory.

    with Forked(path) as loaders:                    # `path` is a good file; it is read once, to load everything needed
        read_in_child(damaged, run=loaders.run)

`python -m tests.importers.forked PATH ...` is the server: a line of json in, an exit status out. Each fork runs
`child.main` with all its limits. For tests and bench/fuzz.py, which read thousands of files.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


class Forked:
    """A server; close it, or use it in a `with`."""

    def __init__(self, *good: Path):
        packages = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "PYTHONPATH": packages, "OMP_NUM_THREADS": "1", "KERAS_BACKEND": "torch"}
        command = [sys.executable, "-m", "tests.importers.forked", *map(str, good)]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        self.server = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, cwd=ROOT, env=env, text=True)
        self.forks = 0

    def run(self, arguments: list[str], said: Path, seconds: float) -> int:
        self.forks += 1
        assert self.server.stdin and self.server.stdout
        print(json.dumps([arguments, str(said), seconds]), file=self.server.stdin, flush=True)
        status = int(self.server.stdout.readline())
        if status == -signal.SIGALRM:
            raise TimeoutError
        return status

    def close(self) -> None:
        assert self.server.stdin and self.server.stdout
        self.server.stdin.close()
        self.server.stdout.close()
        self.server.wait()

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_) -> None:
        self.close()


# the server


def serve(good: list[str]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a framework's output is not an answer
    from insitu.importers.safe import child

    for path in map(Path, good):
        child.LOADERS[path.suffix]()(path, 1, ())
    for line in sys.stdin:
        arguments, said, seconds = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _run(child.main, arguments, said, seconds)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=answers, flush=True)


def _run(main, arguments: list[str], said: str, seconds: float) -> None:
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    status = 70
    try:
        status = main(arguments)
        sys.stdout.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1:])
