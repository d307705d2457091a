"""How long `insitu compile` takes for a board: CPU seconds with empty caches and with full ones, over eight models.

    python -m bench.compile                          a Markdown table, and bench/compile.json
    python -m bench.compile --against ../other       beside another checkout, in turns in the same run, with ratios
    python -m bench.compile --only digits --repeats 5      a part of it, as medians

CPU seconds are user and system time of the command and of every process it starts. Cold: a new folder for insitu's
cache and zig's own. Warm: the same command once more. Also measured are `import insitu` and looking up `insitu.compile`
after it. Python has compiled its modules before anything is timed. A checkout is chosen by PYTHONPATH: both use this
Python with its packages. Models are found as the tests find them (INSITU_TEST_FILES, or `shared` beside the checkout).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from bench.mcu import BOARDS, CHECKPOINTS, CLASSES, LAST, TINY, markdown
from bench.photos import ROOT, folder
from bench.same import about, commit
from insitu.demo import TARGET, digits

WAYS = ("cold", "warm")
HEAVY = ("torch", "onnx", "scipy", "sklearn", "tensorflow")  # packages that importing insitu should not import
IMPORTS = 7  # repeats of an import
USED = {"import insitu": "import_process", "import insitu; insitu.compile": "compile_process"}
USES = tuple(USED)


@dataclass(frozen=True)
class Case:
    """One model for one board, as options of `insitu compile`."""

    name: str
    board: str
    model: Path
    options: tuple[str, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        return (str(self.model), "--board", self.board, *self.options)


@dataclass(frozen=True)
class Checkout:
    """A copy of the project, and its name in the table."""

    name: str
    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "src"

    def environment(self, cache: Path) -> dict[str, str]:
        """Everything that persists between runs is below `cache`; otherwise zig's own cache would be the user's."""
        kept = {"INSITU_CACHE": "insitu", "XDG_CACHE_HOME": "user", "ZIG_GLOBAL_CACHE_DIR": "zig",
                "ZIG_LOCAL_CACHE_DIR": "zig"}  # fmt: skip
        places = {name: str(cache / where) for name, where in kept.items()}
        bytecode = {"PYTHONDONTWRITEBYTECODE": ""}  # set, it would make every process compile insitu's modules again
        return {**os.environ, **bytecode, **places, "PYTHONPATH": str(self.source)}


@dataclass
class Times:
    """CPU and wall seconds of one command, one entry per repeat."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return statistics.median(self.cpu)


class Failed(Exception):
    """A timed command failed."""


# what is compiled -------------------------------------------------------------------------------


def cases(scratch: Path) -> list[Case]:
    """Three checkpoints, the four MLPerf Tiny models and the digits network of the documentation."""
    small = [name for name in CHECKPOINTS if name.endswith("/49kb")]
    return [*map(checkpoint, small), *map(tiny, TINY), small_network(scratch)]


def checkpoint(scheme: str) -> Case:
    path = folder("models") / f"{scheme.partition('/')[0]}.pkl"
    return Case(scheme, BOARDS[0], path, ("--scheme", scheme, "--classes", str(CLASSES)))


def tiny(name: str) -> Case:
    loss = ("--loss", "mse") if name == "ad01" else ()
    return Case(name, BOARDS[0], folder("models") / "mlperf-tiny" / f"{TINY[name]}.tflite", ("--scheme", LAST, *loss))


def small_network(scratch: Path) -> Case:
    """A float model: it is also calibrated and quantised."""
    data, found = scratch / "digits.npz", digits()
    np.savez(data, x=found.x_train, y=found.y_train)
    return Case("digits", BOARDS[1], TARGET, ("--scheme", LAST, "--data", str(data)))


# timing -----------------------------------------------------------------------------------------


def timed(command: list[str], environment: Mapping[str, str], where: Path) -> tuple[float, float, str]:
    """CPU and wall seconds of a command with everything it starts, and its stderr."""
    before, start = cpu_seconds(), time.perf_counter()
    done = subprocess.run(command, env=environment, cwd=where, capture_output=True, text=True, check=False)
    spent = cpu_seconds() - before, time.perf_counter() - start
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise Failed(f"{' '.join(command[1:])}: {lines[-1]}")
    return *spent, done.stderr


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(case: Case, checkouts: list[Checkout], repeats: int) -> dict[str, dict[str, Times]]:
    """Checkout -> cold and warm times. Checkouts take turns, and each goes first in every second repeat."""
    found = {c.name: {way: Times() for way in WAYS} for c in checkouts}
    for i in range(repeats):
        for checkout in checkouts if i % 2 == 0 else checkouts[::-1]:
            with tempfile.TemporaryDirectory(prefix="insitu-bench-") as scratch:
                for way in WAYS:
                    cpu, wall = compiled(case, checkout, Path(scratch))
                    found[checkout.name][way].cpu.append(round(cpu, 3))
                    found[checkout.name][way].wall.append(round(wall, 3))
    return found


def compiled(case: Case, checkout: Checkout, scratch: Path) -> tuple[float, float]:
    command = [sys.executable, "-m", "insitu", "compile", *case.arguments]
    return timed(command, checkout.environment(scratch), scratch)[:2]


# importing --------------------------------------------------------------------------------------


def imports(checkout: Checkout, scratch: Path) -> dict:
    """Milliseconds of `import insitu`, and of a process until `insitu.compile` can be called; heavy packages it
    imports.

    The import alone says little, because names are imported on first use. Each number is the minimum of several: other
    processes on the machine only add to it.
    """
    environment = checkout.environment(scratch)
    spent = {use: [timed([sys.executable, "-c", use], environment, scratch) for _ in range(IMPORTS)] for use in USES}
    alone = [trace(USES[0], environment, scratch)["insitu"] for _ in range(IMPORTS)]
    roots = {name.partition(".")[0] for name in trace(USES[1], environment, scratch)}
    found = {"import_ms": round(min(alone) / 1000, 1), "heavy": sorted(roots & set(HEAVY))}
    for use, what in USED.items():
        found[f"{what}_cpu_ms"] = round(min(cpu for cpu, _, _ in spent[use]) * 1000, 1)
        found[f"{what}_ms"] = round(min(wall for _, wall, _ in spent[use]) * 1000, 1)
    return found


def trace(use: str, environment: Mapping[str, str], scratch: Path) -> dict[str, int]:
    """Module -> microseconds of importing it with all its imports, as counted by Python."""
    said = timed([sys.executable, "-X", "importtime", "-c", use], environment, scratch)[2]
    return {name: int(all_of) for all_of, name in re.findall(r"import time:\s+\d+ \|\s+(\d+) \|\s+(\S+)", said)}


def prepare(checkout: Checkout, scratch: Path) -> None:
    """Compile its modules, and check that commands will use them."""
    if not (checkout.source / "insitu").is_dir():
        raise Failed(f"{checkout.folder} is not a checkout: it has no src/insitu")
    environment = checkout.environment(scratch)
    timed([sys.executable, "-m", "compileall", "-q", str(checkout.source)], environment, scratch)
    where = "import insitu, sys; sys.exit(0 if insitu.__file__.startswith(sys.argv[1]) else insitu.__file__)"
    timed([sys.executable, "-c", where, str(checkout.source)], environment, scratch)


# showing ----------------------------------------------------------------------------------------


def head(names: list[str]) -> tuple[str, ...]:
    if len(names) == 1:
        return ("model", "board", *(f"{way}, CPU s" for way in WAYS))
    return ("model", "board", *(f"{way}, {part}" for way in WAYS for part in (*names, "ratio")))


def cells(case: Case, found: Mapping[str, Mapping[str, Times]], names: list[str]) -> Iterator[str]:
    """Seconds of each checkout; with two, also this one's as a share of the other's."""
    yield from (case.name, case.board)
    for way in WAYS:
        spent = [found[name][way].seconds for name in names]
        yield from (f"{seconds:.2f}" for seconds in spent)
        if len(spent) > 1:
            yield f"{spent[1] / spent[0]:.2f}"


def import_text(found: Mapping[str, Mapping]) -> str:
    return "\n".join(
        f"* import insitu, {name}: {f['import_ms']:.0f} ms; a process that does nothing else "
        f"{f['import_process_ms']:.0f} ms ({f['import_process_cpu_ms']:.0f} ms of CPU), one that looks up "
        f"insitu.compile {f['compile_process_ms']:.0f} ms ({f['compile_process_cpu_ms']:.0f} ms); "
        f"heavy packages imported: {', '.join(f['heavy']) or 'none'}"
        for name, f in found.items()
    )


def bench(checkouts: list[Checkout], only: str, repeats: int, output: Path) -> None:
    told = {c.name: commit(c.source) for c in checkouts}
    names, lines, rows = [c.name for c in checkouts], [], {}
    with tempfile.TemporaryDirectory(prefix="insitu-bench-") as place:
        scratch = Path(place)
        for checkout in checkouts:
            prepare(checkout, scratch)
        importing = {c.name: imports(c, scratch) for c in checkouts}
        for case in (c for c in cases(scratch) if only in c.name):
            found = measure(case, checkouts, repeats)
            lines.append(tuple(cells(case, found, names)))
            print(" ".join(lines[-1]), file=sys.stderr, flush=True)
            rows[case.name] = {name: {way: asdict(t) for way, t in ways.items()} for name, ways in found.items()}
            data = {"about": about(), "commits": told, "imports": importing, "models": rows}
            output.write_text(json.dumps(data, indent=1) + "\n")
    print(markdown(head(names), lines), import_text(importing), sep="\n\n")
    print("\n".join(f"* {name}: commit {word or 'unknown'}" for name, word in told.items()))
    print("\n".join(f"* {k}: {v}" for k, v in about().items() if k not in ("commit", "source")))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "bench" / "compile.json", metavar="FILE")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout, to compare with")
    parser.add_argument("--only", default="", metavar="TEXT", help="models whose name contains this")
    parser.add_argument("--repeats", type=int, default=1, metavar="N", help="runs per command; the median counts (1)")
    options = parser.parse_args(arguments)
    other = [Checkout("other", options.against.resolve())] if options.against else []
    try:
        bench([*other, Checkout("this", ROOT)], options.only, max(1, options.repeats), options.output)
    except Failed as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
