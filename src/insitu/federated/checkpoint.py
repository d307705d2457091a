"""What a server writes after every round: the model, what its strategy remembers (the moments of FedAdam, say), and
what happened so far. A server that was killed reads it and comes to the same model as one that was not."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import numpy as np

from insitu.errors import DataError
from insitu.federated.best import Best
from insitu.federated.delta import unpack_base
from insitu.federated.handout import Base
from insitu.federated.noted import Dropped, Traffic
from insitu.federated.recalled import recall, recalled
from insitu.federated.strategy import Deltas
from insitu.federated.units import Arrays
from insitu.files import UNREADABLE, write_whole

ARRAY, OWN = "array/", "strategy/"  # the model, and what the strategy remembers


def write_checkpoint(path: Path, number: int, strategy: Deltas) -> None:
    """The state after this round; the file appears complete or not at all."""
    arrays, buffer = {f"{ARRAY}{n}": a for n, a in strategy.first.items()}, io.BytesIO()
    base, handed = strategy.handout.base, strategy.handout.source
    arrays["start"] = np.frombuffer(strategy.began, np.uint8)
    arrays["base"] = np.frombuffer(base.packed if base else b"", np.uint8)
    best = strategy.best
    arrays["best"] = np.frombuffer(best.base.packed if best else b"", np.uint8)
    arrays["best-round"] = np.array(best.round if best else 0)
    arrays["handed"] = np.array(
        handed is not None and all(np.array_equal(a, handed[n]) for n, a in strategy.first.items())
    )
    arrays |= {f"{OWN}{n}": a for n, a in recalled(strategy.strategy, strategy.made).items()}
    history = np.frombuffer(json.dumps(_history(strategy)).encode(), np.uint8)
    np.savez(buffer, **{"round": np.int64(number), "history": history, **arrays})  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())


def read_checkpoint(path: Path, strategy: Deltas) -> tuple[int, Arrays]:
    """The last round that was completed, and the model after it; the start if there is none."""
    if not path.exists():
        return 0, strategy.first
    anew = "remove it to begin anew"
    try:
        found = _read(path)
        arrays, own = _under(found, ARRAY), _under(found, OWN)
        number, history = int(found["round"]), _read_history(json.loads(found["history"].tobytes()))
        if number < 0 or not all(_finite(a) for a in (*arrays.values(), *own.values())):
            raise ValueError("has numbers that are not finite")
        if {n: a.shape for n, a in arrays.items()} != strategy.catalogue.shapes or _other(found, strategy):
            raise DataError("belongs to another learner", where=str(path), hint=anew)
        base = _base(found["base"].tobytes(), strategy)
        best = _base(found["best"].tobytes(), strategy) if "best" in found else None  # older files do not have it
        strategy.best = Best(int(found["best-round"]), best) if best else None
        recall(strategy.strategy, own)
    except (*UNREADABLE, AttributeError) as e:
        raise DataError(f"is damaged: {e}", where=str(path), hint=anew) from e
    except DataError as e:
        raise DataError(e.what, where=str(path), hint=e.hint) from e
    if base is not None:
        strategy.handout.base, strategy.handout.source = base, arrays if bool(found["handed"]) else None
    _restore(strategy, history)
    return number, arrays


def rounds_in(path: Path) -> list[str]:
    """A line for each round in a checkpoint; none if there is none, or nobody can read it."""
    try:
        with np.load(path, allow_pickle=False) as found:
            history = _read_history(json.loads(found["history"].tobytes()))
    except (*UNREADABLE, AttributeError):
        return []
    lost = Counter(d.round for d in history["dropped"])
    return [_line(t, lost[t.round]) for t in history["traffic"]]


def _line(t: Traffic, lost: int) -> str:
    loss = f", loss {t.loss:.4f}" if t.loss else ""  # hidden under masks and noise
    return f"round {t.round}: {t.replies} replies{loss}" + (f", {lost} dropped" if lost else "")


def _read(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def _under(found: Arrays, kind: str) -> Arrays:
    return {name.removeprefix(kind): a for name, a in found.items() if name.startswith(kind)}


def _finite(a: np.ndarray) -> bool:
    return bool(np.isfinite(a).all())


def _other(found: Arrays, strategy: Deltas) -> bool:
    """Did these rounds begin with another model? Older files do not say it."""
    return "start" in found and found["start"].tobytes() != strategy.began


def _base(packed: bytes, strategy: Deltas) -> Base | None:
    """The model that was handed out last."""
    try:
        return Base(packed, unpack_base(packed, strategy.catalogue.shapes)) if packed else None
    except DataError as e:
        raise ValueError(str(e)) from e


def _history(strategy: Deltas) -> dict:
    return {"traffic": [vars(t) for t in strategy.traffic], "dropped": [vars(d) for d in strategy.dropped],
            "scored": {str(n): {str(k): v for k, v in s.items()} for n, s in strategy.scored.items()}}  # fmt: skip


def _read_history(found: dict) -> dict:
    """The same, as the strategy has it."""
    scored = {int(n): {int(k): float(v) for k, v in s.items()} for n, s in found["scored"].items()}
    return {"traffic": [Traffic(**t) for t in found["traffic"]], "dropped": [Dropped(**d) for d in found["dropped"]],
            "scored": scored}  # fmt: skip


def _restore(strategy: Deltas, history: dict) -> None:
    strategy.traffic[:], strategy.dropped[:] = history["traffic"], history["dropped"]
    strategy.scored.update(history["scored"])
