"""What a federated run came to: rounds, bytes, dropped replies, scores; and a learner that has the fleet's model."""

from __future__ import annotations

import copy
from typing import Any

from insitu.federated.own import KEEPS
from insitu.federated.strategy import Deltas
from insitu.federated.units import from_real, identity
from insitu.learner import Learner
from insitu.learner.measures import MEASURES


def outcome_of(strategy: Deltas) -> dict[str, Any]:
    """As JSON data."""
    tensors = {name: list(t.shape) for name, t in strategy.catalogue.tensors.items()}
    count = sum(a.size for a in strategy.first.values())
    return {
        "rounds": [vars(t) for t in strategy.traffic],
        "dropped": [vars(d) for d in strategy.dropped],
        "scores": dict(strategy.scores or {}),
        "devices": {str(number): _named(scores) for number, scores in strategy.scored.items()},
        "undone": {**strategy.undone, "scores": _named(strategy.undone["scores"])} if strategy.undone else {},
        "own": _named(strategy.owned),
        "kept": {str(node): KEEPS[kept] for node, kept in strategy.kept.items()},
        "alone": _named(strategy.alone),
        "tested_bytes": strategy.tested_bytes,
        "tests": strategy.tests,
        "seen": sorted(str(node) for node in strategy.seen),
        "measure": MEASURES[strategy.learners[0].recipe.loss][0],
        "tensors": tensors,
        "programs": programs_of(strategy),
        "float_bytes": 4 * count,
        "strategy": type(strategy.strategy).__name__,
        "personal": list(strategy.personal),
        "secure": getattr(strategy, "clip", None),
        **_spent(strategy),
    }


def _named(scores: dict[int, float]) -> dict[str, float]:
    """Nodes as JSON names them."""
    return {str(node): score for node, score in scores.items()}


def programs_of(strategy: Deltas) -> list[dict[str, Any]]:
    """The schemes of the fleet: what each is called, and how many numbers of each tensor it trains."""
    names = {identity(strategy.units_of(each)): each.parts.scheme.name for each in strategy.learners if each.parts}
    return [{"scheme": names.get(key, ""), "tensors": {u.name: u.size for u in units}}
            for key, units in strategy.programs.items()]  # fmt: skip


def _spent(strategy: Deltas) -> dict[str, Any]:
    """What the rounds so far reveal about one device, if noise was added."""
    noise = strategy.noise
    if noise is None:
        return {}
    rounds = max((t.round for t in strategy.traffic), default=0)
    return {"privacy": {**vars(noise), "epsilon": noise.epsilon(rounds), "rounds": rounds}}


def with_model(learner: Learner, strategy: Deltas) -> Learner:
    """A copy of the learner with the fleet's model; layers that are personal stay as they were."""
    made = copy.deepcopy(learner)
    units = strategy.units_of(learner)
    state = made.device.state()
    made.device.load_arrays(from_real(units, strategy.catalogue.part(units, strategy.first), state))
    return made
