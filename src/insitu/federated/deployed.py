"""The app that Flower's own processes run: what a server and a device do is in their configuration.

The server's comes with the run (`flwr run --run-config`), a device's with its supernode (`--node-config`): the files of
learner and samples never leave the device. Flower starts a new process for every message; the program comes from the
build cache, which `insitu fleet join` fills before it starts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from insitu.errors import DataError
from insitu.federated.app import client_app, run_rounds
from insitu.federated.member import Member
from insitu.federated.named import strategy_of
from insitu.federated.outcome import outcome_of, with_model
from insitu.federated.strategy import Deltas
from insitu.files import write_whole
from insitu.learner import Learner
from insitu.learner.file import open_learner

SETTINGS = ("epochs", "rate", "head_rate", "seed")


def server_app() -> ServerApp:
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        serve(grid, dict(context.run_config))

    return app


def serve(grid: Grid, given: dict[str, Any]) -> None:
    """All rounds; writes the learner with the fleet's model, and what happened."""
    output = Path(given["output"])
    learners = [opened(path) for path in str(given["learners"]).split("|")]
    personal = tuple(filter(None, str(given.get("personal", "")).split(",")))
    strategy = Deltas(strategy_of(str(given.get("strategy", "fedavg")), int(given["clients"])), learners, personal)
    settings = {name: given[name] for name in SETTINGS if given.get(name) not in (None, "", 0)}
    rounds, waited = int(given["rounds"]), float(given.get("timeout", 600))
    run_rounds(strategy, grid, rounds, settings, Path(f"{output}.rounds"), waited)
    with_model(learners[0], strategy).save(output)
    write_whole(Path(f"{output}.json"), json.dumps(outcome_of(strategy), indent=1).encode())


def device_app() -> ClientApp:
    return client_app(lambda context: member_of(dict(context.node_config)))


def member_of(given: dict[str, Any]) -> Member:
    """The device that a supernode's configuration describes."""
    missing = [name for name in ("learner", "data") if name not in given]
    if missing:
        raise DataError(f"{' and '.join(missing)} are not given", where="--node-config", hint="insitu fleet join")
    personal = tuple(filter(None, str(given.get("personal", "")).split(",")))
    test = given.get("test") or None
    return Member(opened(str(given["learner"])), given["data"], test=None if test is None else (test, None),
                  personal=personal, coding=str(given.get("coding", "int8")))  # fmt: skip


def opened(path: str) -> Learner:
    return open_learner(Path(path))
