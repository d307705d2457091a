"""The rates of deploy/estimate.py, fitted to the exact counts of bench/mcu.json, and how close the estimates come.

    make bench-mcu && python -m bench.rates

Every row is planned again. The rates of a kind of core are a least-squares fit, none negative, over the layers of its
rows; a layer counts with the square root of its instructions.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import fields

import numpy as np

from bench.mcu import Row, source
from bench.photos import ROOT
from insitu import compile
from insitu.boards import find_board
from insitu.codegen import Program
from insitu.deploy import Programs, limits_of
from insitu.deploy.estimate import Rate, Work, estimated, kind_of, work_of

FEW = 3000  # instructions: layers with fewer count as if they had so many
TERMS = tuple(f.name for f in fields(Rate))


def rows() -> list[Row]:
    known = {f.name for f in fields(Row)}
    found = json.loads((ROOT / "bench" / "mcu.json").read_text())["rows"]
    return [Row(**{k: v for k, v in each.items() if k in known}) for each in found if each["fits"]]


def program_of(row: Row) -> Program | None:
    """The program that was counted, planned again."""
    limits = limits_of(row.board, row.allowed, None, row.prefer)
    tried = Programs(compile(**source(row)).graphs).attempts(limits)
    return next((program for program, _ in tried if program.arena_bytes == row.arena_bytes), None)


def terms(work: Work) -> tuple[float, ...]:
    """What each term of a rate is multiplied by."""
    return work.macs, work.results, work.calls, work.macs * work.level, work.results * work.litert


def fit(counted: list[tuple[dict[str, list[Work]], dict[str, int]]]) -> dict[str, Rate]:
    """Kind -> rate, from the work and the instructions of layers."""
    from scipy.optimize import nnls

    layers = [(work.get(name, []), count) for work, counts in counted for name, count in counts.items()]
    kinds = sorted({kind_of(w.kernel) for works, _ in layers for w in works})
    matrix, wanted = np.zeros((len(layers), len(kinds), len(TERMS))), np.array([float(count) for _, count in layers])
    for line, (works, _) in zip(matrix, layers):
        for work in works:
            line[kinds.index(kind_of(work.kernel))] += terms(work)
    weight = 1 / np.sqrt(np.maximum(wanted, FEW))
    found, _ = nnls(matrix.reshape(len(layers), -1) * weight[:, None], wanted * weight, maxiter=100_000)
    return {kind: Rate(*map(float, rate)) for kind, rate in zip(kinds, found.reshape(len(kinds), -1).round(2))}


def by_layer(program: Program, verb: str) -> dict[str, list[Work]]:
    found = defaultdict(list)
    for work in work_of(program.plans[verb]):
        found[work.layer].append(work)
    return found


def main() -> int:
    counted = defaultdict(list)
    for row in rows():
        program, core = program_of(row), find_board(row.board).core
        if program is None:
            print(f"{row.name}: planned differently", file=sys.stderr)
            continue
        for verb, layers in row.layers.items():
            counts = {name: count for name, (count, _) in layers.items()}
            counted["DSP" if core.dsp else "PLAIN"].append((by_layer(program, verb), counts))
            guess, real = estimated(program.plans, core)[verb], sum(counts.values())
            print(f"{row.name:50} {verb:10} {guess:12,} {real:12,} {100 * (guess / real - 1):+6.1f} %", flush=True)
    for name, found in counted.items():
        print(f"{name} = {{")
        for kind, rate in fit(found).items():
            print(f'    "{kind}": Rate({", ".join(f"{value:g}" for value in vars(rate).values())}),')
        print("}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
