"""How well the compiled program learns: mcunet-5fps, int8, on Flowers-102 and on person / no person.

    make accuracy                                    the default set: a table, bench/accuracy.json, docs/accuracy.md
    python -m bench.accuracy --full                  also every update arithmetic, at batch 1 and 64
    python -m bench.accuracy --only flowers/99kb     a part of it: runs whose name contains this
    python -m bench.accuracy --grad s16              with integer gradients; bench/accuracy-s16.json, no page
    INSITU_TEST_FILES=DIR make accuracy              DIR/models/mcunet-5fps.pkl, DIR/data/{flowers102,person}.npz

Every number comes from the generated C. Accuracy is top-1 in %, as A / B: A looks at the middle 112 pixels of the test
photos, enlarged to 128, B at all 128. If a floor is missed, the exit status is 1. transfer.py says how a run trains.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from bench.photos import ROOT, SOURCES
from bench.transfer import Kept, Run, remember, train
from insitu.errors import Error
from insitu.reports.speed import machine
from insitu.terminal.table import table
from insitu.training.integer_gradients import GRADIENTS

SCHEMES = {"head": "head", "bias:22": "bias:22", "49kb": "mcunet-5fps/49kb", "99kb": "mcunet-5fps/99kb"}
ARITHMETICS = ("residual", "residual4", "stochastic", "nearest", "master")
DEVICE = ("residual", 1)  # how a device learns: this arithmetic, an update after every photo

# results of an independent simulation of the same recipe (A, B); its seeds differ by about 0.5
REFERENCE = {
    ("flowers", "head", "master", 64): (80.0, 75.1),
    ("flowers", "bias:22", "master", 64): (83.7, 80.4),
    ("flowers", "49kb", "master", 64): (84.5, 81.0),
    ("flowers", "99kb", "master", 64): (84.6, 81.9),
    ("flowers", "99kb", "master", 1): (84.8, 82.2),
    ("flowers", "99kb", "nearest", 64): (84.1, 81.4),
    ("flowers", "99kb", "nearest", 1): (82.9, 80.1),
    ("flowers", "99kb", "stochastic", 64): (84.4, 81.5),
    ("flowers", "99kb", "stochastic", 1): (82.6, 79.8),
    ("flowers", "99kb", "residual", 64): (84.9, 82.2),
    ("flowers", "99kb", "residual", 1): (84.4, 81.6),
    ("flowers", "99kb", "residual4", 1): (84.7, 81.7),
    ("person", "head", "master", 64): (84.9, 83.4),
    ("person", "bias:22", "master", 64): (85.6, 85.3),
    ("person", "49kb", "master", 64): (85.9, 85.0),
    ("person", "99kb", "master", 64): (86.2, 85.6),
    ("person", "99kb", "residual", 1): (86.0, 85.8),
}
# what must be reached in the device setting: A, B, and the mean loss of the last epoch
FLOORS = {
    ("flowers", "49kb"): (83.0, 79.3, None),
    ("flowers", "99kb"): (83.0, 80.0, 0.03),
    ("person", "49kb"): (84.5, 83.6, None),
    ("person", "99kb"): (84.8, 84.2, None),
}


# runs -------------------------------------------------------------------------------------------


def runs(full: bool, seed: int) -> dict[str, Run]:
    """Name -> run, runs with a floor first. The head and biases are not int8, so they have only one arithmetic."""
    found = {}
    for short, scheme in reversed(SCHEMES.items()):
        for data in SOURCES:
            for arithmetic, batch in _ways(short, full):
                found[name_of(data, short, arithmetic, batch)] = Run(
                    data, scheme, arithmetic, batch, seed, head_init="uniform"
                )
    return dict(sorted(found.items(), key=lambda item: not _has_floor(item[0])))


def _has_floor(name: str) -> bool:
    data, scheme, *_ = name.split("/")
    return (data, scheme) in FLOORS and name == name_of(data, scheme, *DEVICE)


def _ways(scheme: str, full: bool) -> Iterable[tuple[str, int]]:
    if full and scheme == "99kb":
        return [(arithmetic, batch) for batch in (1, 64) for arithmetic in ARITHMETICS]
    return (DEVICE, ("master", 1)) if scheme.endswith("kb") else (DEVICE,)


def name_of(data: str, scheme: str, arithmetic: str, batch: int) -> str:
    return f"{data}/{scheme}/{arithmetic}/{batch}"


def measure(wanted: dict[str, Run], jobs: int, done: Callable[[str, dict], None]) -> None:
    """Several runs at a time; `done` is called with each result when it is ready."""
    kept = {}
    for run in wanted.values():
        if run.data not in kept:
            kept[run.data] = _remembered(run, jobs)
    with ProcessPoolExecutor(jobs) as pool:
        names = {pool.submit(_one, name, run, kept[run.data]): name for name, run in wanted.items()}
        for future in as_completed(names):
            done(names[future], future.result())


def _remembered(run: Run, jobs: int) -> Kept:
    start = time.perf_counter()
    kept = remember(run.data, run.seed, jobs, run.limit)
    print(f"{run.data}: frozen layers done, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return kept


def _one(name: str, run: Run, kept: Kept) -> dict:
    print(f"{name}: training", file=sys.stderr, flush=True)
    r = train(run, kept)
    print(
        f"{name}: {r['A']:.1f} / {r['B']:.1f}, loss {r['loss']:.4f}, {r['seconds']:.0f} s", file=sys.stderr, flush=True
    )
    return r


# report -----------------------------------------------------------------------------------------


def misses(results: dict[str, dict]) -> list[str]:
    """Messages about the floors that were not reached."""
    found = []
    for (data, scheme), (a, b, loss) in FLOORS.items():
        r = results.get(name_of(data, scheme, *DEVICE))
        if r is None:
            continue
        if not (r["A"] >= a and r["B"] >= b):
            found.append(f"{data}/{scheme}: {r['A']:.1f} / {r['B']:.1f} is below the floor {a} / {b}")
        if loss is not None and not r["loss"] <= loss:
            found.append(f"{data}/{scheme}: a last loss of {r['loss']:.4f} is above {loss}")
    return found


HEADERS = ("photos", "trained", "weights kept as", "batch", "A / B", "reference", "floor", "last loss", "clipped",
           "minutes")  # fmt: skip


def rows(results: dict[str, dict]) -> list[tuple]:
    return [_row(name, r) for name, r in sorted(results.items(), key=lambda item: _place(item[0]))]


def _place(name: str) -> tuple:
    data, scheme, arithmetic, batch = name.split("/")
    return [*SOURCES].index(data), [*SCHEMES].index(scheme), int(batch), ARITHMETICS.index(arithmetic)


def _row(name: str, r: dict) -> tuple:
    data, scheme, arithmetic, batch = name.split("/")
    integer = scheme.endswith("kb")
    floor = FLOORS.get((data, scheme)) if (arithmetic, int(batch)) == DEVICE else None
    key = (data, scheme, arithmetic, int(batch))
    reference = REFERENCE.get(key) or REFERENCE.get((data, scheme, "master", 64))
    share = 100 * r["clipped"] / max(1, r["updates"])
    return (data, scheme, arithmetic if integer else "-", batch, _two((r["A"], r["B"])), _two(reference),
            _two(floor), f"{r['loss']:.4f}", f"{share:.2f} %", f"{r['seconds'] / 60:.1f}")  # fmt: skip


def _two(pair) -> str:
    return f"{pair[0]:.1f} / {pair[1]:.1f}" if pair else "-"


def markdown(headers: Iterable[str], lines: Iterable[tuple]) -> str:
    out = [headers, ["---"] * len(HEADERS), *lines]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in out) + "\n"


PAGE = """# What the compiled program learns

Written by `make accuracy` (bench/accuracy.py); seed {seed}. Every number comes from the generated C on this machine:
{machine}; {compiler}.

mcunet-5fps, the released int8 ImageNet checkpoint, with a new float head. Flowers-102: 2,040 photos to train on (train
and val), 6,149 to test on, 30 epochs; person / no person: 8,000 and 2,000, 8 epochs. Top-1 in %, as **A / B**: A looks
at the middle 112 pixels of the test photos, enlarged to 128, B at all 128. Plain SGD, one epoch of warm-up, cosine to
zero, fixed random views (crop of 35 to 100 % of the area, mirror, light and colour), rates as in bench/transfer.py.

`residual` at batch 1 is what a device does: int8 weights with one byte of fraction, an update after every photo.
`master` keeps a float copy as well. *reference* is the result of an independent simulation of the same recipe (if it
has no such entry: its float weights at batch 64); seeds differ by about 0.5. *last loss* is the mean over the last
epoch, *clipped* the share of parameter updates whose gradient was scaled down.

{table}
{verdict}
The published 88.8 % for Flowers-102 with the 99kb scheme used full-resolution photos and another recipe, so it cannot
be compared with results on 128-pixel files. The runs took {minutes:.0f} minutes in total, {jobs} at a time.
"""


def page(about: dict, results: dict[str, dict]) -> str:
    missed = misses(results)
    verdict = "\n".join(f"* {line}" for line in missed) if missed else "All floors are met."
    minutes = sum(r["seconds"] for r in results.values()) / 60
    return PAGE.format(**about, minutes=minutes, table=markdown(HEADERS, rows(results)), verdict=verdict + "\n")


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    wanted = {n: r for n, r in runs(options.full, options.seed).items() if options.only in n}
    if not wanted:
        print(f"no run has a name with {options.only!r}: {', '.join(runs(options.full, 0))}", file=sys.stderr)
        return 1
    results = {n: r for path in options.add for n, r in json.loads(path.read_text())["runs"].items() if n in wanted}
    given = {"limit": options.limit, "epochs": options.epochs, "grad": options.grad}
    missing = {n: replace(r, **given) for n, r in wanted.items() if n not in results}
    about = {**machine(), "seed": options.seed, "jobs": options.jobs, "grad": options.grad}

    def done(name: str, result: dict) -> None:
        results[name] = result
        options.output.write_text(json.dumps({"about": about, "runs": results}, indent=1) + "\n")

    try:
        measure(missing, options.jobs, done)
    except Error as e:
        print(f"accuracy: {e}", file=sys.stderr)
        return 1
    print("\n".join([table(HEADERS, rows(results)), "", *misses(results)]))
    if options.page:
        options.page.write_text(page(about, results))
    return 1 if misses(results) else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="every update arithmetic at batch 1 and 64")
    parser.add_argument("--only", default="", help="runs whose name contains this; writes no page")
    parser.add_argument("--add", type=Path, nargs="*", default=[], help="existing results, which are not run again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="how many runs at a time")
    parser.add_argument("--limit", type=int, help="photos to train and to test on, for a quick look; writes no page")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--grad", choices=tuple(GRADIENTS), default="f32", help="how int8 layers' gradients are kept")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    other = "" if options.grad == "f32" else f"-{options.grad}"
    options.output = options.output or ROOT / "bench" / f"accuracy{other}.json"
    whole = not (options.only or options.limit or options.epochs or other)
    options.page = options.page or (ROOT / "docs" / "accuracy.md" if whole else None)
    return options


if __name__ == "__main__":
    sys.exit(main())
