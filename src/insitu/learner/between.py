"""States between two others: every trained parameter a part of the way from its first value to its last.

Weights are mixed in real units and rounded to what the state can hold; whatever else it has is that of the last one.
Nothing here decides how far to go (choice.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from insitu.graph import Value

MOST, UNIT = 127, 256  # of a weight; of its fraction

State = Mapping[str, np.ndarray]


def between(first: State, last: State, share: float, parameters: Iterable[Value]) -> dict[str, np.ndarray]:
    """The state at this share of the way."""
    made = dict(last)
    for v in parameters:
        made.update(mixed(first, last, share, v.name))
    return made


def mixed(first: State, last: State, share: float, name: str) -> dict[str, np.ndarray]:
    """One parameter and the fraction or copy that is stored beside it."""
    if last[name].dtype.kind == "f":
        return {name: _mean(first[name], last[name], share).astype(last[name].dtype)}
    if f"{name}.master" in last:
        copy = _mean(first[f"{name}.master"], last[f"{name}.master"], share)
        return {name: _rounded(copy, last[name]), f"{name}.master": copy.astype(np.float32)}
    beside = last.get(f"{name}.residual")
    if beside is None or beside.shape != last[name].shape or last[name].dtype != np.int8:
        found = {name: _rounded(_mean(first[name], last[name], share), last[name])}
        return found if beside is None else {**found, f"{name}.residual": np.zeros_like(beside)}
    full = _mean(_full(first, name), _full(last, name), share).round().clip(-MOST * UNIT, MOST * UNIT).astype(np.int64)
    whole = (full + UNIT // 2) // UNIT
    return {name: whole.astype(np.int8), f"{name}.residual": (full - whole * UNIT).astype(beside.dtype)}


def _mean(first: np.ndarray, last: np.ndarray, share: float) -> np.ndarray:
    return first + share * (last.astype(np.float64) - first)


def _full(state: State, name: str) -> np.ndarray:
    return state[name].astype(np.int64) * UNIT + state[f"{name}.residual"]


def _rounded(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    limit = MOST if like.dtype == np.int8 else np.iinfo(like.dtype).max
    return np.rint(values).clip(-limit, limit).astype(like.dtype)
