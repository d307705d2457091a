"""Does a change of the compiler keep its results? Compares bytes, instructions and learned state, before and after.

    python -m bench.same -o before.json              measure this checkout: the networks of docs/mcu.md on stm32f746
    python -m bench.same -o after.json --only kws    a part of it: programs whose name contains this
    python -m bench.same --compare before.json after.json      a Markdown table; exit status 1 if something got worse

Measured are the arena of each function, state, SRAM and flash in bytes, the exact instructions of the second training
step and of a prediction on the emulated board, and hashes of the state: after ten steps of the generated C on this
machine, and after the two steps on the board. A stopped run can be continued: rows of the same source and tools are
kept; `--again` measures them again. Nothing here is timed. bench/mcu.py says how rows are named and compiled.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path

import numpy as np

import insitu
from bench.mcu import BOARDS, CHECKPOINTS, LAST, TINY, Row, emulate, machine, markdown, run, source
from bench.photos import ROOT

PACKAGE = Path(insitu.__file__).parent
STEPS, RATE = 10, 0.01
ARENA, INSTRUCTIONS = 0.005, 0.01  # growth that is accepted
TOOLS = ("numpy", "ziglang", "unicorn", "pyelftools")  # whose versions count
# the first checkpoint once more, with other options
WAYS: tuple[dict, ...] = ({"grad": "f32"}, {"grad": "s8"}, {"by_rows": True, "prefer": "memory"},
                          {"by_rows": True, "allowed": 96_000}, {"prefer": "memory"}, {"prefer": "speed"})  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What one program needs and learns; only `why` if it cannot be compiled."""

    stamp: str  # of the source and the tools used
    why: str = ""
    arena_bytes: Mapping[str, int] = field(default_factory=dict)  # function -> bytes
    state_bytes: int = 0
    sram_bytes: int = 0
    flash_bytes: int = 0
    instructions: Mapping[str, int] = field(default_factory=dict)  # function -> instructions on the board
    state_sha256: str = ""  # of the saved state, after STEPS steps on this machine
    board_sha256: str = ""  # of the saved state, after two steps on the board
    fields_sha256: Mapping[str, str] = field(default_factory=dict)  # of each of its arrays: which one differs?


# measuring --------------------------------------------------------------------------------------


def rows() -> list[Row]:
    """The ten networks with default options, and the first of them with other options."""
    named = [tuple(name.split("/")) for name in CHECKPOINTS] + [(name, LAST) for name in TINY]
    whole = [Row(model, scheme, BOARDS[0], "s16") for model, scheme in named]
    return whole + [replace(whole[0], **way) for way in WAYS]


def measure(row: Row, stamp: str) -> Result:
    """Compile for the board, count there, and train here."""
    try:
        learner = insitu.compile(**source(row), board=row.board, sram=row.allowed, prefer=row.prefer)
    except insitu.Error as e:
        return Result(stamp, why=e.what.splitlines()[0])
    made, board = learner.deployed, emulate(learner.deployed.firmware)
    run(row, board, learner.graphs)
    train(learner)
    return Result(
        stamp, "", {verb: plan.arena_bytes for verb, plan in made.program.plans.items()}, made.program.state_bytes,
        made.sram_bytes, made.flash_bytes,
        {"train_step": row.train_step_instructions, "predict": row.predict_instructions},
        sha256(learner.device.save_state()), sha256(board.save_state()),
        {name: sha256(array.tobytes())[:16] for name, array in learner.device.state().items()},
    )  # fmt: skip


def train(learner) -> None:
    """Ten steps on samples that are the same everywhere."""
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        learner.device.run(
            "train_step", *(sample(rng, v, learner.classes) for v in learner.graphs["train_step"].inputs)
        )


def sample(rng: np.random.Generator, value, classes: int) -> np.ndarray:
    """Noise for an input of a step: the rate, labels, or the network's input or target."""
    if not value.shape:
        return np.asarray(RATE, np.float32)
    if value.dtype == "f32":
        return rng.normal(size=value.shape).astype(np.float32)
    low, high = (0, classes) if value.dtype == "s32" else (-128, 128)
    return rng.integers(low, high, value.shape).astype(value.type.numpy)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# the file ---------------------------------------------------------------------------------------


def about() -> dict[str, str]:
    """The machine, versions and source that rows are measured with."""
    versions = {name: metadata.version(name) for name in TOOLS}
    return {**machine(), **versions, "commit": commit(PACKAGE), "source": source_sha256()}


def commit(folder: Path) -> str:
    """The commit of a folder, and whether its files differ from it; empty without git."""
    head, changed = git(folder, "rev-parse", "HEAD"), git(folder, "status", "--porcelain", ".")
    return f"{head}, changed" if changed else head


def git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def source_sha256() -> str:
    """Of every file of the package: rows of another source do not count."""
    files = sorted(p for p in PACKAGE.rglob("*") if p.is_file() and p.suffix != ".pyc")
    return sha256("".join(f"{p.relative_to(PACKAGE)} {sha256(p.read_bytes())}\n" for p in files).encode())


def stamp_of(told: Mapping[str, str]) -> str:
    """One hash of everything that a row depends on; the commit is not part of it."""
    return sha256(json.dumps([told[key] for key in ("source", "python", "compiler", *TOOLS)]).encode())[:16]


def read(path: Path) -> dict[str, Result]:
    """Name -> result, of a file that may not exist yet."""
    if not path.exists():
        return {}
    return {name: Result(**found) for name, found in json.loads(path.read_text())["rows"].items()}


def write(path: Path, told: Mapping[str, str], found: Mapping[str, Result]) -> None:
    """Write all rows, after each one; the file is never half-written."""
    beside = path.with_name(f"{path.name}.part")
    beside.write_text(json.dumps({"about": told, "rows": {n: asdict(r) for n, r in found.items()}}, indent=1) + "\n")
    beside.replace(path)


def measure_all(path: Path, only: str, again: bool) -> None:
    """Measure every row that is not in the file yet, one after the other."""
    told, found = about(), read(path)
    stamp = stamp_of(told)
    for row in rows():
        if only not in row.name or (not again and row.name in found and found[row.name].stamp == stamp):
            continue
        print(f"{row.name}: ", end="", file=sys.stderr, flush=True)
        found[row.name] = result = measure(row, stamp)
        print(result.why or f"{result.state_sha256[:12]}, {result.sram_bytes:,} B", file=sys.stderr, flush=True)
        write(path, told, found)


# comparing --------------------------------------------------------------------------------------

HEAD = ("program", "arena of a step", "arena of a prediction", "state", "SRAM", "flash", "instructions of a step",
        "of a prediction", "state after ten steps", "board's after two")  # fmt: skip


def compared(before: Mapping[str, Result], after: Mapping[str, Result]) -> str:
    """One line per program. A figure that did not change stands alone, else it is before / after / change."""
    lines = [(name, *cells(before.get(name), after.get(name))) for name in {**before, **after}]
    return markdown(HEAD, lines)


def cells(a: Result | None, b: Result | None) -> Iterator[str]:
    if a is None or b is None or a.why or b.why:
        yield f"{outcome(a)} / {outcome(b)}"
        yield from [""] * (len(HEAD) - 2)
        return
    yield from (figure(x, y) for x, y in zip(figures(a), figures(b)))
    yield from (hashes(x, y) for x, y in ((a.state_sha256, b.state_sha256), (a.board_sha256, b.board_sha256)))


def outcome(r: Result | None) -> str:
    return "not measured" if r is None else r.why or "compiles"


def figures(r: Result) -> tuple[int | None, ...]:
    arena, count = r.arena_bytes, r.instructions
    return (arena.get("train_step"), arena.get("predict"), r.state_bytes, r.sram_bytes, r.flash_bytes,
            count.get("train_step"), count.get("predict"))  # fmt: skip


def figure(a: int | None, b: int | None) -> str:
    if a == b:
        return f"{a:,}" if a is not None else "-"
    if a is None or b is None:
        return f"{a} / {b}"
    return f"{a:,} / {b:,} / {100 * growth(a, b):+.2f} %"


def hashes(a: str, b: str) -> str:
    return f"equal {a[:8]}" if a == b else f"**{a[:8]} / {b[:8]} / differs**"


def growth(a: int, b: int) -> float:
    return (b - a) / a if a else float(b > a)


def complaints(before: Mapping[str, Result], after: Mapping[str, Result]) -> list[str]:
    """What got worse, one sentence each. A program that was not measured again proves nothing."""
    found = []
    for name, a in before.items():
        b = after.get(name)
        if b is None or a.why or b.why:
            found += [] if b and a.why == b.why else [f"{name}: {outcome(a)} before, {outcome(b)} after"]
        else:
            found += [f"{name}: {what}" for what in (*learned_otherwise(a, b), *grown(a, b))]
    return found


def learned_otherwise(a: Result, b: Result) -> Iterator[str]:
    if a.state_sha256 != b.state_sha256:
        both = {**a.fields_sha256, **b.fields_sha256}
        names = [n for n in both if a.fields_sha256.get(n) != b.fields_sha256.get(n)]
        yield f"the state after {STEPS} steps differs, in {', '.join(names) or 'its header or its order'}"
    if a.board_sha256 != b.board_sha256:
        yield "the board's state after two steps differs"


def grown(a: Result, b: Result) -> Iterator[str]:
    for kind, most in (("arena_bytes", ARENA), ("instructions", INSTRUCTIONS)):
        was, now = getattr(a, kind), getattr(b, kind)
        for verb in {**was, **now}:
            if verb not in was or verb not in now:
                yield f"{kind} of {verb}: {was.get(verb)} before, {now.get(verb)} after"
            elif growth(was[verb], now[verb]) > most:
                yield f"{kind} of {verb} grew from {was[verb]:,} to {now[verb]:,}, more than {100 * most:g} %"


def compare(before: Path, after: Path) -> int:
    absent = [str(path) for path in (before, after) if not path.exists()]
    if absent:
        print(f"no {', '.join(absent)}: `python -m bench.same -o FILE.json` writes one", file=sys.stderr)
        return 1
    was, now = read(before), read(after)
    worse = complaints(was, now)
    print(compared(was, now))
    print("\n".join(f"* {what}" for what in worse) or f"nothing got worse in {len(was)} programs", file=sys.stderr)
    return 1 if worse else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "bench" / "same.json", metavar="FILE")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose name contains this")
    parser.add_argument("--again", action="store_true", help="also measure programs that are already in the file")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), help="compare two such files")
    options = parser.parse_args(arguments)
    if options.compare:
        return compare(*options.compare)
    measure_all(options.output, options.only, options.again)
    return 0


if __name__ == "__main__":
    sys.exit(main())
