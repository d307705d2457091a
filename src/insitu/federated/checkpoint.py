"""What a server writes after every round: the model, what its strategy remembers (the moments of FedAdam, say), and
what happened so far. A server that was killed reads it and comes to the same model as one that was not."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np

from insitu.errors import DataError
from insitu.federated.delta import unpack_base
from insitu.federated.handout import Base
from insitu.federated.noted import Dropped, Traffic
from insitu.federated.recalled import recall, recalled
from insitu.federated.strategy import Deltas
from insitu.federated.units import Arrays
from insitu.files import UNREADABLE, write_whole

OWN = "strategy/"  # what the strategy remembers


def write_checkpoint(path: Path, number: int, strategy: Deltas) -> None:
    """The state after this round; the file appears complete or not at all."""
    arrays, buffer = {f"array/{n}": a for n, a in strategy.first.items()}, io.BytesIO()
    base, handed = strategy.handout.base, strategy.handout.source
    arrays["base"] = np.frombuffer(base.packed if base else b"", np.uint8)
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
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays = {name.removeprefix("array/"): found[name] for name in found.files if name.startswith("array/")}
            own = {name.removeprefix(OWN): found[name] for name in found.files if name.startswith(OWN)}
            base, handed = found["base"].tobytes(), bool(found["handed"])
            number, history = int(found["round"]), _read_history(json.loads(found["history"].tobytes()))
        if number < 0 or not all(np.isfinite(a).all() for a in arrays.values()):
            raise ValueError("has numbers that are not finite")
    except (*UNREADABLE, AttributeError) as e:
        raise DataError(f"is damaged: {e}", where=str(path), hint="remove it to begin anew") from e
    if {n: a.shape for n, a in arrays.items()} != strategy.catalogue.shapes:
        raise DataError("belongs to another learner", where=str(path), hint="remove it to begin anew")
    if base:
        strategy.handout.base = Base(base, unpack_base(base, strategy.catalogue.shapes))
        strategy.handout.source = arrays if handed else None
    recall(strategy.strategy, own)
    _restore(strategy, history)
    return number, arrays


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
