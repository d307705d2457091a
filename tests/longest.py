"""Which tests take long: long.txt names them. `make test` leaves them out, `make test-long` runs them, CI runs both.

`pytest --cpu FILE` writes the CPU seconds of every test, with what it started; `python -m tests.longest FILE...` makes
long.txt from it, by the longest time of each. A test that is left out leaves its fixtures to the next one, so a second
run without these tests finds more of them. A line names a test function, or one of its cases.
"""

from __future__ import annotations

import resource
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

LIST = Path(__file__).parent / "long.txt"
LIMIT = 2.0  # CPU seconds of one case


class Times:
    """A plugin that writes the CPU seconds of each test."""

    def __init__(self, path: Path):
        self.path = path

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        before = spent()
        done = yield
        with self.path.open("a") as file:
            file.write(f"{spent() - before:.2f}\t{item.nodeid}\n")
        return done


def spent() -> float:
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that long.txt names."""
    named = set(LIST.read_text().splitlines())
    for item in items:
        if item.nodeid in named or item.nodeid.partition("[")[0] in named:
            item.add_marker("long")


def chosen(seconds: Mapping[str, float]) -> list[str]:
    """The cases above the limit; a function by its own name if half of its time is theirs."""
    cases: dict[str, dict[str, float]] = defaultdict(dict)
    for name, its in seconds.items():
        cases[name.partition("[")[0]][name] = its
    found = []
    for function, its in cases.items():
        above = [name for name, t in its.items() if t >= LIMIT]
        found += [function] if 2 * sum(its[n] for n in above) > sum(its.values()) and above else above
    return sorted(found)


def read(paths: Iterable[Path]) -> dict[str, float]:
    """The longest time of each test in these files."""
    found: dict[str, float] = defaultdict(float)
    for line in (line for path in paths for line in path.read_text().splitlines()):
        seconds, name = line.split("\t")
        found[name] = max(found[name], float(seconds))
    return found


if __name__ == "__main__":
    LIST.write_text("".join(f"{name}\n" for name in chosen(read(map(Path, sys.argv[1:])))))
