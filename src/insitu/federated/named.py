"""Flower's strategies by the names that the command line takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import Strategy

from insitu.errors import DataError
from insitu.federated.privacy import Noise
from insitu.federated.secure.rounds import SecureDeltas
from insitu.federated.strategy import Deltas
from insitu.learner import Learner

STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "fedavg": flower.FedAvg, "fedprox": flower.FedProx, "fedadam": flower.FedAdam, "fedmedian": flower.FedMedian,
    "trimmed": flower.FedTrimmedAvg, "krum": flower.Krum,
}  # fmt: skip
EXTRA = {"fedprox": {"proximal_mu": 0.1}, "fedadam": {"eta": 0.01}}


def strategy_of(name: str, clients: int, share: float = 1.0, noise: Noise | None = None) -> Strategy:
    """The strategy of this name; a round takes `share` of the devices, and waits for `clients` of them."""
    made = _plain(name, clients, share)
    if noise is None or noise.kind != "central":
        return made
    taken = max(1, round(clients * share))
    return flower.DifferentialPrivacyServerSideFixedClipping(made, noise.multiplier, noise.clip, taken)


def _plain(name: str, clients: int, share: float) -> Strategy:
    if name not in STRATEGIES:
        raise DataError(f"unknown strategy {name!r}", hint=", ".join(STRATEGIES))
    taken = max(1, round(clients * share))
    sizes = {"fraction_train": share, "min_train_nodes": taken, "min_evaluate_nodes": clients}
    return STRATEGIES[name](**sizes, min_available_nodes=clients, **EXTRA.get(name, {}))


def deltas_of(inner: Strategy, learners: Sequence[Learner], personal: Sequence[str], noise: Noise | None,
              secure: float | None, coding: str = "int8") -> Deltas:  # fmt: skip
    """The strategy on deltas; `secure` is the bound of a change under secure aggregation, `coding` that of what devices
    are sent."""
    if secure is None:
        return Deltas(inner, learners, personal, noise, coding=coding)
    return SecureDeltas(inner, learners, personal, noise, coding=coding, clip=secure)
