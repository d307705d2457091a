"""A fleet on this machine: Flower's simulation engine (Ray), with the generated C doing the training.

Each device's samples are a file in a scratch folder, as they would be on the device. A worker process opens the learner
once and keeps it for all devices that it plays.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from insitu.errors import DataError, needs
from insitu.federated.app import Settings, client_app, server_app
from insitu.federated.checks import Limits
from insitu.federated.member import Member
from insitu.federated.named import deltas_of, strategy_of
from insitu.federated.outcome import outcome_of, with_model
from insitu.federated.own import Start, start_of
from insitu.federated.privacy import Noise, own_noise
from insitu.learner import Learner
from insitu.learner.file import open_learner
from insitu.terminal.progress import bar

AT_ONCE = 8  # messages on their way for each process: enough that none waits, few enough for Flower's engine
Samples = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Plan:
    """How a fleet learns."""

    rounds: int = 3
    strategy: str = "fedavg"
    share: float = 1.0  # of the devices in each round
    coding: str = "int8"  # of what devices send and are sent
    personal: tuple[str, ...] = ()
    noise: Noise | None = None
    own: int | None = None  # passes of each device by itself after the last round; None: as follows from its samples
    secure: float | None = None  # the server sees only sums, of changes with at most this norm
    keep_last: bool = False  # end with the last round's model, whatever the devices' tests say
    weight: float = Limits.weight  # a device counts for at most so many times the median number of samples

    @property
    def own_noise(self) -> Noise | None:
        """What a device adds itself."""
        return own_noise(self.noise)


USUAL = Plan()


@dataclass(frozen=True, eq=False)
class Outcome:
    """A learner with the fleet's model, and what happened as JSON data."""

    learner: Learner
    about: dict[str, Any]


def simulate(learner: Learner, devices: Sequence[tuple[Samples, Samples]], plan: Plan = USUAL,
             settings: Settings | None = None, processes: int = 2,
             also: Sequence[Learner] = ()) -> Outcome:  # fmt: skip
    """Devices are (samples to learn from, samples to test on); with other schemes, they have these learners in turn."""
    from flwr.serverapp.strategy import Strategy
    from flwr.simulation import run_simulation

    needs_ray()
    if not devices:
        raise DataError("a fleet needs a device", hint="devices=[((x, y), (x_test, y_test)), ...]")
    inner: Strategy = strategy_of(plan.strategy, len(devices), plan.share, plan.noise)
    with TemporaryDirectory() as folder, quiet(), bar() as report:
        written(Path(folder), [learner, *also], devices)
        strategy = deltas_of(inner, [learner, *also], plan.personal, plan.noise, plan.secure, plan.coding)
        strategy.limits = Limits(weight=plan.weight)
        strategy.at_once, strategy.keep_last = AT_ONCE * processes, plan.keep_last
        server = server_app(strategy, plan.rounds, settings, report=report, own=plan.own, alone=True)
        client = client_app(lambda context: member(folder, int(context.node_config["partition-id"]), plan))
        run_simulation(server, client, len(devices), backend_config=_backend(processes))
        return Outcome(with_model(learner, strategy), {**outcome_of(strategy), "clients": len(devices)})


def needs_ray() -> None:
    try:
        import ray  # noqa: F401
    except ImportError:
        raise needs("ray", "flower-sim", "simulating a fleet") from None


def _backend(processes: int) -> Any:
    return {"init_args": {"num_cpus": processes, "logging_level": logging.ERROR, "log_to_driver": False},
            "client_resources": {"num_cpus": 1}}  # fmt: skip


class quiet:  # noqa: N801  used like a function
    """Within this block Flower says only what went wrong, and reports nothing to anybody."""

    def __enter__(self) -> None:
        os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        self._before = logging.getLogger("flwr").level
        logging.getLogger("flwr").setLevel(logging.ERROR)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("flwr").setLevel(self._before)


def written(folder: Path, learners: Sequence[Learner], devices: Sequence[tuple[Samples, Samples]]) -> None:
    """The files of the devices."""
    for i, each in enumerate(learners):
        each.save(folder / f"{i}.insitu")
    for i, ((x, y), (x_test, y_test)) in enumerate(devices):
        np.savez(folder / f"{i}.npz", x=x, y=y, x_test=x_test, y_test=y_test)


@cache
def learner_in(path: Path) -> tuple[Learner, Start]:
    """A learner of this worker process, and its first model."""
    found = open_learner(path)
    return found, start_of(found)


def member(folder: str, number: int, plan: Plan) -> Member:
    """One device. The worker's learner plays it, from the first state."""
    programs = len(list(Path(folder).glob("*.insitu")))
    learner, first = learner_in(Path(folder) / f"{number % programs}.insitu")
    first.load(learner)
    with np.load(Path(folder) / f"{number}.npz") as data:
        test = (data["x_test"], data["y_test"]) if len(data["y_test"]) else None
        return Member(learner, data["x"], data["y"], test=test, personal=plan.personal,
                      coding=plan.coding, noise=plan.own_noise, secure=plan.secure)  # fmt: skip
