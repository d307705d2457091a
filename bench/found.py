"""How well schemes that are found learn, next to published ones: mcunet-5fps, int8, Flowers-102, against SRAM.

    python -m bench.found                    every run that is missing; bench/found.json, a table
    python -m bench.found --only ladder      a part of it; --table only prints what was measured
    python -m bench.found --data person      person / no person instead of flowers
    INSITU_TEST_FILES=DIR python -m bench.found

Rates are chosen on halves of the training photos: one half is learned, random views of the other are tested. Then all
training photos are learned and the test photos tested, which choose nothing. Eight epochs, a head of zeros, one photo
per update, 16-bit gradients: what a device does (`--epochs` for more). SRAM is that of the linked program on stm32f746
with 10 classes and `--prefer memory`, everything counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.photos import ROOT
from bench.transfer import MODEL, Kept, Run, checkpoint, remember, train
from insitu.terminal.table import table

FILE = ROOT / "bench" / "found.json"
EPOCHS = 8
MOST = 9  # seeds
RATES = (0.05, 0.1, 0.2, 0.4)
SCHEMES = {
    "head": "head", "bias:22": "bias:22", "49kb": f"{MODEL}/49kb", "ladder:22": "ladder:22", "ladder:28": "ladder:28",
    "99kb": f"{MODEL}/99kb", "ladder:36": "ladder:36",
}  # fmt: skip
HEADERS = ("scheme", "SRAM", "rate", "held-out half", "A", "B", "seeds")


@dataclass(frozen=True)
class Setting:
    """One run of one scheme."""

    data: str
    name: str
    epochs: int
    rate: float
    seed: int = 0
    choosing: bool = False

    @property
    def run(self) -> Run:
        return Run(self.data, SCHEMES[self.name], seed=self.seed, rate=self.rate, epochs=self.epochs, grad="s16",
                   choosing=self.choosing)  # fmt: skip

    @property
    def key(self) -> str:
        return f"{self.data}/{self.epochs}/{self.name}/{self.rate}/{self.seed}/{'half' if self.choosing else 'all'}"


def fill(known: dict, kept: Kept, setting: Setting, file: Path) -> dict:
    """One run, unless it is known; kept at once."""
    if setting.key not in known["runs"]:
        found = train(setting.run, kept)
        known["runs"][setting.key] = {k: found[k] for k in ("A", "B", "held", "loss", "seconds") if k in found}
        print(setting.key, known["runs"][setting.key], file=sys.stderr, flush=True)
        file.write_text(json.dumps(known, indent=1) + "\n")
    return known["runs"][setting.key]


def best_rate(known: dict, setting: Setting) -> float | None:
    """The rate that was best on the held-out half, of those tried."""
    found = {rate: known["runs"].get(replace(setting, rate=rate, seed=0, choosing=True).key) for rate in RATES}
    tried = {rate: r["held"] for rate, r in found.items() if r}
    return max(tried, key=tried.__getitem__) if tried else None


def sram_of(name: str) -> int | None:
    """Of the linked program; None if it does not fit the board."""
    from insitu import pipeline
    from insitu.errors import BudgetError

    try:
        made = pipeline.compile(checkpoint(), classes=10, scheme=SCHEMES[name], board="stm32f746", prefer="memory")
    except BudgetError:
        return None
    assert made.deployed is not None
    return made.deployed.sram_bytes


def lines(known: dict, data: str, epochs: int) -> list[tuple]:
    found = []
    for name in SCHEMES:
        setting = Setting(data, name, epochs, 0.0)
        rate, sram = best_rate(known, setting), known["sram"].get(name)
        if rate is None:
            continue
        setting = replace(setting, rate=rate)
        done = [r for s in range(MOST) if (r := known["runs"].get(replace(setting, seed=s).key))]
        held = known["runs"][replace(setting, choosing=True).key]["held"]
        mean = (f"{np.mean([r[k] for r in done]):.1f}" if done else "-" for k in "AB")
        fits = f"{sram / 1000:.0f} KB" if sram else "too much" if name in known["sram"] else "-"
        found.append((name, fits, rate, f"{held:.1f}", *mean, len(done)))
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="schemes whose name contains this")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--data", choices=("flowers", "person"), default="flowers")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="to choose from")
    parser.add_argument("--choose", action="store_true", help="only look for the rates")
    parser.add_argument("--jobs", type=int, default=1, help="for the frozen layers")
    parser.add_argument("--file", type=Path, default=FILE)
    options = parser.parse_args(argv)
    known = json.loads(options.file.read_text()) if options.file.is_file() else {"runs": {}, "sram": {}}
    wanted = [name for name in SCHEMES if options.only in name and not options.table]
    for seed in range(options.seeds if wanted else 0):
        measure(known, wanted, seed, options)
    for name in wanted:
        if name not in known["sram"]:
            known["sram"][name] = sram_of(name)
            options.file.write_text(json.dumps(known, indent=1) + "\n")
    print(table(HEADERS, [tuple(map(str, line)) for line in lines(known, options.data, options.epochs)]))
    return 0


def measure(known: dict, wanted: list[str], seed: int, options) -> None:
    kept = remember(options.data, seed, options.jobs)
    for name in wanted:
        setting = Setting(options.data, name, options.epochs, 0.0, seed)
        for rate in options.rates if seed == 0 else ():
            fill(known, kept, replace(setting, rate=rate, choosing=True), options.file)
        rate = best_rate(known, setting)
        assert rate is not None
        if not options.choose:
            fill(known, kept, replace(setting, rate=rate), options.file)


if __name__ == "__main__":
    sys.exit(main())
