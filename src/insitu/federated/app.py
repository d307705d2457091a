"""The Flower app: a ClientApp for any learner, and a ServerApp around any of Flower's strategies.

    client = client_app(lambda context: Member(insitu.open("gesture.insitu"), x, y))
    server = server_app(Deltas(FedAvg(), [insitu.open("gesture.insitu")]), rounds=5)

A client that fails answers with its error; the round goes on without it. What a device keeps between rounds (personal
layers, what the coding lost) is in its own context, which never leaves it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from insitu.federated.catalogue import Catalogue, catalogue_of
from insitu.federated.member import Member, Task
from insitu.federated.strategy import BASE, DELTA, LOSS, RECORD, SAMPLES, WEIGHT, Deltas, as_arrays, as_record
from insitu.federated.units import Arrays
from insitu.files import write_whole

KEPT = "insitu-kept"
TASK = {"epochs": int, "rate": float, "head_rate": float, "seed": int, "pull": float}


def client_app(member_of: Callable[[Context], Member], catalogue: Catalogue | None = None) -> ClientApp:
    """The app of a device; `member_of` gives its learner and samples. Unlike devices need the fleet's catalogue."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        member, settings = _member(member_of, context), message.content.config_records[RECORD]
        answer = member.train(_base(settings), catalogue or catalogue_of([member.units]), task_of(settings))
        context.state[KEPT] = ConfigRecord({KEPT: member.kept()})
        found = ConfigRecord({DELTA: answer.delta, SAMPLES: answer.samples, LOSS: answer.loss})
        return Message(RecordDict({RECORD: found}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        member, settings = _member(member_of, context), message.content.config_records[RECORD]
        found = member.evaluate(_base(settings), catalogue or catalogue_of([member.units]))
        scores = {name: float(v) for name, v in found.items() if name != "samples"}
        metrics = MetricRecord({**scores, WEIGHT: int(found["samples"])})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def _member(member_of: Callable[[Context], Member], context: Context) -> Member:
    member = member_of(context)
    if KEPT in context.state:
        member.keep(context.state[KEPT][KEPT])  # type: ignore[index,arg-type]
    return member


def _base(settings: ConfigRecord) -> bytes:
    data = settings[BASE]
    assert isinstance(data, bytes)
    return data


def task_of(settings: Mapping[str, object]) -> Task:
    """The task in a message's settings. FedProx calls its pull proximal-mu."""
    known = {name: kind(settings[name]) for name, kind in TASK.items() if name in settings}  # type: ignore[operator]
    mu = settings.get("proximal-mu")
    pull = float(mu) / (1 + float(mu)) if isinstance(mu, int | float) and mu > 0 else 0.0
    return Task(**{"seed": 1000 * int(settings.get("server-round", 0)), "pull": pull, **known})  # type: ignore


Settings = Mapping[str, int | float | str]
Told = Callable[[str, int, int], None]


def server_app(strategy: Deltas, rounds: int = 3, settings: Settings | None = None, checkpoint: Path | None = None,
               timeout: float = 3600, report: Told = lambda words, done, total: None) -> ServerApp:  # fmt: skip
    """The app of a server. With a checkpoint, each round is written, and a restart continues with the next one."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run_rounds(strategy, grid, rounds, settings or {}, checkpoint, timeout, report)

    return app


def run_rounds(strategy: Deltas, grid: Grid, rounds: int, settings: Settings, checkpoint: Path | None, timeout: float,
               report: Told = lambda words, done, total: None) -> None:  # fmt: skip
    """All rounds that are still to be done, and an evaluation before the first and after the last one."""
    done, arrays = read_checkpoint(checkpoint, strategy) if checkpoint else (0, strategy.first)
    if done == 0:
        evaluate(strategy, grid, 0, arrays, settings, timeout)
    for number in range(done + 1, rounds + 1):
        report(f"round {number} of {rounds}", number - 1, rounds)
        config = ConfigRecord({**settings, "server-round": number})
        replies = grid.send_and_receive(strategy.configure_train(number, as_record(arrays), config, grid),
                                        timeout=timeout)  # fmt: skip
        found, _ = strategy.aggregate_train(number, replies)
        arrays = arrays if found is None else as_arrays(found)
        strategy.first = arrays
        if checkpoint:
            write_checkpoint(checkpoint, number, arrays)
    strategy.scores = evaluate(strategy, grid, rounds, arrays, settings, timeout)
    report("evaluated", rounds, rounds)


def evaluate(strategy: Deltas, grid: Grid, number: int, arrays: Arrays, settings: Settings,
             timeout: float) -> MetricRecord | None:  # fmt: skip
    """How good a model is on the devices' own test samples."""
    messages = strategy.configure_evaluate(number, as_record(arrays), ConfigRecord(dict(settings)), grid)
    return strategy.aggregate_evaluate(number, grid.send_and_receive(messages, timeout=timeout))


def write_checkpoint(path: Path, number: int, arrays: Mapping[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **{"round": np.int64(number), **{f"array/{n}": a for n, a in arrays.items()}})  # type: ignore
    write_whole(path, buffer.getvalue())


def read_checkpoint(path: Path, strategy: Deltas) -> tuple[int, dict[str, np.ndarray]]:
    """The last round that was completed, and the model after it; the start if there is none."""
    if not path.exists():
        return 0, strategy.first
    with np.load(path, allow_pickle=False) as found:
        arrays = {name.removeprefix("array/"): found[name] for name in found.files if name.startswith("array/")}
        return int(found["round"]), arrays
