"""Any of Flower's strategies on insitu's deltas: `Deltas(FedAvg(), learner)`.

On the way out, the model goes as one blob instead of float arrays: 16-bit numbers, or a coded difference to devices
that have the last model (handout.py). On the way back, every delta is decoded and checked before the inner strategy
sees it (checks.py, scored.py): what fails is listed in `dropped`. The inner strategy gets float32 arrays in real units,
with the keys and weights it expects. Devices with other schemes fill in what they do not train with the mean of those
who do, so that a tensor is averaged over those who trained it; under a strategy that expects liars, with their median.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import Strategy

from insitu.errors import DataError
from insitu.federated.best import BACK, BEST, Best, Verdict, does_harm, together, verdict_in
from insitu.federated.catalogue import Catalogue, catalogue_of, check_personal, exchanged, first_arrays
from insitu.federated.checks import Limits, Reply, checked_reply, evened, strayed, weights
from insitu.federated.handout import Base, Handout, base_of
from insitu.federated.noted import DOWN, MOST_LINES, UP, Dropped, Traffic, said
from insitu.federated.present import count_replies, innermost
from insitu.federated.privacy import Noise, own_noise
from insitu.federated.recalled import BASES, numbers_of
from insitu.federated.rounds import averaged, middle, programs_of
from insitu.federated.scored import WEIGHT, Scored, as_flower, checked_score
from insitu.federated.units import Arrays, Unit, identity, units_of
from insitu.federated.waves import replies_to
from insitu.learner import Learner
from insitu.learner.measures import MEASURES
from insitu.terminal.wording import either

RECORD = "insitu"  # the one record of a message, each way: one object on the wire
BASE, DELTA, SAMPLES, LOSS, LEFT_OUT = "base", "delta", "samples", "loss", "left-out"
CATALOGUE = "catalogue"  # what a fleet with several schemes exchanges
WANTS = "wants-whole-base"  # the answer of a device that does not have the last model
ROBUST = (flower.FedMedian, flower.FedTrimmedAvg, flower.Krum, flower.MultiKrum, flower.Bulyan)  # a few may lie
MOST_LOSS = 1e30  # that is shown


@dataclass
class Deltas(Strategy):
    """A strategy of Flower's that exchanges deltas of the programs of these learners (one per scheme)."""

    strategy: Strategy
    learners: Sequence[Learner]
    personal: Sequence[str] = ()
    noise: Noise | None = None  # central: the strategy is wrapped in Flower's own; local: only told
    limits: Limits = field(default_factory=Limits)
    at_once: int | None = None  # messages on their way to devices; None: all
    coding: str = "int8"  # of the differences that devices are sent
    dropped: list[Dropped] = field(default_factory=list)
    traffic: list[Traffic] = field(default_factory=list)
    scored: dict[int, dict[int, float]] = field(default_factory=dict)  # round -> node -> accuracy, or error
    keep_last: bool = False  # end with the last round's model, whatever the devices' tests say (best.py)

    def __post_init__(self) -> None:
        programs = [self.units_of(each) for each in self.learners]
        self.programs, self.catalogue = programs_of(programs), catalogue_of(programs)
        states = [(p, each.graphs, each.device.state()) for p, each in zip(programs, self.learners)]
        self.first: Arrays = first_arrays(self.catalogue, states)
        self.scores: MetricRecord | None = None  # of the last evaluation
        self.owned: dict[int, float] = {}  # the scores of devices that went on by themselves
        self.kept: dict[int, int] = {}  # which model they keep (own.py)
        self.alone: dict[int, float] = {}  # the scores that devices reach without the others
        self.keeps: dict[int, int] = {}  # of the last evaluation
        self.tests = 0  # samples behind the last evaluation; unknown if devices do not tell
        self.tested_bytes = 0  # sent to devices for evaluations
        self.asked: set[int] = set()  # devices that have not answered yet
        self.silent: set[int] = set()  # devices that did not answer when they were asked last
        self.measure = MEASURES[self.learners[0].recipe.loss][0]
        self.best: Best | None = None  # the model that the devices' tests speak for so far
        self.verdicts: list[Verdict] = []  # of the last evaluation
        self.undone: dict = {}  # the round whose model was taken back to, and what devices scored with the last one
        self.seen: set[int] = set()  # devices that are tested on what they learned from
        self.uniform = self.noise is not None  # every device counts the same: its number of samples is private
        self.made = numbers_of(self.strategy)  # before it changes any
        self.handout = Handout(self.catalogue, self.coding)
        self.began = base_of(self.first, self.catalogue).id  # of the model at the start

    def units_of(self, learner: Learner) -> tuple[Unit, ...]:
        """What this learner exchanges."""
        check_personal(learner.graphs, self.personal)
        return exchanged(units_of(learner.graphs), self.personal)

    @property
    def told(self) -> dict[str, str]:
        """A device knows its own program; of a fleet with several, it must hear what the others train."""
        return {CATALOGUE: self.catalogue.text} if len(self.programs) > 1 else {}

    @property
    def asks(self) -> dict[str, bytes]:
        """What devices compare a model with."""
        return {BEST: self.best.base.id} if self.best else {}

    @property
    def robust(self) -> bool:
        """Does the strategy expect that a few devices lie?"""
        return isinstance(innermost(self.strategy), ROBUST)

    @property
    def initial_arrays(self) -> ArrayRecord:
        """The model at the start, for `start(initial_arrays=...)`."""
        return as_record(self.first)

    def summary(self) -> None:
        self.strategy.summary()

    def round(self, grid: Grid, number: int, arrays: Arrays, config: ConfigRecord, timeout: float) -> Arrays:
        """One round: the model after it."""
        messages = list(self.configure_train(number, as_record(arrays), config, grid))
        found, _ = self.aggregate_train(number, self.answers(grid, messages, timeout))
        return arrays if found is None else as_arrays(found)

    def answers(self, grid: Grid, messages: Sequence[Message], timeout: float) -> list[Message]:
        """The replies to these messages. A device that cannot use a difference gets the whole model at once."""
        settings = {m.metadata.dst_node_id: dict(m.content.config_records[RECORD]) for m in messages}
        kinds = {m.metadata.dst_node_id: (m.metadata.message_type, m.metadata.group_id) for m in messages}
        found = self._replies(grid, messages, timeout)
        nodes = {m.metadata.src_node_id: None for m in found if wants_whole(m) and m.metadata.src_node_id in kinds}
        again = [_message({**settings[n], BASE: self._blob(n, whole=True)}, n, *kinds[n]) for n in nodes]
        return [m for m in found if not wants_whole(m)] + (self._replies(grid, again, timeout) if again else [])

    def _replies(self, grid: Grid, messages: Sequence[Message], timeout: float) -> list[Message]:
        """What comes in time, and who did not answer at all: nobody waits for them as long the next time."""
        found = replies_to(grid, messages, timeout, self.at_once, self.silent)
        answered = {m.metadata.src_node_id for m in found}
        self.silent = (self.silent | {m.metadata.dst_node_id for m in messages}) - answered
        return found

    def _blob(self, node: int, whole: bool = False) -> bytes:
        """The model of the round for this device; counted."""
        data = self.handout.blob_for(node, whole)
        if self.traffic:
            self.traffic[-1].count(node, DOWN, len(data))
        return data

    # out --------------------------------------------------------------------------------------

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord,
                        grid: Grid) -> Iterable[Message]:  # fmt: skip
        base = self.handout.next(as_arrays(arrays))
        for name in set(BASES) & set(vars(self.strategy)):
            setattr(self.strategy, name, None)  # FedAvgM would keep its own, which is not what devices get
        made = list(self.strategy.configure_train(server_round, as_record(base.arrays), config, grid))
        self.traffic.append(Traffic(server_round))
        self.asked = {m.metadata.dst_node_id for m in made}
        return [_slim(m, self._blob(m.metadata.dst_node_id), {**self.told, **self.asks}) for m in made]

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord,
                           grid: Grid) -> Iterable[Message]:  # fmt: skip
        base = self.handout.next(as_arrays(arrays), exact=True)
        made = self.strategy.configure_evaluate(server_round, as_record(base.arrays), config, grid)
        blobs = [(m, self.handout.blob_for(m.metadata.dst_node_id)) for m in made]
        self.tested_bytes += sum(len(blob) for _, blob in blobs)
        self.asked = {m.metadata.dst_node_id for m, _ in blobs}
        compare = self.asks or ({BEST: b""} if server_round == 0 else {})
        return [_slim(m, blob, {**self.told, **compare}) for m, blob in blobs]

    # back -------------------------------------------------------------------------------------

    def aggregate_train(self, server_round: int,
                        replies: Iterable[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:  # fmt: skip
        base, good = self.handout.base, list[tuple[Message, Reply]]()
        assert base is not None  # configure_train was called
        for message in self._theirs(replies):
            reply = self._checked(server_round, message, base)
            if reply is not None:
                good.append((message, reply))
        self._missed(server_round)
        good = self._near(server_round, good, base)
        self._judged(server_round - 1, base, [message for message, _ in good])
        good.sort(key=lambda pair: bytes(field_of(pair[0], DELTA)))  # type: ignore[arg-type]  sums in one order
        traffic = self.traffic[-1]
        traffic.replies = len(good)
        traffic.loss = _mean_loss(good)
        traffic.who = [self._about(message, reply) for message, reply in good]
        if not good:
            return None, None
        fill = self._fill(base, [reply for _, reply in good])
        for message, reply in good:
            message.content = _widened(reply, base.arrays, fill, self.catalogue, _loss(message),
                                       1 if self.uniform else reply.samples)  # fmt: skip
        for message, _ in good:
            self.handout.has(message.metadata.src_node_id)
        count_replies(self.strategy, len(good))
        found, metrics = self.strategy.aggregate_train(server_round, [message for message, _ in good])
        return self.whole(found), metrics

    def _fill(self, base: Base, replies: list[Reply]) -> Arrays:
        """What stands for numbers that a device does not train; it must not change the strategy's result."""
        return (middle if self.robust else averaged)(base.arrays, replies, self.catalogue)

    def _judged(self, number: int, base: Base, messages: Sequence[Message]) -> None:
        """Note the model that was handed out, of this round, if it is better than the best one so far."""
        found = [v for m in messages if (v := verdict_in(m.content.config_records[RECORD], self.limits.samples))]
        if together(found, self.limits, self.robust)[0] > 0:
            self.best = Best(number, base)

    def go_back(self) -> dict[str, int]:
        """Take an earlier model if the last one is clearly worse by the last evaluation; returns the word for it."""
        if self.best is None or self.keep_last or not does_harm(self.verdicts, self.limits, self.robust):
            return {}
        self.undone = {"round": self.best.round, "scores": self.scored[max(self.scored)]}
        self.first = self.best.base.arrays
        return {BACK: self.best.round}

    def _about(self, message: Message, reply: Reply) -> dict:
        """Who replied, for the report."""
        left_out = field_of(message, LEFT_OUT)
        words = [said(each) for each in left_out[:MOST_LINES]] if isinstance(left_out, list) else []
        about = {"node": message.metadata.src_node_id, "samples": 1 if self.uniform else reply.samples,
                 "program": list(self.programs).index(identity(reply.units)), "left_out": words}  # fmt: skip
        return {**about, "claimed": reply.claimed} if reply.claimed > reply.samples else about

    def whole(self, found: ArrayRecord | None) -> ArrayRecord | None:
        """A strategy's result, with what the server's arrays have and the model that it handed out does not."""
        ahead = self.handout.ahead()
        return found and as_record({n: a + ahead[n] for n, a in as_arrays(found).items()})

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        found = [(m, scored) for m in self._theirs(replies) if (scored := self._scored(server_round, m)) is not None]
        self._missed(server_round)
        for _, scored in found:
            self.handout.has(scored.node)
        good = [(m, scored) for m, scored in found if scored.score is not None]
        self.keeps = {scored.node: scored.kept for _, scored in good}
        self.verdicts = [scored.verdict for _, scored in good if scored.verdict]
        if server_round == 0 and self.best is None and self.verdicts and self.handout.base:
            self.best = Best(0, self.handout.base)
        self.seen |= {scored.node for _, scored in good if scored.seen}
        self.scored[server_round] = {scored.node: scored.score for _, scored in good if scored.score is not None}
        counts = weights([scored.samples for _, scored in good], self.limits)
        self.tests = 0 if self.uniform else sum(counts)
        messages = [as_flower(m, scored, self.measure, count) for (m, scored), count in zip(good, counts)]
        return self.strategy.aggregate_evaluate(server_round, messages) if messages else None

    def _checked(self, server_round: int, message: Message, base: Base) -> Reply | None:
        try:
            self._expect(message)
            if message.has_error():
                raise DataError(f"the device reports: {said(message.error.reason)}")
            if wants_whole(message):
                raise DataError("the device does not have the last model; it gets the whole one in the next round")
            data = field_of(message, DELTA)
            verdict_in(message.content.config_records[RECORD], self.limits.samples)  # is it one at all?
            self.traffic[-1].count(message.metadata.src_node_id, UP, len(data) if isinstance(data, bytes) else 0)
            return self._hidden(checked_reply(data, self.programs, base.id, base.arrays, self.limits))
        except DataError as e:
            self.dropped.append(Dropped(server_round, message.metadata.src_node_id, str(e)))
            return None

    def _hidden(self, reply: Reply) -> Reply:
        """Where devices add noise, none tells how many samples it has: one that does has added none, and the epsilon of
        the report would not be true for it."""
        if (noise := own_noise(self.noise)) and reply.samples != 1:
            wanted = f"a noise of {noise.multiplier:g} and a clip of {noise.clip:g}"
            hint = either(
                shell=f"insitu fleet join ... --noise {noise.multiplier:g} --clip {noise.clip:g}", python=wanted
            )
            raise DataError("has no noise, as this fleet wants it", where="delta", hint=hint)
        return reply

    def _near(self, server_round: int, good: list[tuple[Message, Reply]], base: Base) -> list[tuple[Message, Reply]]:
        """Those that are not far from the others, none of them with a weight that is."""
        why = strayed([reply for _, reply in good], base.arrays, self.limits)
        self.dropped += [Dropped(server_round, m.metadata.src_node_id, w) for (m, _), w in zip(good, why) if w]
        near = [pair for pair, w in zip(good, why) if not w]
        return list(zip([m for m, _ in near], evened([reply for _, reply in near], self.limits)))

    def _scored(self, server_round: int, message: Message) -> Scored | None:
        try:
            self._expect(message)
            return checked_score(message, self.measure, self.limits.samples)
        except DataError as e:
            self.dropped.append(Dropped(server_round, message.metadata.src_node_id, str(e)))
            return None

    def _theirs(self, replies: Iterable[Message]) -> list[Message]:
        """Without Flower's own errors about devices that are gone: these are named as those that did not answer."""
        return [m for m in replies if not m.has_error() or m.metadata.src_node_id in self.asked]

    def _expect(self, message: Message) -> None:
        """The first answer of a device that was asked."""
        if message.metadata.src_node_id not in self.asked:
            raise DataError("answers twice, or was not asked")
        self.asked.remove(message.metadata.src_node_id)

    def _missed(self, server_round: int) -> None:
        """Note who was asked and did not answer."""
        self.dropped += [Dropped(server_round, node, "did not answer in time") for node in sorted(self.asked)]
        self.asked = set()


def as_record(arrays: Mapping[str, np.ndarray]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(a, np.float32)) for name, a in arrays.items()})


def as_arrays(record: ArrayRecord) -> Arrays:
    return {name: a.numpy() for name, a in record.items()}


def _slim(message: Message, blob: bytes, told: Mapping[str, str | bytes]) -> Message:
    """The same message with one record: the settings, and the model as one blob."""
    settings = {k: v for record in message.content.config_records.values() for k, v in record.items()}
    message.content = RecordDict({RECORD: ConfigRecord({**settings, **told, BASE: blob})})
    return message


def _message(settings: Mapping, node: int, kind: str, group: str) -> Message:
    return Message(RecordDict({RECORD: ConfigRecord(dict(settings))}), node, kind, group_id=group)


def wants_whole(message: Message) -> bool:
    """Does this device ask for the whole model?"""
    return message.has_content() and WANTS in message.content.config_records.get(RECORD, {})


def field_of(message: Message, name: str) -> object:
    """A field of the reply's record, whatever the device sent."""
    if not message.has_content() or RECORD not in message.content.config_records:
        raise DataError("has no insitu record", where="reply")
    return message.content.config_records[RECORD].get(name)


def _loss(message: Message) -> float:
    """The loss that a device reports; it is only shown, never averaged into the model."""
    value = field_of(message, LOSS)
    return float(value) if isinstance(value, int | float) and abs(value) <= MOST_LOSS else 0.0


def _mean_loss(good: Sequence[tuple[Message, Reply]]) -> float:
    if not good:
        return 0.0
    return float(np.average([_loss(m) for m, _ in good], weights=[r.samples for _, r in good]))


def _widened(reply: Reply, base: Arrays, fill: Arrays, catalogue: Catalogue, loss: float, weight: int) -> RecordDict:
    """A reply as Flower's strategies take it: every tensor, and the number of samples."""
    change, mask = catalogue.whole(reply.units, reply.change), catalogue.mask(reply.units)
    arrays = {name: np.where(mask[name], base[name] + change[name], fill[name]) for name in base}
    metrics = MetricRecord({WEIGHT: weight, "train-loss": loss})
    return RecordDict({"arrays": as_record(arrays), "metrics": metrics})
