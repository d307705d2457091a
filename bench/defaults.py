"""Does `fit(x, y)` with nothing else learn as much as the best of a sweep over rates, and never less than nothing?

    python -m bench.defaults                    the tasks that no rule was tuned on; bench/defaults.json, a table
    python -m bench.defaults --only watch       a part of it
    python -m bench.defaults --tasks tuning     those that the rules were tuned on; older, oldest: before that
    python -m bench.defaults --table            only print what was measured

Each task is a network and samples it was not made for (default_fresh.py, default_tasks.py), each scheme is compiled
once, each seed draws other samples. `before` is the accuracy on test samples before training, `sweep` the best over a
grid of rates in steps of three, chosen by the test samples themselves, with the epochs and warm-up that `fit` chose;
`ours` is `fit(x, y)`. For a regression the error takes the place of accuracy, as 1 - error / error before. A run that
was stopped goes on where it was. Everything runs through the generated C on this machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

import insitu
from bench.default_fresh import TUNING, UNTOUCHED
from bench.default_tasks import OTHERS, SCHEMES, TUNED
from insitu.errors import Error
from insitu.reports.speed import machine
from insitu.terminal.table import table

FILE = Path(__file__).parent / "defaults.json"
GRID = tuple(3.0**k * 1e-4 for k in range(0, 10))  # 0.0001 to 2
SEEDS = (0, 1, 2)
TASKS = {
    "untouched": UNTOUCHED,
    "tuning": TUNING,
    "older": OTHERS,
    "oldest": {name: (SCHEMES, make) for name, make in TUNED.items()},
}
NEAR, HARM = 2.0, 1.0  # points: below the best of the sweep, below the start


def measured(learner, test) -> float:
    return float(learner.evaluate(*test)[learner.measure])


def measure(name: str, scheme: str, make, seeds=SEEDS) -> dict:
    """One task with one scheme, for every seed."""
    task = make(0)
    learner = insitu.compile(task.model, scheme=scheme, **task.options)
    start = learner.device.state()
    rows = [one(learner, start, make(seed), seed) for seed in seeds]
    return {"task": name, "scheme": scheme, "measure": learner.measure, "seeds": rows}


def one(learner, start, task, seed: int) -> dict:
    learner.device.load_arrays(start)
    before, began = measured(learner, task.test), time.process_time()
    history = learner.fit(*task.learn, seed=seed)
    took, ours = time.process_time() - began, measured(learner, task.test)
    sweep = []
    for rate in GRID:
        learner.device.load_arrays(start)
        learner.fit(*task.learn, rate=rate, seed=seed)
        sweep.append(measured(learner, task.test))
    return {"seed": seed, "before": before, "ours": ours, "sweep": sweep, "found": history.found,
            "restored": history.restored, "seconds": took}  # fmt: skip


# report -----------------------------------------------------------------------------------------


def points(row: dict, value: float, seed: dict) -> float:
    """Accuracy in percent; for an error the share of the first error that is gone."""
    return 100 * (value if row["measure"] == "accuracy" else 1 - value / seed["before"])


def best(row: dict, seed: dict) -> float:
    finite = [points(row, v, seed) for v in seed["sweep"] if np.isfinite(v)]
    return max(finite)


def line(row: dict) -> tuple:
    seeds = row["seeds"]
    before, ours = ([points(row, s[k], s) for s in seeds] for k in ("before", "ours"))
    top = [best(row, s) for s in seeds]
    behind, harm = np.mean(top) - np.mean(ours), min(o - b for o, b in zip(ours, before))
    verdict = "" if behind <= NEAR and harm >= -HARM else "behind" if harm >= -HARM else "harm"
    numbers = (np.mean(before), np.mean(top), np.mean(ours), min(o - t for o, t in zip(ours, top)), harm)
    return row["task"], row["scheme"], *(f"{n:.1f}" for n in numbers), seeds[0]["found"], verdict


def shown(rows: list[dict]) -> str:
    headers = ("task", "scheme", "before", "best of sweep", "fit(x, y)", "worst seed to best", "to before", "found", "")
    return table(headers, [line(row) for row in rows])


def about() -> dict:
    names = ("numpy", "ziglang", "torch", "scikit-learn", "seglearn")
    return {"machine": machine(), "versions": {name: version(name) for name in names}}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="tasks and schemes whose name contains this")
    parser.add_argument("--tasks", choices=TASKS, default="untouched")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    arguments = parser.parse_args(argv)
    known = json.loads(arguments.file.read_text()) if arguments.file.is_file() else {"about": about(), "rows": []}
    if not arguments.table:
        for name, (schemes, make) in TASKS[arguments.tasks].items():
            for scheme in schemes:
                fill(known, name, scheme, make, arguments)
    print(shown([row for row in known["rows"] if arguments.only in f"{row['task']} {row['scheme']}"]))
    return 0


def fill(known: dict, name: str, scheme: str, make, arguments) -> None:
    """Measure what is not known yet, and keep it at once."""
    done = any((row["task"], row["scheme"]) == (name, scheme) for row in known["rows"])
    if done or arguments.only not in f"{name} {scheme}":
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            known["rows"].append(measure(name, scheme, make, range(arguments.seeds)))
    except Error as e:
        print(f"{name}, {scheme}: {e}", file=sys.stderr)
        return
    print(" ".join(line(known["rows"][-1])), file=sys.stderr, flush=True)
    arguments.file.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
