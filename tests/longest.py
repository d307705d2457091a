"""Which tests take long: long.txt names them. `make test` leaves them out, `make test-long` runs them, CI runs both.

`pytest --cpu FILE` writes the CPU seconds of every test, with what it started; `python -m tests.longest FILE...` makes
long.txt from it, by the longest time of each. A test that is left out leaves its fixtures to the next one, so a second
run without these tests finds more of them. A line names a file, a test function, or one of its cases.
"""

from __future__ import annotations

import resource
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

LIST = Path(__file__).parent / "long.txt"
LIMIT = 1.25  # CPU seconds of one case
MOST = 0.8  # of the time of a function or a file
ALWAYS = ("tests/test_imports.py", "tests/test_registry.py", "tests/ops/test_cases.py")  # what everything stands on


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
        function = item.nodeid.partition("[")[0]
        if named & {item.nodeid, function, function.partition("::")[0]}:
            item.add_marker("long")


def chosen(seconds: Mapping[str, float]) -> list[str]:
    """The cases above the limit; instead the function, or the file, where most of the time is theirs."""
    above = {name for name, its in seconds.items() if its >= LIMIT and not name.startswith(ALWAYS)}
    for whole in (lambda name: name.partition("::")[0], lambda name: name.partition("[")[0]):
        for group in _mostly(above, seconds, whole):
            above = {name for name in above if whole(name) != group} | {group}
    return sorted(above)


def _mostly(above: set[str], seconds: Mapping[str, float], whole: Callable[[str], str]) -> list[str]:
    """The groups that spend most of their time in cases above the limit."""
    spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, its in seconds.items():
        if whole(name) not in above:
            spent[whole(name)][name in above] += its
    return [group for group, (below, over) in spent.items() if over > MOST * (below + over)]


def read(paths: Iterable[Path]) -> dict[str, float]:
    """The longest time of each test in these files."""
    found: dict[str, float] = defaultdict(float)
    for line in (line for path in paths for line in path.read_text().splitlines()):
        seconds, name = line.split("\t")
        found[name] = max(found[name], float(seconds))
    return found


if __name__ == "__main__":
    LIST.write_text("".join(f"{name}\n" for name in chosen(read(map(Path, sys.argv[1:])))))
