"""The accuracy cost of integer gradients: mcunet-5fps/99kb at batch 1 with f32, s16 and s8 gradients, two seeds.

    make accuracy                             (with bench.accuracy) a table, bench/gradients.json, docs/gradients.md
    python -m bench.gradients --add FILE      existing results, which are not run again

The runs are those of accuracy.py. A single different rounding puts a run on another path, so two runs of one seed
differ like two seeds do, by about 0.5; therefore the means over the seeds are compared. If a limit is missed, the exit
status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict, fields
from pathlib import Path

from bench.accuracy import measure
from bench.photos import ROOT, SOURCES
from bench.transfer import Run
from insitu.errors import Error
from insitu.reports.speed import machine
from insitu.terminal.table import table

SCHEME, SEEDS = "mcunet-5fps/99kb", (0, 1)
LIMITS = {"s16": 0.5, "s8": 1.0}  # points below f32 that integer gradients may cost
GRADS = ("f32", *LIMITS)
HEADERS = ("photos", "gradients", *(f"seed {seed}" for seed in SEEDS), "mean", "against f32", "last loss")


def runs() -> dict[str, Run]:
    """Name -> run."""
    return {
        f"{data}/{grad}/{seed}": Run(data, SCHEME, "residual", 1, seed, grad=grad)
        for seed in SEEDS
        for grad in GRADS
        for data in SOURCES
    }


def mean(results: dict[str, dict], data: str, grad: str, which: str) -> float:
    return sum(results[f"{data}/{grad}/{seed}"][which] for seed in SEEDS) / len(SEEDS)


def cost(results: dict[str, dict], data: str, grad: str, which: str) -> float:
    """Points that these gradients lose against f32."""
    return mean(results, data, "f32", which) - mean(results, data, grad, which)


def misses(results: dict[str, dict]) -> list[str]:
    """Messages about limits that were missed."""
    return [
        f"{data}, {which}: {grad} is {found:.2f} points below f32, more than {limit}"
        for data in SOURCES
        for grad, limit in LIMITS.items()
        for which in "AB"
        if not (found := cost(results, data, grad, which)) <= limit
    ]


def rows(results: dict[str, dict]) -> list[tuple]:
    return [_row(results, data, grad) for data in SOURCES for grad in GRADS]


def _row(results: dict[str, dict], data: str, grad: str) -> tuple:
    of = [results[f"{data}/{grad}/{seed}"] for seed in SEEDS]
    a, b = (mean(results, data, grad, which) for which in "AB")
    against = [-cost(results, data, grad, which) for which in "AB"]
    return (data, grad, *(f"{r['A']:.1f} / {r['B']:.1f}" for r in of), f"{a:.1f} / {b:.1f}",
            "-" if grad == "f32" else f"{against[0]:+.2f} / {against[1]:+.2f}",
            " and ".join(f"{r['loss']:.4f}" for r in of))  # fmt: skip


PAGE = """# What integer gradients cost in accuracy

Written by `make accuracy` (bench/gradients.py). Every number comes from the generated C on this machine:
{machine}; {compiler}.

mcunet-5fps with the 99kb scheme, an update after every photo, int8 weights with one byte of fraction: the runs of
[accuracy.md](accuracy.md), with gradients kept in 32-bit floats, in 16-bit and in 8-bit block floating point
([numerics.md](numerics.md)). Top-1 in %, as A / B (A: the middle 112 pixels, B: all 128). Limits on the mean of two
seeds: s16 at most 0.5 points below f32, s8 at most 1. A single different rounding changes a result by about 0.5, as
much as another seed does, so a smaller gain or loss means nothing.

{table}
{verdict}
"""


def page(about: dict, results: dict[str, dict]) -> str:
    lines = [HEADERS, ["---"] * len(HEADERS), *rows(results)]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
    missed = misses(results)
    verdict = "\n".join(f"* {line}" for line in missed) if missed else "All limits are met."
    return PAGE.format(**about, table=text, verdict=verdict)


def given(paths: list[Path]) -> dict[str, dict]:
    """Results of earlier runs, by their settings, not by their names."""
    found = {}
    wanted = {_key({**asdict(run), "rate": run.full_rate}): name for name, run in runs().items()}
    for path in paths:
        for result in json.loads(path.read_text())["runs"].values():
            if name := wanted.get(_key(result)):
                found[name] = result
    return found


def _key(result: dict) -> tuple:
    return tuple(result[field.name] for field in fields(Run))


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    results = given(options.add)
    about = {**machine(), "jobs": options.jobs}

    def done(name: str, result: dict) -> None:
        results[name] = result
        options.output.write_text(json.dumps({"about": about, "runs": results}, indent=1) + "\n")

    try:
        for seed in SEEDS:  # the frozen layers' outputs are those of one seed
            measure({n: r for n, r in runs().items() if r.seed == seed and n not in results}, options.jobs, done)
    except Error as e:
        print(f"gradients: {e}", file=sys.stderr)
        return 1
    print("\n".join([table(HEADERS, rows(results)), "", *misses(results)]))
    options.page.write_text(page(about, results))
    return 1 if misses(results) else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--add", type=Path, nargs="*", default=[], help="existing results, which are not run again")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="how many runs at a time")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "bench" / "gradients.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "gradients.md")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
