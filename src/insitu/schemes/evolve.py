"""The evolutionary search of "On-Device Training Under 256KB Memory", on our table and our estimate of bytes.

It is here to be compared with: search.py finds the same or better, always, and in less time.
"""

from __future__ import annotations

import numpy as np

from insitu.schemes.search import Model

POPULATION, PARENTS, GENERATIONS, CHANGE = 64, 16, 40, 0.08


def evolve(model: Model, sram: int, floor: int, seed: int = 0) -> list[int]:
    """Parts whose estimated bytes are at most `sram`, improved by mutation and crossover."""
    rng, count = np.random.default_rng(seed), len(model.parts)
    pool = [_repair(model, rng.random(count) < 0.2, sram, floor, rng) for _ in range(POPULATION)]
    for _ in range(GENERATIONS):
        pool.sort(key=model.gain, reverse=True)
        parents = pool[:PARENTS]
        pool = parents + [_child(model, parents, sram, floor, rng) for _ in range(POPULATION - PARENTS)]
    return max(pool, key=model.gain)


def _child(model: Model, parents: list[list[int]], sram: int, floor: int, rng: np.random.Generator) -> list[int]:
    count = len(model.parts)
    a, b = (np.isin(np.arange(count), parents[i]) for i in rng.integers(0, len(parents), 2))
    mixed = np.where(rng.random(count) < 0.5, a, b)
    return _repair(model, mixed ^ (rng.random(count) < CHANGE), sram, floor, rng)


def _repair(model: Model, wanted: np.ndarray, sram: int, floor: int, rng: np.random.Generator) -> list[int]:
    """One share per weight, and as many parts as fit, in random order."""
    chosen: list[int] = []
    for k in rng.permutation(np.flatnonzero(wanted)).tolist():
        part = model.parts[k]
        twice = part.share and any(model.parts[j].at == part.at and model.parts[j].share for j in chosen)
        if not twice and model.bytes([*chosen, k], floor) <= sram:
            chosen.append(k)
    return sorted(chosen)
