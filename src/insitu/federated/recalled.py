"""What a strategy itself remembers from round to round, as arrays: the moments of FedAdam, say.

    arrays = recalled(strategy)          for the checkpoint
    recall(strategy, arrays)             in a new process, on a strategy that was made with the same options

Found among its attributes, and those of a strategy that it wraps: arrays, lists and dictionaries of arrays. A number is
remembered if the strategy changed it since it was made (an adaptive clipping norm); options that a user changes before
a restart therefore count. The base of the last round is not part of it: every round begins with a base of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from insitu.errors import DataError
from insitu.federated.present import NUMBERS, SAMPLED

BASES = ("current_arrays",)  # set anew by each round
Found = dict[str, np.ndarray]


def recalled(strategy: Strategy, made: Mapping[str, float]) -> Found:
    """name -> array; `made` are the numbers of the strategy when it was made."""
    found: Found = {}
    for path, value in _attributes(strategy):
        if isinstance(value, np.ndarray):
            found[f"{path}:array:"] = value
        elif isinstance(value, list) and value and all(isinstance(a, np.ndarray) for a in value):
            found |= {f"{path}:list:{i}": a for i, a in enumerate(value)}
        elif isinstance(value, dict) and value and all(isinstance(a, np.ndarray) for a in value.values()):
            found |= {f"{path}:dict:{name}": a for name, a in value.items()}
    changed = {path: v for path, v in numbers_of(strategy).items() if made.get(path) != v and not _counts(path)}
    return {**found, **{f"{path}:number:": np.array(v) for path, v in changed.items()}}


def _counts(path: str) -> bool:
    """Is this a number of devices? Each round sets these by who is there."""
    return path.rpartition(".")[2] in (*NUMBERS, SAMPLED)


def numbers_of(strategy: Strategy) -> dict[str, float]:
    """The numbers among the attributes of a strategy."""
    return {path: v for path, v in _attributes(strategy) if isinstance(v, int | float) and not isinstance(v, bool)}


def _attributes(strategy: Strategy, path: str = "") -> list[tuple[str, Any]]:
    """Of a strategy, and of the one that it wraps."""
    found = []
    for name, value in vars(strategy).items():
        if isinstance(value, Strategy):
            found += _attributes(value, f"{path}{name}.")
        elif name not in BASES and not isinstance(value, ArrayRecord):
            found.append((f"{path}{name}", value))
    return found


def recall(strategy: Strategy, arrays: Mapping[str, np.ndarray]) -> None:
    """Give a strategy back what it remembered."""
    parts: dict[tuple[str, str], Found] = {}
    for key, array in arrays.items():
        path, kind, name = key.split(":", 2)
        parts.setdefault((path, kind), {})[name] = array
    for (path, kind), found in parts.items():
        _set(strategy, path, KINDS[kind](found))


KINDS: dict[str, Any] = {
    "array": lambda found: found[""],
    "list": lambda found: [found[str(i)] for i in range(len(found))],
    "dict": dict,
    "number": lambda found: found[""].item(),
}


def _set(strategy: Any, path: str, value: object) -> None:
    *inner, name = path.split(".")
    for each in inner:
        strategy = getattr(strategy, each, None)
    if not hasattr(strategy, name):
        raise DataError(f"belongs to another strategy: it has {path}", hint="the same strategy as before, or anew")
    setattr(strategy, name, value)
