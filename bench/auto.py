"""Is `auto` ever below the head alone or `last:2`, with few samples or many? `fit(x, y)` with nothing else.

    python -m bench.auto                     every task; bench/auto.json, a table
    python -m bench.auto --only watch        a part of it; --table only prints what was measured

Samples are drawn for each class: 1, 5, 10, and all there are. Test samples are never learned from, and choose nothing.
Everything runs through the generated C on this machine, without a board.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.stats import t as student

import insitu
from bench import auto_tasks as new
from bench.default_fresh import checkpoint, kinds, regression
from bench.default_tasks import Task, dense, inverted, keywords, trained, watch
from bench.regressions import explained
from insitu.terminal.table import table

FILE = Path(__file__).parent / "auto.json"
AUTO = "auto:ladder"  # what auto means without a store
SCHEMES = ("head", "last:2", AUTO)
EACH = (1, 5, 10, 0)  # samples per class; 0: all
TARGETS = 10  # samples instead of one per class, if there are no classes
TASKS: dict[str, Callable[[int], Task]] = {
    "DS-CNN, seven words": lambda seed: keywords(700, seed, keep=False),
    "watch, wearer 5": lambda seed: watch(5, seed),
    "watch, wearer 7": lambda seed: watch(7, seed),
    "torch CNN, inverted digits": lambda seed: inverted(500, seed),
    # below: tasks that no rule was chosen with
    "shifted sensors": lambda seed: shifted(seed),
    "mcunet-5fps, ten new flowers": lambda seed: kinds(checkpoint("mcunet-5fps"), 20, 40, 10, seed),
    "proxyless-w0.3, eight new flowers": lambda seed: kinds(checkpoint("proxyless-w0.3"), 20, 72, 8, seed),
    "mbv2-w0.35, twelve new flowers": lambda seed: kinds(checkpoint("mbv2-w0.35"), 20, 88, 12, seed),
    "five new digits": new.new_digits,
    "three new exercises, wearer 4": lambda seed: new.new_exercises(4, seed),
    "three new exercises, wearer 7": lambda seed: new.new_exercises(7, seed),
    "exercise and arm, wearer 6": lambda seed: new.arms(6, seed),
    "six new faults": new.new_faults,
    "targets, another microphone": new.another_microphone,
    "targets, how much noise": new.another_target,
    "targets, Friedman, drifted": lambda seed: regression("friedman", 200, seed),
}


def shifted(seed: int) -> Task:
    """A network for the table of breast cancers meets sensors with another scale and offset."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
    rng = np.random.default_rng(seed)
    model = trained(dense(30, 32, 16, 2), x[:200], y[:200])
    moved = (x[200:] * rng.uniform(0.6, 1.4, 30) + 0.5 * rng.normal(size=30)).astype(np.float32)
    labels, order = y[200:], rng.permutation(len(x) - 200)
    learn, test = order[:150], order[150:]
    return Task(model, (moved[learn], labels[learn]), (moved[test], labels[test]),
                {"data": moved[learn], "example": np.zeros((1, 30), np.float32)})  # fmt: skip


def drawn(task: Task, each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """So many samples of each class, in random order; ten times as many if they have targets."""
    x, y = task.learn
    rng = np.random.default_rng((seed, each))
    if y.dtype.kind == "f":
        chosen = rng.permutation(len(x))[: TARGETS * each or None]
        return x[chosen], y[chosen]
    chosen = np.concatenate([rng.permutation(np.flatnonzero(y == c))[: each or None] for c in np.unique(y)])
    chosen = rng.permutation(chosen)
    return x[chosen], y[chosen]


def measure(name: str, scheme: str, seed: int, each: tuple[int, ...] = EACH) -> list[dict]:
    """One task with one scheme, for each number of samples."""
    task = TASKS[name](seed)
    learner = insitu.compile(task.model, scheme=scheme, **task.options)
    assert learner.parts is not None
    start, rows = learner.device.state(), []
    info = learner.info()
    for count in each:
        learner.device.load_arrays(start)
        x, y = drawn(task, count, seed)
        began = time.process_time()
        found = learner.fit(x, y, seed=seed).found
        took = time.process_time() - began
        accuracy = right(learner, *task.test)
        rows.append({"task": name, "scheme": scheme, "rung": learner.parts.scheme.name, "each": count, "seed": seed,
                     "samples": len(x), "accuracy": accuracy, "seconds": round(took, 1), "found": found,
                     "bytes": info["arena_bytes"] + info["state_bytes"]})  # fmt: skip
    return rows


def right(learner: insitu.Learner, x: np.ndarray, y: np.ndarray) -> float:
    """In percent: right answers, or the explained variance of targets."""
    if y.dtype.kind == "f":
        return float(explained(learner.predict(x), y).mean())
    return 100 * float(learner.evaluate(x, y)["accuracy"])


def lines(rows: list[dict]) -> list[tuple]:
    found = []
    for name in TASKS:
        for each in EACH:
            some = [r for r in rows if r["task"] == name and r["each"] == each]
            mean = {s: _mean([r["accuracy"] for r in some if r["scheme"] == s]) for s in SCHEMES}
            if all(m is not None for m in mean.values()):
                kept = {s: max(r["bytes"] for r in some if r["scheme"] == s) for s in SCHEMES}
                rung = next(r["rung"] for r in some if r["scheme"] == AUTO)
                seeds = len({r["seed"] for r in some})
                found.append((name, str(each or "all"), *(f"{mean[s]:.1f}" for s in SCHEMES), rung,
                              *(f"{kept[s] / 1000:.0f} KB" for s in SCHEMES), str(seeds)))  # fmt: skip
    return found


def paired(rows: list[dict], other: str) -> list[tuple[str, int, list[float]]]:
    """For each setting, how much better `auto` is than another scheme with the same samples and seed."""
    known = {(r["task"], r["each"], r["seed"], r["scheme"]): r["accuracy"] for r in rows}
    found: dict[tuple[str, int], list[float]] = {}
    for (task, each, seed, scheme), accuracy in known.items():
        if scheme == AUTO and (task, each, seed, other) in known:
            found.setdefault((task, each), []).append(accuracy - known[task, each, seed, other])
    return [(*setting, differences) for setting, differences in found.items() if len(differences) > 1]


def compared(rows: list[dict], other: str) -> Iterator[str]:
    """In how many settings `auto` is below another scheme, in how many by more than seeds explain, and which."""
    settings, means = paired(rows, other), []
    for task, each, d in settings:
        mean, error = float(np.mean(d)), float(np.std(d, ddof=1) / len(d) ** 0.5)
        means.append(mean)
        if mean < 0:
            p = float(student.sf(-mean / error, len(d) - 1)) if error else 0.0
            yield f"  {task}, {each or 'all'}: {mean:.1f}, standard error {error:.1f}, {len(d)} seeds, p {p:.2f}"
    below = sum(m < 0 for m in means)
    yield f"against {other}: {np.mean(means):+.1f} on average, below in {below} of {len(means)} settings"


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


HEADERS = ("task", "samples per class", *SCHEMES, "the rung", *(f"{s}, memory" for s in SCHEMES), "seeds")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="tasks and schemes whose name contains this")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--file", type=Path, default=FILE)
    options = parser.parse_args(argv)
    rows = json.loads(options.file.read_text()) if options.file.is_file() else []
    for seed in range(0 if options.table else options.seeds):
        for name in TASKS:
            for scheme in SCHEMES:
                fill(rows, name, scheme, seed, options)
    print(table(HEADERS, lines(rows)))
    for other in SCHEMES[:-1]:
        print("\n".join(compared(rows, other)))
    return 0


def fill(rows: list[dict], name: str, scheme: str, seed: int, options) -> None:
    """Measure what is not known yet, and keep it at once."""
    done = any((r["task"], r["scheme"], r["seed"]) == (name, scheme, seed) for r in rows)
    if done or options.only not in f"{name} {scheme}":
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows += measure(name, scheme, seed)
    for r in rows[-len(EACH) :]:
        print({k: v for k, v in r.items() if k != "found"}, file=sys.stderr, flush=True)
    options.file.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
