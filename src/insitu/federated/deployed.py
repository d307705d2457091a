"""The app that Flower's own processes run: what a server and a device do is in their configuration.

The server's comes with the run (`flwr run --run-config`), a device's with its supernode (`--node-config`): the files of
learner and samples never leave the device. Flower starts a new process for every message; the program comes from the
build cache, which `insitu fleet join` fills before it starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from insitu.data import read_held_out
from insitu.devices.device import Device
from insitu.errors import DataError
from insitu.federated.app import OVER, Event, client_app, run_rounds
from insitu.federated.attempt import attempt_of
from insitu.federated.checks import Limits
from insitu.federated.gateway import Board, Gateway, from_store, with_samples
from insitu.federated.member import Member
from insitu.federated.named import deltas_of, strategy_of
from insitu.federated.outcome import outcome_of, with_model
from insitu.federated.privacy import Noise, own_noise
from insitu.federated.split import kept_apart
from insitu.files import write_whole
from insitu.learner import Learner
from insitu.learner.file import open_learner
from insitu.learner.folder import open_folder

ENOUGH = 10  # samples: from there on, a device can spare a fifth for its test
WAIT = 600.0  # seconds that a device may take to answer, unless the settings say otherwise
STEPS = 40  # of a bout on a board, unless the settings say otherwise
SETTINGS = ("epochs", "rate", "head_rate", "seed")


def server_app() -> ServerApp:
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        given = dict(context.run_config)
        attempt = attempt_of(given)
        if attempt is None:
            return serve(grid, given)
        attempt.begin()
        try:
            return serve(grid, given)
        except Exception as e:
            attempt.say(f"{type(e).__name__}: {e}")
            raise

    return app


def serve(grid: Grid, given: dict[str, Any]) -> None:
    """All rounds; writes the learner with the fleet's model, and what happened."""
    output = Path(given["output"])
    paths = f"{given['learners']}|{given.get('also', '')}".split("|")
    learners = [opened(path) for path in filter(None, paths)]
    personal = tuple(filter(None, str(given.get("personal", "")).split(",")))
    noise = noise_of(given)
    inner = strategy_of(str(given.get("strategy", "fedavg")), int(given["clients"]), noise=noise)
    strategy = deltas_of(inner, learners, personal, noise, secure_of(given), str(given.get("coding", "int8")))
    strategy.limits = Limits(weight=float(given.get("weight", Limits.weight)))
    strategy.keep_last = bool(given.get("keep_last"))
    settings = {name: given[name] for name in SETTINGS if given.get(name) not in (None, "", 0)}
    rounds, waited = int(given["rounds"]), float(given.get("timeout", WAIT))
    own = int(given["own"]) if "own" in given else None
    run_rounds(strategy, grid, rounds, settings, Path(f"{output}.rounds"), waited, own=own)
    with_model(learners[0], strategy).save(output)
    write_whole(Path(f"{output}.json"), json.dumps(outcome_of(strategy), indent=1).encode())


def secure_of(given: Mapping[str, Any]) -> float | None:
    """The bound of a change, if the fleet is to be summed under masks."""
    return float(given.get("clip", 1.0)) if given.get("secure") else None


def noise_of(given: Mapping[str, Any]) -> Noise | None:
    """The noise that the settings ask for."""
    if not given.get("noise"):
        return None
    return Noise(float(given["noise"]), float(given.get("clip", 1.0)), str(given.get("private", "local")))


def device_app() -> ClientApp:
    return client_app(lambda context: member_of(dict(context.node_config)), memory=memory_of, told=tell)


def tell(context: Context, member: Member | None, event: Event) -> None:
    """Add a line to the file that `insitu fleet join` reads; after the last message, keep this device's model."""
    given = context.node_config
    if event.get(OVER) and given.get("output") and member is not None:
        event = {**event, "written": str(member.learner.save(str(given["output"])))}
    if given.get("events"):
        with Path(str(given["events"])).open("a") as out:
            out.write(json.dumps(event) + "\n")


def keep_model(given: dict[str, Any]) -> Path | None:
    """Write the model that suits this device best, from what came so far; None if nothing did."""
    member, memory = member_of(given), Path(str(given.get("memory", "")))
    if not memory.is_file():
        return None
    member.keep(memory.read_bytes())
    if not member.held:
        return None
    member.settle(member.held, member.catalogue, passes=member.passes, last=True)
    return member.learner.save(str(given["output"]))


def memory_of(context: Context) -> Path | None:
    """The file of what this device keeps between rounds, processes and runs."""
    given = context.node_config.get("memory")
    return Path(str(given)) if given else None


def member_of(given: dict[str, Any]) -> Member:
    """The device that a supernode's configuration describes."""
    if "learner" not in given or not ({"data", "boards"} & set(given)):
        raise DataError(
            "needs a learner, and samples or boards", where="node config", hint="`insitu fleet join` makes it"
        )
    personal = tuple(filter(None, str(given.get("personal", "")).split(",")))
    test = given.get("test") or None
    options = {"test": None if test is None else (test, None), "personal": personal,
               "coding": str(given.get("coding", "int8")), "noise": own_noise(noise_of(given)),
               "secure": secure_of(given), "passes": int(given["own"]) if "own" in given else None,
               "budget": float(given["epsilon"]) if "epsilon" in given else None}  # fmt: skip
    learner = opened(str(given["learner"]))
    data, tests = apart(learner, given.get("data"), options["test"])
    if given.get("boards"):
        return gateway_of(given, learner, data, {**options, "test": tests})
    return Member(learner, data, **{**options, "test": tests})


def apart(learner: Learner, data: str | None, test: Any) -> tuple[Any, Any]:
    """What a device learns from, and what it is tested on: without a test of its own, every fifth sample, if there are
    enough."""
    if not data or test is not None or read_held_out(data, learner.graphs["predict"]) is not None:
        return data, test
    found = learner.samples(data)
    if len(found) < ENOUGH:
        return data, None
    learn, tests = kept_apart(found)
    return found.take(learn), (found.take(tests), None)


def gateway_of(given: Mapping[str, Any], learner: Learner, data: Any, options: dict[str, Any]) -> Gateway:
    """The gateway of boards with the firmware in `build`: each learns from its own store, or from its share of the
    gateway's samples."""
    places, steps = str(given["boards"]).split("|"), int(given.get("steps", STEPS))
    shares = shared_out(learner, data, len(places)) if data is not None else [None] * len(places)
    boards = [_board(p, part, str(given["build"]), learner, steps) for p, part in zip(places, shares)]
    learned = options["test"] is None and data is not None
    return Gateway(
        learner, boards, learned=learned, **{**options, "test": (data, None) if learned else options["test"]}
    )


def _board(place: str, part: tuple[Any, Any] | None, build: str, learner: Learner, steps: int) -> Board:
    def opened_there() -> Device:
        return open_folder(build, place).device

    return (
        with_samples(place, opened_there, learner, *part)
        if part
        else Board(place, opened_there, from_store(steps, learner))
    )


def shared_out(learner: Learner, data: Any, count: int) -> list[tuple[Any, Any] | None]:
    """The samples of each board."""
    found = learner.samples(data)
    x, y = found.inputs[0], found.labels
    assert y is not None  # checked by samples()
    return [(x[i::count], y[i::count]) for i in range(count)]


def opened(path: str) -> Learner:
    return open_learner(Path(path))
