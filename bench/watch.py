"""How well a watch learns its wearer: ten networks, each with one wearer left out, int8, through the generated C.

    make accuracy                        runs this after the photos
    python -m bench.watch                a table, bench/watch.json
    python -m bench.watch --board nrf52840      the same in the firmware of an emulated board: minutes
    python -m bench.watch --tune         how the settings were chosen: on wearers 1 to 5 alone

A network meets the wearer it has not seen, learns from the first four windows of each of their 14 recordings (56
windows, one update per window, int8 weights with a byte of fraction) and is tested on the windows after those. The one
window in between is skipped, because it shares readings with both. Scheme, rate and epochs were chosen on the mean of
wearers 1 to 5, before wearers 6 to 10 were looked at; the table has both means. The C runs on the host unless a board
is named: both give the same bytes. If the mean gain is below 3 points, the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

from insitu.demo.device import HOST, open_device
from insitu.demo.lesson import LESSON, Lesson, base_learner, material, teach
from insitu.demo.watch import WEARERS, Windows, others, wearer
from insitu.learner import Learner
from insitu.reports.speed import machine
from insitu.terminal.table import table

ROOT = Path(__file__).parent.parent
FLOOR = 3.0  # points, mean over the ten
TUNED_ON = (1, 2, 3, 4, 5)
REPLAY = 56  # windows of other wearers, as many as the wearer's own
WAYS = {
    "last two and head": LESSON,
    "with replay": replace(LESSON, replay=REPLAY),
    "all layers": replace(LESSON, scheme="full"),
    "head only": replace(LESSON, scheme="head"),
}
RATES, EPOCHS, SCHEMES = (0.001, 0.002, 0.003, 0.005, 0.01), (6, 12, 20), ("head", "last:2", "full")


def accuracy(learner: Learner, windows: Windows) -> float:
    return 100 * learner.evaluate(windows.x, windows.y)["accuracy"]


@cache
def compiled(number: int, scheme: str) -> tuple[Learner, bytes]:
    """A learner, and its state before it has learned anything."""
    learner = base_learner(number, scheme)
    return learner, learner.device.save_state()


def measure(number: int, lesson: Lesson, board: str = HOST) -> dict:
    """One wearer, one lesson, on the host or an emulated board."""
    learner, untaught = compiled(number, lesson.scheme)
    learner.device.load_state(untaught)
    person, rest = wearer(number), others(number)
    before, others_before = accuracy(learner, person.test), accuracy(learner, rest)
    with open_device(learner, board).learner as there:
        history = teach(there, material(number, person.learn, lesson), lesson)
        learner.device.load_state(there.device.save_state())
    after, others_after = accuracy(learner, person.test), accuracy(learner, rest)
    return {
        "wearer": number, "before": before, "after": after, "others_before": others_before,
        "others_after": others_after, "last_loss": float(np.mean(history.losses[-1][-56:])),
        "windows": len(person.test), **learner.info(),
    }  # fmt: skip


def gain(rows: Iterable[dict], key: str = "") -> float:
    return float(np.mean([r[f"{key}after"] - r[f"{key}before"] for r in rows]))


def mean(rows: Iterable[dict], key: str) -> float:
    return float(np.mean([r[key] for r in rows]))


# report -----------------------------------------------------------------------------------------


def per_wearer(results: dict[str, list[dict]]) -> str:
    headers = ("wearer", "windows", "before", *results)
    first = next(iter(results.values()))
    rows = [
        (r["wearer"], r["windows"], f"{r['before']:.1f}", *(f"{rs[i]['after']:.1f}" for rs in results.values()))
        for i, r in enumerate(first)
    ]
    for name, chosen in (("mean", WEARERS), ("mean of 6 to 10", [n for n in WEARERS if n not in TUNED_ON])):
        part = {way: [r for r in rs if r["wearer"] in chosen] for way, rs in results.items()}
        before = f"{mean(part[way0(part)], 'before'):.1f}"
        rows.append((name, "", before, *(f"{mean(rs, 'after'):.1f}" for rs in part.values())))
    return table(headers, rows)


def way0(results: dict) -> str:
    return next(iter(results))


def per_way(results: dict[str, list[dict]]) -> str:
    rows = [
        (way, f"{gain(rs):+.1f}", f"{mean(rs, 'others_before'):.1f}", f"{mean(rs, 'others_after'):.1f}",
         rs[0]["arena_bytes"] + rs[0]["state_bytes"])
        for way, rs in results.items()
    ]  # fmt: skip
    return table(("trained", "gain, points", "other nine before", "after", "arena + state, B"), rows)


def tune() -> None:
    """Mean over wearers 1 to 5 for every setting."""
    rows = []
    for scheme in SCHEMES:
        for rate in RATES:
            for epochs in EPOCHS:
                lesson = replace(LESSON, scheme=scheme, rate=rate, epochs=epochs)
                found = [measure(n, lesson) for n in TUNED_ON]
                rows.append((scheme, rate, epochs, f"{gain(found):+.2f}", f"{gain(found, 'others_'):+.2f}"))
                print(*rows[-1], sep="\t", file=sys.stderr, flush=True)
    print(table(("scheme", "rate", "epochs", "gain", "other nine"), rows))


def about() -> dict:
    packages = {name: version(name) for name in ("numpy", "seglearn", "onnx")}
    return {**machine(), **packages, "lesson": asdict(LESSON), "tuned_on": TUNED_ON}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", action="store_true", help="try every setting, on wearers 1 to 5")
    parser.add_argument("--board", default=HOST, help="train in the firmware of an emulated board: the first way only")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "bench" / "watch.json")
    options = parser.parse_args(arguments)
    if options.tune:
        tune()
        return 0
    ways = WAYS if options.board == HOST else {way0(WAYS): LESSON}
    results = {way: [measure(n, lesson, options.board) for n in WEARERS] for way, lesson in ways.items()}
    options.output.write_text(
        json.dumps({"about": about(), "board": options.board, "results": results}, indent=1) + "\n"
    )
    print("\n".join([per_wearer(results), "", per_way(results), "", *(f"{k}: {v}" for k, v in about().items())]))
    reached = gain(results[way0(results)])
    if reached < FLOOR:
        print(f"a mean gain of {reached:.1f} points is below {FLOOR}", file=sys.stderr)
    return 0 if reached >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
