"""How well a learner lives: learn a wearer without forgetting the others, class after class, one class more.

    make accuracy                            runs this after the others
    python -m bench.continual                all parts: tables, bench/continual.json, docs/continual.svg
    python -m bench.continual --only watch   one part: watch, flowers, digits, words
    INSITU_TEST_FILES=DIR ...                where the models and photos are (bench/photos.py)

watch     for each of ten wearers a network that has not seen them (int8, last two layers and head). The store holds
          latents of the other nine, or nothing; the wearer labels 56 windows; five bouts with no options. Measured on
          the wearer's other windows, and on windows of the nine that are not in the store.
flowers   100 classes of Flowers-102 in ten tasks of ten (mcunet-5fps, head only, each photo and its mirror image): the
          first ten are fitted, each later class is added by name. With no sample stored (rows from running means), and
          with 500, 1,500 and 3,000 latents and a bout after every task; against joint training on all 100.
digits    nine digits are fitted, the tenth is added with 20 samples, for each of the ten.
words     six of seven spoken words are fitted (60 clips each, raw 16 kHz in, the int8 DS-CNN, head only), the seventh
          is added with 5, 10 and 20 examples; the speakers of the test are others. The DS-CNN's own training had all
          seven words among its twelve classes: its frozen layers know them, the head does not.

Chosen by results are how lessons are divided between new and old samples, on wearers 1 to 5, and which sample of a
class gives way in a full store, on folds of the training photos, digits and validation clips (docs/continual.md).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

import insitu
from insitu.demo import TARGET
from insitu.demo.lesson import base_learner
from insitu.demo.watch import WEARERS, others, wearer
from insitu.reports.speed import machine
from insitu.terminal.table import table

ROOT = Path(__file__).parent.parent
TUNED_ON = (1, 2, 3, 4, 5)
BOUTS = 5
REPLAY = 560  # windows of the nine others that the store begins with
SIZES = (500, 1500, 3000)
TASKS, TASK = 10, 10


# a wearer ---------------------------------------------------------------------------------------


@cache
def watch(number: int) -> insitu.Learner:
    return base_learner(number)


def one_wearer(number: int, replay: int, bouts: int = BOUTS, steps: int | None = None) -> dict:
    """A learner that lived with this wearer."""
    learner, person, rest = watch(number).on("host"), wearer(number), others(number)
    stored = np.random.default_rng(number).permutation(len(rest))
    kept, unseen = np.sort(stored[:replay]), np.sort(stored[REPLAY:])
    with learner:
        learner.keep()
        if replay:
            learner.observe(rest.x[kept], rest.y[kept])
        found = {"wearer": number, "before": accuracy(learner, person.test.x, person.test.y),
                 "others_before": accuracy(learner, rest.x[unseen], rest.y[unseen])}  # fmt: skip
        learner.observe(person.learn.x, person.learn.y)
        told = [learner.rehearse(steps) for _ in range(bouts)]
        return {**found, "after": accuracy(learner, person.test.x, person.test.y),
                "others_after": accuracy(learner, rest.x[unseen], rest.y[unseen]),
                "steps": sum(t.steps for t in told), "rolled_back": sum(t.rolled_back for t in told)}  # fmt: skip


def accuracy(learner: insitu.Learner, x: np.ndarray, y: np.ndarray) -> float:
    return 100 * learner.evaluate(x, y)["accuracy"]


def run_watch() -> dict:
    ways = {"no replay": 0, f"replay of {REPLAY} latents": REPLAY}
    return {way: [say(one_wearer(n, replay)) for n in WEARERS] for way, replay in ways.items()}


def show_watch(found: dict) -> str:
    rows = []
    for way, runs in found.items():
        for name, chosen in (("all ten", WEARERS), ("6 to 10", WEARERS[5:])):
            part = [r for r in runs if r["wearer"] in chosen]
            mean = {k: float(np.mean([r[k] for r in part])) for k in part[0]}
            rows.append((way, name, f"{mean['before']:.1f}", f"{mean['after']:.1f}", f"{mean['others_before']:.1f}",
                         f"{mean['others_after']:.1f}", f"{mean['others_after'] - mean['others_before']:+.1f}",
                         f"{mean['steps']:.0f}"))  # fmt: skip
    return table(("", "wearers", "wearer before", "after", "others before", "after", "change", "steps"), rows)


# class after class ------------------------------------------------------------------------------


@cache
def photos() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pixels of the training photos with their mirror images, and of the test photos, as the checkpoint takes them."""
    from bench import photos as files
    from bench.transfer import as_input

    train, test = files.read("flowers")
    x, y = np.stack([files.whole(train.image(i)) for i in range(len(train))]), train.labels
    x_test, y_test = np.stack([files.whole(test.image(i)) for i in range(len(test))]), test.labels
    x, y = x[y < TASKS * TASK], y[y < TASKS * TASK]
    x, y = np.concatenate([x, x[:, :, ::-1]]), np.concatenate([y, y])
    return as_input(x), y, as_input(x_test[y_test < TASKS * TASK]), y_test[y_test < TASKS * TASK]


class Flowers:
    """The frozen layers run once; every life then starts from their outputs."""

    def __init__(self):
        from bench.transfer import checkpoint

        self.model = str(checkpoint())
        x, y, x_test, y_test = photos()
        one = self.learner(TASK, TASKS * TASK)
        mind = one.keep(count=5).mind
        self.train, self.test = mind.encode((x,)), mind.encode((x_test,))
        self.y, self.y_test = y, y_test

    def learner(self, classes: int, most: int) -> insitu.Learner:
        return insitu.compile(self.model, classes=[str(k) for k in range(classes)], max_classes=most, scheme="head")

    def score(self, life: insitu.Life, seen: int) -> float:
        """Accuracy over all classes seen so far, in %."""
        life.mind.follow()
        out = life.mind.recall(self.test)[0][:, :seen].argmax(1)
        return 100 * float((out == self.y_test)[self.y_test < seen].mean())

    def fit(self, learner: insitu.Learner, classes: int) -> None:
        """Fit the head to these classes from the latents, as `fit` does from photos."""
        mind = learner.life.mind
        chosen = np.flatnonzero(self.y < classes)
        small = insitu.compile(_head_graph(mind, classes), scheme="head", precision="float")
        small.fit(mind.recall([self.train[i] for i in chosen])[1], self.y[chosen])
        own, found = learner.device.state(), small.device.state()
        for name in ("head.weight", "head.bias"):
            own[name][:classes] = found[name][:classes]
        learner.device.load_arrays(own)

    def joint(self) -> float:
        learner = self.learner(TASKS * TASK, TASKS * TASK)
        learner.keep(count=5)
        self.fit(learner, TASKS * TASK)
        return self.score(learner.life, TASKS * TASK)

    def in_turn(self, count: int | None, steps: int | None = None, bouts: int = 1) -> list[float]:
        """Accuracy after each task; without a count, no sample is stored and nothing but rows is learned."""
        learner, found = self.learner(TASK, TASKS * TASK), []
        life = learner.keep(count=count or 5, covariance=not count)
        if count:
            self.fit(learner, TASK)
        for task in range(TASKS):
            for k in range(task * TASK, (task + 1) * TASK):
                if task:
                    learner.add_class(str(k))
            self.observe(life, np.flatnonzero(self.y // TASK == task))
            for _ in range(bouts if count else 0):
                learner.rehearse(steps)
            found.append(self.score(life, (task + 1) * TASK))
        return found

    def observe(self, life: insitu.Life, chosen: np.ndarray) -> None:
        """What `observe` does, from latents."""
        for i in np.random.default_rng(0).permutation(chosen):
            life.observe_latents([self.train[i]], [int(self.y[i])])


def _head_graph(mind, classes: int):
    from torch import nn, zeros

    head = nn.Linear(mind.features, classes)
    for parameter in head.parameters():
        nn.init.zeros_(parameter)  # as a new head begins; torch's own would be other numbers in each run
    return insitu.load(head, zeros(1, mind.features))


def run_flowers() -> dict:
    flowers = Flowers()
    found: dict = {"joint": say(flowers.joint()), "means": say(flowers.in_turn(None))}
    return {**found, **{str(n): say(flowers.in_turn(n)) for n in SIZES}}


def show_flowers(found: dict) -> str:
    joint = found["joint"]
    names = {"means": "running means, no sample", **{str(n): f"{n:,} latents" for n in SIZES}}
    rows = [("joint training", f"{joint:.1f}", "", "")]
    rows += [(names[k], f"{v[-1]:.1f}", f"{v[-1] - joint:+.1f}", " ".join(f"{a:.0f}" for a in v))
             for k, v in found.items() if k != "joint"]  # fmt: skip
    return table(("", "all 100 classes", "against joint", "after each task"), rows)


WIDE, HIGH, LEFT, TOP, LOWEST = 560, 300, 44, 16, 60.0
COLOURS = ("#888", "#d55", "#e90", "#37b", "#295")


def plot(found: dict) -> str:
    """An SVG of the accuracy after each task, with joint training on all classes as a line."""

    def at(task: float, value: float) -> str:
        x = LEFT + (WIDE - LEFT - 130) * task / (TASKS - 1)
        return f"{x:.1f},{TOP + (HIGH - TOP - 34) * (100 - value) / (100 - LOWEST):.1f}"

    lines = [f'<rect width="{WIDE}" height="{HIGH}" fill="white"/>']
    for value in range(int(LOWEST), 101, 10):
        y = at(0, value).split(",")[1]
        lines.append(f'<path d="M{LEFT} {y}H{WIDE - 130}" stroke="#ddd"/><text x="8" y="{y}">{value} %</text>')
    curves = {"joint": [found["joint"]] * TASKS, **{k: v for k, v in found.items() if k != "joint"}}
    names = {"joint": "joint training", "means": "means alone", **{str(n): f"{n:,} latents" for n in SIZES}}
    for i, ((name, values), colour) in enumerate(zip(curves.items(), COLOURS)):
        points = " ".join(at(task, value) for task, value in enumerate(values))
        dashes = ' stroke-dasharray="6 4"' if name == "joint" else ""
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        words = f"{names[name]}, {values[-1]:.1f}"
        lines.append(f'<text x="{WIDE - 124}" y="{TOP + 14 + 18 * i}" fill="{colour}">{words}</text>')
    for task in range(TASKS):
        x = at(task, LOWEST).split(",")[0]
        lines.append(f'<text x="{x}" y="{HIGH - 12}" text-anchor="middle">{(task + 1) * TASK}</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" font-family="sans-serif" font-size="12"'
    )
    label = "accuracy on all classes seen so far, after each task of ten flowers"
    return f'{head} font-size="12" role="img" aria-label="{label}">\n' + "\n".join(lines) + "\n</svg>\n"


# one class more ---------------------------------------------------------------------------------


def one_digit(new: int, stored: bool) -> dict:
    """Nine digits are fitted, this one is added with 20 samples."""
    from insitu.demo import digits

    d = digits()
    order = [k for k in range(10) if k != new] + [new]
    y, y_test = (np.argsort(order)[v] for v in (d.y_train, d.y_test))
    learner = _digit_learner().on("host")
    learner.fit(d.x_train[y < 9], y[y < 9])
    learner.lately = learner.lately if stored else None

    def both() -> tuple[float, float]:
        right = 100.0 * (learner.predict(d.x_test).argmax(1) == y_test)
        return float(right[y_test < 9].mean()), float(right[y_test == 9].mean())

    before = both()
    learner.keep()
    learner.add_class("new")
    learner.observe(d.x_train[y == 9][:20], ["new"] * 20)
    observed = both()
    note = learner.rehearse().note
    return {"new": new, "before": before, "observed": observed, "rehearsed": both(), "note": note}


@cache
def _digit_learner() -> insitu.Learner:
    from insitu.demo import digits

    return insitu.compile(TARGET, data=digits().x_train[:200], classes=9, max_classes=12)


def run_digits() -> dict:
    return {way: [say(one_digit(k, way == "stored")) for k in range(10)] for way in ("stored", "not stored")}


def show_digits(found: dict) -> str:
    rows = []
    for way, runs in found.items():
        means = {k: np.mean([r[k] for r in runs], 0) for k in ("before", "observed", "rehearsed")}
        worst = min(r["rehearsed"][0] - r["before"][0] for r in runs)
        rows.append((f"the nine others {way}", *(f"{a:.1f} / {b:.1f}" for a, b in means.values()), f"{worst:+.1f}"))
    return table(("old / new digit, %", "before", "20 samples observed", "after a bout", "worst change of old"), rows)


# a new word -------------------------------------------------------------------------------------

EXAMPLES = (5, 10, 20)
FITTED = 60  # clips of each of the six words


@cache
def speech() -> dict[str, np.ndarray]:
    from bench.photos import folder

    with np.load(folder("data") / "speech7.npz") as d:
        return {k: d[k] for k in ("x_train", "y_train", "x_test", "y_test", "class_names")}


@cache
def _word_learner() -> insitu.Learner:
    from bench.photos import folder

    model = folder("models") / "mlperf-tiny" / "kws_dscnn_int8.tflite"
    return insitu.compile(str(model), transform=insitu.Audio(), classes=6, max_classes=8, scheme="head")


def clips(x: np.ndarray, learner: insitu.Learner) -> np.ndarray:
    """Clips as the program takes them."""
    v = learner.graphs["predict"].inputs[0]
    return x.reshape(len(x), *v.shape[1:]).astype(v.type.numpy)


def one_word(new: int) -> dict:
    """Six words are fitted, this one is added with a few examples of speakers of the training split."""
    d, first = speech(), _word_learner()
    order = [k for k in range(7) if k != new] + [new]
    y, y_test = (np.argsort(order)[d[k]] for k in ("y_train", "y_test"))
    learner = first.on("host")
    rows = np.concatenate([np.flatnonzero(y == k)[:FITTED] for k in range(6)])
    learner.fit(clips(d["x_train"][rows], learner), y[rows])
    fitted, lately, found = learner.device.save_state(), learner.lately, {}
    test = clips(d["x_test"], learner)

    def both() -> tuple[float, float]:
        right = 100.0 * (learner.predict(test).argmax(1) == y_test)
        return float(right[y_test < 6].mean()), float(right[y_test == 6].mean())

    before = both()
    for count in EXAMPLES:
        with first.on("host") as learner:
            learner.device.load_state(fitted)
            learner.lately = lately
            learner.keep()
            learner.add_class("new")
            learner.observe(clips(d["x_train"][y == 6][:count], learner), ["new"] * count)
            observed = both()
            learner.rehearse()
            found[str(count)] = {"observed": observed, "rehearsed": both()}
    return {"new": str(d["class_names"][new]), "before": before, **found}


def run_words() -> dict:
    return {"words": [say(one_word(k)) for k in range(7)]}


def show_words(found: dict) -> str:
    runs, rows = found["words"], []
    before = np.mean([r["before"] for r in runs], 0)
    for count in map(str, EXAMPLES):
        means = [np.mean([r[count][k] for r in runs], 0) for k in ("observed", "rehearsed")]
        worst = min(r[count]["rehearsed"][0] - r["before"][0] for r in runs)
        rows.append(
            (f"{count} examples", f"{before[0]:.1f}", *(f"{a:.1f} / {b:.1f}" for a, b in means), f"{worst:+.1f}")
        )
    return table(("old / new word, %", "before", "observed", "after a bout", "worst change of old"), rows)


# all --------------------------------------------------------------------------------------------

PARTS: dict[str, tuple[Callable[[], dict], Callable[[dict], str]]] = {
    "watch": (run_watch, show_watch),
    "flowers": (run_flowers, show_flowers),
    "digits": (run_digits, show_digits),
    "words": (run_words, show_words),
}


def say(found):
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def tune() -> None:
    """Bouts and steps on wearers 1 to 5."""
    rows = []
    for bouts, steps in ((1, None), (5, None), (5, 560), (5, 4096)):
        runs = [one_wearer(n, REPLAY, bouts, steps) for n in TUNED_ON]
        gain, loss = (np.mean([r[f"{k}after"] - r[f"{k}before"] for r in runs]) for k in ("", "others_"))
        rows.append(say((f"{bouts} bouts of {steps or 'the default'} steps", f"{gain:+.2f}", f"{loss:+.2f}")))
    print(table(("", "wearer", "others"), rows))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "bench" / "continual.json")
    options = parser.parse_args(arguments)
    if options.tune:
        tune()
        return 0
    results = json.loads(options.output.read_text())["results"] if options.output.exists() else {}
    for name, (run, show) in PARTS.items():
        if options.only in (None, name):
            start = time.perf_counter()
            results[name] = run()
            print(f"{show(results[name])}\n{name}: {time.perf_counter() - start:.0f} s\n", flush=True)
    if "flowers" in results:
        (ROOT / "docs" / "continual.svg").write_text(plot(results["flowers"]))
    options.output.write_text(json.dumps({"about": machine(), "results": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
