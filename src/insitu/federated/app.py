"""The Flower app: a ClientApp for any learner, and a ServerApp around any of Flower's strategies.

    client = client_app(lambda context: Member(insitu.open("gesture.insitu"), x, y))
    server = server_app(Deltas(FedAvg(), [insitu.open("gesture.insitu")]), rounds=5)

A client that fails answers with its error; the round goes on without it. What a device keeps between rounds (personal
layers, what the coding lost) is in its own context, or in a file of its own (`memory`) that survives the process and
the run; it never leaves the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from insitu.errors import DataError
from insitu.federated.best import BACK, BEST
from insitu.federated.catalogue import Catalogue
from insitu.federated.checkpoint import read_checkpoint, write_checkpoint
from insitu.federated.handout import OtherBase, received
from insitu.federated.member import Member, Task
from insitu.federated.noted import said
from insitu.federated.present import PATIENCE, Present
from insitu.federated.scored import SEEN, UNTESTED, WEIGHT
from insitu.federated.strategy import BASE, CATALOGUE, DELTA, LEFT_OUT, LOSS, RECORD, SAMPLES, WANTS, Deltas, as_record
from insitu.federated.units import Arrays
from insitu.files import write_whole

KEPT, SECRETS = "insitu-kept", "insitu-secrets"
PHASE, ANSWER = "phase", "answer"  # of a secure round
ALONE, MORE = "alone", "more"  # passes of a device by itself before it is evaluated; and others on top of these
AS_FITS = -1  # as many passes as follow from a device's samples
OVER = "over"  # nothing comes after this message
TASK = {"epochs": int, "rate": float, "head_rate": float, "seed": int, "pull": float}
MOST = {
    "epochs": 1000,
    "rate": 100.0,
    "head_rate": 100.0,
    "pull": 1.0,
    ALONE: 1000,
    MORE: 100_000,
}  # that a server may ask


Event = dict[str, Any]  # what a device did, for its owner
Tell = Callable[[Context, Member | None, Event], None]


def client_app(member_of: Callable[[Context], Member], catalogue: Catalogue | None = None,
               memory: Callable[[Context], Path | None] = lambda context: None,
               told: Tell = lambda context, member, event: None) -> ClientApp:  # fmt: skip
    """The app of a device; `member_of` gives its learner and samples, `memory` the file of what it keeps, and `told`
    hears of every message that was answered or failed. The catalogue is what the server says, unless it is given."""
    app = ClientApp()

    @app.train()
    @_telling(told)
    def train(message: Message, context: Context) -> Message:
        member, settings = _member(member_of, context, memory), message.content.config_records[RECORD]
        shared = catalogue or _shared(settings, member)
        try:
            settings = _with_model(settings, member, shared)
        except OtherBase:
            told(context, member, {})
            return _wants_whole(message)
        if PHASE in settings:
            masked = _under_masks(context, settings, member, shared)
            _remember(member, context, memory(context))
            told(context, member, {"phase": settings[PHASE], "sent": len(masked), **_spent(member)})
            return Message(RecordDict({RECORD: ConfigRecord({ANSWER: masked})}), reply_to=message)
        verdict = {} if member.hides else judged(member, settings, shared)
        answer = member.train(member.held, shared, task_of(settings))
        _remember(member, context, memory(context))
        shown = {} if member.hides else {SAMPLES: answer.samples, LOSS: answer.loss}
        found = ConfigRecord({DELTA: answer.delta, **shown, **verdict})
        if answer.left_out:
            found[LEFT_OUT] = list(answer.left_out)
        told(context, member, {"round": settings.get("server-round", 0), "loss": answer.loss, "samples": answer.samples,
                               "sent": len(answer.delta), "left_out": answer.left_out, **_spent(member)})  # fmt: skip
        return Message(RecordDict({RECORD: found}), reply_to=message)

    @app.evaluate()
    @_telling(told)
    def evaluate(message: Message, context: Context) -> Message:
        member, settings = _member(member_of, context, memory), message.content.config_records[RECORD]
        shared = catalogue or _shared(settings, member)
        try:
            _with_model(settings, member, shared)
        except OtherBase:
            told(context, member, {})
            return _wants_whole(message)
        verdict = {} if ALONE in settings else judged(member, settings, shared)
        found = evaluated(member, settings, shared)
        _remember(member, context, memory(context))
        after = {"after": settings.get("server-round", 0), **{k: settings[k] for k in (BACK,) if k in settings}}
        told(context, member, {"scores": found, **after, **({OVER: True} if settings.get(OVER) else {})})
        return Message(RecordDict({"metrics": MetricRecord({**_metrics(member, found), **verdict})}), reply_to=message)

    return app


Answers = Callable[[Message, Context], Message]


def _telling(told: Tell) -> Callable[[Answers], Answers]:
    """The server hears of a failure from Flower; the device's owner from this."""

    def wrap(answer: Answers) -> Answers:
        def answered(message: Message, context: Context) -> Message:
            try:
                return answer(message, context)
            except Exception as e:
                over = {OVER: True} if message.content.config_records.get(RECORD, {}).get(OVER) else {}
                told(context, None, {"failed": str(e), **over})
                raise

        return answered

    return wrap


def _spent(member: Member) -> Event:
    """What the answers of a device with noise of its own are worth so far."""
    return {} if member.noise is None else {"epsilon": member.noise.epsilon(member.account.answers)}


def evaluated(member: Member, settings: ConfigRecord, catalogue: Catalogue) -> dict[str, float]:
    """How good the model is here, as it is or once this device has gone on from it alone; {}: nothing to test on."""
    given = settings.get(ALONE, AS_FITS if member.passes and settings.get(OVER) else None)
    if given is None:
        return member.evaluate(member.held, catalogue)
    passes = member.passes if member.passes is not None else None if given == AS_FITS else int(given)  # type: ignore
    more, last = int(settings.get(MORE, 0)), bool(settings.get(OVER))  # type: ignore[arg-type]
    return member.settle(member.held, catalogue, task_of(settings), passes, more, last)


def judged(member: Member, settings: ConfigRecord, catalogue: Catalogue) -> dict[str, float | int]:
    """What this device's tests say about the model, if the server asks and they can tell (best.py)."""
    best = settings.get(BEST)
    found = member.judge(member.held, catalogue, best) if isinstance(best, bytes) else None
    return found.told if found else {}


def _metrics(member: Member, found: Mapping[str, float]) -> MetricRecord:
    """As the server gets it."""
    if not found:
        return MetricRecord({UNTESTED: 1, WEIGHT: 1})
    scores = {name: float(v) for name, v in found.items() if name != "samples"}
    samples = 1 if member.hides else int(found["samples"])  # tests are a part of all samples
    return MetricRecord({**scores, WEIGHT: samples, SEEN: int(member.seen)})


def _member(member_of: Callable[[Context], Member], context: Context,
            memory: Callable[[Context], Path | None]) -> Member:  # fmt: skip
    member, file = member_of(context), memory(context)
    if file is not None and file.exists():
        _keep_from(member, file)
    elif KEPT in context.state:
        member.keep(context.state[KEPT][KEPT])  # type: ignore[index,arg-type]
    return member


def _keep_from(member: Member, file: Path) -> None:
    try:
        member.keep(file.read_bytes())
    except DataError as e:
        raise DataError(e.what, where=str(file), hint="remove it: personal layers begin anew") from e


def _remember(member: Member, context: Context, file: Path | None) -> None:
    if file is not None:
        write_whole(file, member.kept())
    else:
        context.state[KEPT] = ConfigRecord({KEPT: member.kept()})


def _under_masks(context: Context, settings: ConfigRecord, member: Member, catalogue: Catalogue) -> bytes:
    """The answer to a message of a secure round. The device's secrets are in its context, for this round alone."""
    from insitu.federated.secure.device import answered

    kept = dict(context.state.config_records.get(SECRETS, {}))
    answer = answered(str(settings[PHASE]), settings, member, catalogue, task_of(settings), kept)  # type: ignore
    context.state[SECRETS] = ConfigRecord(kept)
    return answer


def _shared(settings: ConfigRecord, member: Member) -> Catalogue:
    member.told = str(settings.get(CATALOGUE, ""))
    return member.catalogue


def _with_model(settings: ConfigRecord, member: Member, catalogue: Catalogue) -> ConfigRecord:
    """The settings with the whole model in them, if there is one; the device keeps it."""
    if BASE not in settings and PHASE in settings:
        return settings
    member.held = received(settings.get(BASE), member.held, catalogue)
    return ConfigRecord({**settings, BASE: member.held})


def _wants_whole(message: Message) -> Message:
    return Message(RecordDict({RECORD: ConfigRecord({WANTS: 1})}), reply_to=message)


def task_of(settings: Mapping[str, object]) -> Task:
    """The task in a message's settings. FedProx calls its pull proximal-mu."""
    _check_asked(settings)
    known = {name: kind(settings[name]) for name, kind in TASK.items() if name in settings}  # type: ignore[operator]
    mu = settings.get("proximal-mu")
    pull = float(mu) / (1 + float(mu)) if isinstance(mu, int | float) and mu > 0 else 0.0
    return Task(**{"seed": 1000 * int(settings.get("server-round", 0)), "pull": pull, **known})  # type: ignore


def _check_asked(settings: Mapping[str, object]) -> None:
    """A device does not learn for ever, or with rates that make no sense, because a server says so."""
    for name, most in MOST.items():
        value = settings.get(name, 0)
        least = AS_FITS if name == ALONE else 0
        if not isinstance(value, int | float) or not least <= value <= most:  # also not a number
            raise DataError(f"the server asks for {name} {said(value)}, not a number up to {most:g}", where="task")


Settings = Mapping[str, int | float | str]
Told = Callable[[str, int, int], None]


def server_app(strategy: Deltas, rounds: int = 3, settings: Settings | None = None, checkpoint: Path | None = None,
               timeout: float = 3600, report: Told = lambda words, done, total: None, own: int | None = 0,
               alone: bool = False) -> ServerApp:  # fmt: skip
    """The app of a server. With a checkpoint, each round is written, and a restart continues with the next one."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run_rounds(strategy, grid, rounds, settings or {}, checkpoint, timeout, report, own, alone)

    return app


def run_rounds(strategy: Deltas, grid: Grid, rounds: int, settings: Settings, checkpoint: Path | None, timeout: float,
               report: Told = lambda words, done, total: None, own: int | None = 0, alone: bool = False,
               patience: float = PATIENCE) -> None:  # fmt: skip
    """All rounds that are still to be done, and an evaluation before the first and after the last one.

    patience  seconds to wait for devices that were there before, until the others go on without them
    own     another evaluation, after so many passes of each device by itself; None: as many as follow from its samples
    alone   for comparison, also what each device reaches without the others, with as many passes in all
    """
    present = Present(strategy, patience)
    done, arrays = read_checkpoint(checkpoint, strategy) if checkpoint else (0, strategy.first)
    strategy.first = arrays  # also if no round is left to do
    passes = {} if own == 0 else {ALONE: AS_FITS if own is None else own}
    if done == 0:
        evaluate(strategy, grid, 0, arrays, settings, timeout)
    if done == 0 and alone:
        report("each device alone", 0, rounds)
        present.gather(grid)
        more = {ALONE: 0, **passes, MORE: rounds * int(settings.get("epochs", 1))}
        strategy.alone, _ = settled(strategy, grid, arrays, {**settings, **more}, timeout)
    for number in range(done + 1, rounds + 1):
        report(f"round {number} of {rounds}", number - 1, rounds)
        present.gather(grid)
        config = ConfigRecord({**settings, "server-round": number})
        strategy.first = arrays = strategy.round(grid, number, arrays, config, timeout)
        if checkpoint:
            write_checkpoint(checkpoint, number, strategy)
    present.gather(grid)
    last = {} if passes else {OVER: 1}
    # the answers may lead back to another model, which comes with a message of its own
    asked = {} if strategy.best else last
    strategy.scores = evaluate(strategy, grid, rounds, arrays, {**settings, **asked}, timeout)
    back = strategy.go_back()
    arrays = strategy.first
    if back or last != asked:
        strategy.scores = evaluate(strategy, grid, rounds, arrays, {**settings, **back, **last}, timeout)
    if passes:
        report("each device goes on by itself", rounds, rounds)
        present.gather(grid)
        strategy.owned, strategy.kept = settled(strategy, grid, arrays, {**settings, **passes, OVER: 1}, timeout)
    report("evaluated", rounds, rounds)


def evaluate(strategy: Deltas, grid: Grid, number: int, arrays: Arrays, settings: Settings,
             timeout: float) -> MetricRecord | None:  # fmt: skip
    """How good a model is on the devices' own test samples."""
    messages = strategy.configure_evaluate(number, as_record(arrays), ConfigRecord(dict(settings)), grid)
    return strategy.aggregate_evaluate(number, strategy.answers(grid, list(messages), timeout))


Scores = dict[int, float]


def settled(strategy: Deltas, grid: Grid, arrays: Arrays, settings: Settings,
            timeout: float) -> tuple[Scores, dict[int, int]]:  # fmt: skip
    """The scores of devices that go on from a model by themselves, and which model each keeps."""
    last = max(strategy.scored)
    before = strategy.scored[last]
    evaluate(strategy, grid, last, arrays, settings, timeout)
    found, strategy.scored[last] = strategy.scored[last], before
    return found, strategy.keeps
