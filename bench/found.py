"""How well schemes that are found learn, next to published ones: int8 networks, Flowers-102 or persons, against SRAM.

    python -m bench.found                              every run that is missing; bench/found.json, a table
    python -m bench.found --only 49kb,ladder:28        some schemes; --table only prints what was measured
    python -m bench.found --recipe "16, smooth"        another recipe (RECIPES)
    python -m bench.found --data person --limit 2000   person / no person instead of flowers, some of the photos
    python -m bench.found --model mbv2-w0.35           another network
    INSITU_TEST_FILES=DIR python -m bench.found

Rates are chosen on halves of the training photos: one half is learned, random views of the other are tested. Then all
training photos are learned and the test photos tested, which choose nothing. A head of zeros, one photo per update,
16-bit gradients: what a device does. Seeds change the order of the photos; their views are the same for all. SRAM is
the least `--sram` for stm32f746 with 10 classes: of the linked program, everything counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from bench.found_plot import Dot, plot
from bench.photos import ROOT
from bench.transfer import MODEL, Kept, Run, checkpoint, remember, train
from insitu.terminal.table import table

FILE = ROOT / "bench" / "found.json"
MOST = 9  # seeds
VIEWS = 8  # of each photo of a few, or of persons
RATES = (0.1, 0.2, 0.4)
RECIPES: dict[str, dict] = {
    "8": {"epochs": 8},
    "8, smooth": {"epochs": 8, "smoothing": 0.1},
    "16": {"epochs": 16},
    "16, smooth": {"epochs": 16, "smoothing": 0.1},
    "8, mean of 4": {"epochs": 8, "average": 4},
    "8, constant": {"epochs": 8, "schedule": "constant"},
    "8, constant, mean of 4": {"epochs": 8, "schedule": "constant", "average": 4},
}
SCHEMES: dict[str, dict[str, str]] = {
    MODEL: {
        "head": "head", "bias:22": "bias:22", "49kb": f"{MODEL}/49kb", "ladder:20": "ladder:20",
        "ladder:28": "ladder:28", "99kb": f"{MODEL}/99kb", "ladder:38": "ladder:38",
    },
    "mbv2-w0.35": {"head": "head", "49kb": "mbv2-w0.35/49kb", "ladder:37": "ladder:37"},
    "proxyless-w0.3": {
        "head": "head", "49kb": "proxyless-w0.3/49kb", "ladder:49": "ladder:49", "ladder:54": "ladder:54",
    },
}  # fmt: skip
HEADERS = ("scheme", "SRAM", "recipe", "rate", "held-out half", "A", "B", "B, sd", "seeds")


@dataclass(frozen=True)
class Setting:
    """One run of one scheme; a scheme that is in no list is given by its name, or by its file."""

    model: str
    data: str
    recipe: str
    name: str
    rate: float = 0.0
    seed: int = 0
    choosing: bool = False
    limit: int | None = None

    @property
    def scheme(self) -> str:
        known = SCHEMES[self.model].get(self.name, self.name)
        return Path(known).read_text() if Path(known).is_file() else known

    @property
    def run(self) -> Run:
        return Run(self.data, self.scheme, seed=self.seed, rate=self.rate, grad="s16", choosing=self.choosing,
                   model=self.model, limit=self.limit, **RECIPES[self.recipe])  # fmt: skip

    @property
    def key(self) -> str:
        data = f"{self.data} {self.limit}" if self.limit else self.data
        part = "half" if self.choosing else "all"
        return "/".join(map(str, (self.model, data, self.recipe, Path(self.name).stem, self.rate, self.seed, part)))


def fill(known: dict, kept: Kept, setting: Setting, file: Path) -> dict:
    """One run, unless it is known; kept at once."""
    if setting.key not in known["runs"]:
        found = train(setting.run, kept)
        known["runs"][setting.key] = {k: found[k] for k in ("A", "B", "held", "loss", "seconds") if k in found}
        print(setting.key, known["runs"][setting.key], file=sys.stderr, flush=True)
        write(file, known)
    return known["runs"][setting.key]


def read(file: Path) -> dict:
    return json.loads(file.read_text()) if file.is_file() else {"runs": {}, "sram": {}}


def write(file: Path, known: dict) -> None:
    """Add what is new to the file: another process may have written meanwhile."""
    now = read(file)
    file.write_text(json.dumps({part: {**now[part], **known[part]} for part in known}, indent=1) + "\n")


def best_rate(known: dict, setting: Setting) -> float | None:
    """The rate that was best on the held-out half, of those tried."""
    found = held_out(known, setting)
    return max(found, key=lambda rate: np.mean(found[rate])) if found else None


def held_out(known: dict, setting: Setting) -> dict[float, list[float]]:
    """Rate -> what each seed reached on the held-out half."""
    start, found = replace(setting, rate=0.0, seed=0, choosing=True).key.rsplit("/0.0/", 1)[0] + "/", {}
    for key, run in known["runs"].items():
        if key.startswith(start) and "held" in run:
            found.setdefault(float(key.split("/")[-3]), []).append(run["held"])
    return found


def sram_of(setting: Setting) -> int | None:
    """Of the linked program; None if it does not fit the board."""
    from insitu import pipeline
    from insitu.deploy import Programs, deploy_program
    from insitu.errors import BudgetError

    with tempfile.TemporaryDirectory() as folder:
        scheme = setting.scheme
        if "\n" in scheme:
            (Path(folder) / "scheme.txt").write_text(scheme)
            scheme = str(Path(folder) / "scheme.txt")
        try:
            made = pipeline.compile(checkpoint(setting.model), classes=10, scheme=scheme, board="stm32f746",
                                    prefer="memory")  # fmt: skip
        except BudgetError:
            return None
    assert made.deployed is not None and made.parts is not None
    return deploy_program(Programs(made.parts.graphs()).least, made.deployed.limits).sram_bytes


def lines(known: dict, settings: list[Setting]) -> list[tuple]:
    found = []
    for setting in settings:
        rate, name = best_rate(known, setting), Path(setting.name).stem
        if rate is None:
            continue
        setting = replace(setting, rate=rate)
        done = [r for s in range(MOST) if (r := known["runs"].get(replace(setting, seed=s).key))]
        held = np.mean(held_out(known, setting)[rate])
        mean = (f"{np.mean([r[k] for r in done]):.1f}" if done else "-" for k in "AB")
        spread = f"{np.std([r['B'] for r in done], ddof=1):.2f}" if len(done) > 1 else "-"
        key = f"{setting.model}/{name}"
        sram = known["sram"].get(key)
        fits = f"{sram / 1000:.1f} KB" if sram else "too much" if key in known["sram"] else "-"
        found.append((name, fits, setting.recipe, rate, f"{held:.1f}", *mean, spread, len(done)))
    return found


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    known, names = read(options.file), options.only.split(",") if options.only else [*SCHEMES[options.model]]
    recipes = [options.recipe] if options.recipe else [*RECIPES] if options.table else ["8"]
    settings = [Setting(options.model, options.data, recipe, name, limit=options.limit)
                for recipe in recipes for name in names]  # fmt: skip
    if not options.table:
        measure(known, settings, options)
    print(table(HEADERS, [tuple(map(str, line)) for line in lines(known, settings)]))
    if options.plot:
        options.plot.write_text(plot(dots(known, settings), floats(known, settings)))
    return 0


def dots(known: dict, settings: list[Setting]) -> list[Dot]:
    """What was tested, with the SRAM that it needs."""
    found = []
    for setting in settings:
        name, right = Path(setting.name).stem, tested(known, setting)
        sram = known["sram"].get(f"{setting.model}/{name}")
        found += [Dot(name, setting.recipe, sram, right)] if right and sram else []
    return found


def floats(known: dict, settings: list[Setting]) -> dict[str, float]:
    """What float training of all layers reaches (float_tuning.py)."""
    found = {s.recipe: tested(known, replace(s, name="float full")) for s in settings}
    return {recipe: right for recipe, right in found.items() if right}


def tested(known: dict, setting: Setting) -> float | None:
    """The mean over seeds on the whole test photos."""
    setting = replace(setting, rate=best_rate(known, setting) or 0.0)
    done = [r["B"] for s in range(MOST) if (r := known["runs"].get(replace(setting, seed=s).key))]
    return float(np.mean(done)) if done else None


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SCHEMES, default=MODEL)
    parser.add_argument("--data", choices=("flowers", "person"), default="flowers")
    parser.add_argument("--limit", type=int, help="so many photos to train and to test on")
    parser.add_argument("--recipe", choices=RECIPES)
    parser.add_argument("--only", default="", help="schemes, with commas: those listed here, any other name, or files")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="to choose from; one: nothing is chosen")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--halves", type=int, default=1, help="seeds with which rates are tried")
    parser.add_argument("--choose", action="store_true", help="only look for the rates")
    parser.add_argument("--sram", action="store_true", help="link every scheme")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--plot", type=Path, help="write accuracy against SRAM, as SVG")
    parser.add_argument("--jobs", type=int, default=1, help="for the frozen layers")
    parser.add_argument("--file", type=Path, default=FILE)
    return parser.parse_args(argv)


def measure(known: dict, settings: list[Setting], options) -> None:
    views = VIEWS if options.limit or options.data == "person" else None
    kept = remember(options.data, 0, options.jobs, options.limit, options.model, views)
    for setting in settings:
        for rate, seed in product(options.rates, range(options.halves)):
            fill(known, kept, replace(setting, rate=rate, seed=seed, choosing=True), options.file)
        rate = best_rate(known, setting)
        assert rate is not None
        for seed in () if options.choose else options.seeds:
            fill(known, kept, replace(setting, rate=rate, seed=seed), options.file)
        key = f"{setting.model}/{Path(setting.name).stem}"
        if options.sram and key not in known["sram"]:
            known["sram"][key] = sram_of(setting)
            write(options.file, known)


if __name__ == "__main__":
    sys.exit(main())
