"""Does `fit(x, y)` of a scheme that trains more than the head ever end below the head alone, with 1, 5, 10 samples of
each class?

    python -m bench.default_few                 bench/default_few.json, a table
    python -m bench.default_few --only watch    a part of it
    python -m bench.default_few --table         only print what was measured

Each seed draws other samples of the same size from a task of default_tasks.py or default_fresh.py; the test samples are
the task's own. `head` is `fit(x, y)` of the same network compiled with scheme="head", from the same start.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np

import insitu
from bench.default_fresh import checkpoint, kinds, small_digits, spoken
from bench.default_tasks import Task, keywords, watch
from insitu.terminal.table import table

FILE = Path(__file__).parent / "default_few.json"
EACH, SEEDS = (1, 5, 10), (0, 1, 2)
# name -> the schemes to compare with the head alone, and the samples to draw from
TASKS = {
    "keywords, DS-CNN": (("last:4", "full"), lambda seed: keywords(1000, seed)),
    "keywords, DS-CNN, new head": (("last:4", "full"), lambda seed: keywords(1000, seed, keep=False)),
    "keywords in noise": (("full",), lambda seed: spoken(1000, seed, noise=0.3)),
    "watch, wearer 1": (("last:2", "full"), lambda seed: watch(1, 0)),
    "watch, wearer 10": (("last:2", "full"), lambda seed: watch(10, 0)),
    "small digits turned": (("last:4", "full"), lambda seed: small_digits("plain", "turned", 800, seed)),
    "flowers 0-9, mcunet": (("last:4",), lambda seed: kinds(checkpoint("mcunet-5fps"), 10, 0, 10, seed)),
}


def drawn(task: Task, each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """So many samples of each class."""
    (x, y), rng = task.learn, np.random.default_rng(100 + seed)
    rows = [rng.permutation(np.flatnonzero(y == c))[:each] for c in np.unique(y)]
    chosen = np.sort(np.concatenate(rows))
    return x[chosen], y[chosen]


def measure(name: str, scheme: str) -> list[dict]:
    """One task with one scheme: every number of samples and every seed."""
    make = TASKS[name][1]
    learner = insitu.compile(make(0).model, scheme=scheme, **make(0).options)
    start, rows = learner.device.state(), []
    for seed in SEEDS:
        task = make(seed)
        learner.device.load_arrays(start)
        before = learner.evaluate(*task.test)["accuracy"]
        for each in EACH:
            learner.device.load_arrays(start)
            history = learner.fit(*drawn(task, each, seed), seed=seed)
            after = learner.evaluate(*task.test)["accuracy"]
            rows.append({"task": name, "scheme": scheme, "each": each, "seed": seed, "before": before, "after": after,
                         "found": history.found, "restored": history.restored})  # fmt: skip
    return rows


# report -----------------------------------------------------------------------------------------


def line(rows: list[dict], name: str, scheme: str, each: int) -> tuple:
    def of(which: str, key: str) -> np.ndarray:
        return np.array([100 * r[key] for r in rows if (r["task"], r["scheme"], r["each"]) == (name, which, each)])

    head, ours = of("head", "after"), of(scheme, "after")
    numbers = (of(scheme, "before").mean(), head.mean(), ours.mean(), (ours - head).min())
    return name, scheme, str(each), *(f"{n:.1f}" for n in numbers), f"{(ours - of(scheme, 'before')).min():.1f}"


def shown(rows: list[dict]) -> str:
    headers = ("task", "scheme", "each", "before", "head", "fit(x, y)", "worst seed to head", "to before")
    done = {(r["task"], r["scheme"]) for r in rows}
    pairs = [(n, s) for n, (schemes, _) in TASKS.items() for s in schemes if {(n, s), (n, "head")} <= done]
    return table(headers, [line(rows, n, s, each) for n, s in pairs for each in EACH])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="tasks and schemes whose name contains this")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--file", type=Path, default=FILE)
    arguments = parser.parse_args(argv)
    rows = json.loads(arguments.file.read_text()) if arguments.file.is_file() else []
    pairs = [(n, s) for n, (schemes, _) in TASKS.items() for s in ("head", *schemes) if arguments.only in f"{n} {s}"]
    done = {(r["task"], r["scheme"]) for r in rows}
    for name, scheme in [] if arguments.table else [p for p in pairs if p not in done]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows += measure(name, scheme)
        arguments.file.write_text(json.dumps(rows, indent=1) + "\n")
    print(shown(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
