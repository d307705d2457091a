"""Does `fit(x, y)` with nothing else learn as much as the best of a sweep over rates, and never less than nothing?

    python -m bench.defaults                    the tasks that no rule was tuned on; bench/defaults.json, a table
    python -m bench.defaults --only watch       a part of it
    python -m bench.defaults --tasks new        those put aside later (default_new.py)
    python -m bench.defaults --tasks later      those put aside after that (default_later.py)
    python -m bench.defaults --tasks domains    those of other domains (default_domains.py)
    python -m bench.defaults --tasks sources    measured by others, put aside after those (default_sources.py)
    python -m bench.defaults --tasks sizes      larger networks, put aside last (default_sizes.py)
    python -m bench.defaults --tasks quantities regressions (default_quantities.py)
    python -m bench.defaults --tasks tuning     those that the rules were tuned on; older, oldest: before that
    python -m bench.defaults --table            only print what was measured

Each task is a network and samples it was not made for (default_fresh.py and others), each scheme is compiled
once, each seed draws other samples. `before` is the accuracy on test samples before training, `sweep` the best over a
grid of rates in steps of three, chosen by the test samples themselves, with the usual epochs and warm-up;
`ours` is `fit(x, y)`. `fair` is the best of the sweep without its luck: chosen by one half of the test samples, scored
on the other, and the other way round. For a regression the error takes the place of accuracy, as 1 - error / error
before. A run that was stopped goes on where it was. Everything runs through the generated C on this machine.
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
from bench.default_domains import DOMAINS
from bench.default_fresh import TUNING, UNTOUCHED
from bench.default_later import LATER
from bench.default_new import NEW
from bench.default_quantities import QUANTITIES
from bench.default_sizes import SIZES
from bench.default_sources import SOURCES
from bench.default_tasks import OTHERS, SCHEMES, TUNED
from insitu.errors import Error
from insitu.learner.measures import RIGHT
from insitu.reports.speed import machine
from insitu.terminal.table import table

FILE = Path(__file__).parent / "defaults.json"
GRID = tuple(3.0**k * 1e-4 for k in range(0, 10))  # 0.0001 to 2
SEEDS = (0, 1, 2)
TASKS = {
    "untouched": UNTOUCHED,
    "new": NEW,
    "later": LATER,
    "domains": DOMAINS,
    "sources": SOURCES,
    "sizes": SIZES,
    "quantities": QUANTITIES,
    "tuning": TUNING,
    "older": OTHERS,
    "oldest": {name: (SCHEMES, make) for name, make in TUNED.items()},
}
HEADERS = (
    "task", "scheme", "before", "best of sweep", "without its luck", "fit(x, y)", "to best", "to before", "found", "",
)  # fmt: skip
NEAR, HARM = 2.0, 1.0  # points: below the best of the sweep, below the start


def measured(learner, test) -> float:
    return float(learner.evaluate(*test)[learner.measure])


def each(learner, test) -> np.ndarray:
    """The measure of every test sample."""
    out, y, right = learner.predict(test[0]), learner.samples(*test).labels, RIGHT.get(learner.recipe.loss)
    rows = out.reshape(len(out), -1)
    return right(rows, y).astype(float) if right else np.square(rows - y.reshape(rows.shape)).mean(1)


def fair(scores: np.ndarray, better_high: bool) -> float:
    """Of results [rates, samples], the best by one half of the samples, scored on the other half; both ways."""
    half = np.random.default_rng(0).permutation(scores.shape[1]) % 2 == 0
    worst = np.where(np.isfinite(scores), scores, -np.inf if better_high else np.inf)
    best = np.argmax if better_high else np.argmin
    return float(np.mean([scores[best(worst[:, a].mean(1))][~a].mean() for a in (half, ~half)]))


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
    found = []
    for rate in GRID:
        learner.device.load_arrays(start)
        learner.fit(*task.learn, rate=rate, seed=seed)
        found.append(each(learner, task.test))
    return {"seed": seed, "before": before, "ours": ours, "sweep": [float(r.mean()) for r in found],
            "fair": fair(np.stack(found), learner.measure == "accuracy"), "found": history.found,
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
    luck = np.mean([points(row, s["fair"], s) for s in seeds])
    numbers = (np.mean(before), np.mean(top), luck, np.mean(ours), -behind, harm)
    return row["task"], row["scheme"], *(f"{n:.1f}" for n in numbers), seeds[0]["found"], verdict


def shown(rows: list[dict]) -> str:
    return table(HEADERS, [line(row) for row in rows])


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
