"""One life on Linux and on an emulated board: the same samples, labels, bouts, classes; the same bytes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("unicorn")

import insitu
from insitu.devices.emulator import EmulatorDevice, emulate
from insitu.devices.living import COLLECT, NONE, Kept, Living
from insitu.store import drift, rules
from insitu.store.bout import YOUTH
from insitu.store.class_rows import room

from ..learners import imported
from ..models import imported as network
from .living import RATE, points


class Both:
    """Tells everything to a learner on this machine and to a board, and compares them after each act."""

    def __init__(self, learner: insitu.Learner, rule: str = "balanced", cost: float = 0.0):
        assert learner.deployed is not None and learner.deployed.firmware is not None
        self.device: EmulatorDevice = emulate(learner.deployed.firmware)
        self.board, self.learner = Living(self.device), learner
        self.life = learner.keep(count=self.board.capacity, rule=rule, cost=cost)

    def observe(self, x: np.ndarray, label: int = NONE) -> int:
        found = self.board.observe(x, label=label)
        assert found == self.learner.observe(x[None], None if label == NONE else label)
        return found

    def label(self, id: int, label: int) -> None:
        self.board.label(id, label)
        self.learner.label(id, label)

    def rehearse(self, steps: int, rate: float, partial: bool = False) -> insitu.Rehearsed:
        found = self.board.rehearse(steps, rate, partial)
        told = self.learner.rehearse(steps, rate=rate, partial=partial)
        assert told.steps == steps and told.finished and told.guards == found["guards"]
        assert found["undone"] == self.life.record.rolled_back
        return told

    def add_class(self, name: str) -> int:
        row = self.board.add_class(name)
        assert row == self.learner.add_class(name)
        return row

    def forget(self, row: int) -> None:
        self.board.forget(row)
        self.learner.forget(row)

    def trained(self, x: np.ndarray, label: int) -> np.ndarray:
        """Learn from these outside of a bout, on both; returns the row of the class."""
        labels, rate = np.array([label], np.int32), np.float32(RATE)
        for one in x:
            self.device.run("learn", *self.device.run("encode", one[None]), labels, rate)
            self.learner.device.run("train_step", one[None], labels, rate)
        return self.device.state()["head.weight"][label].copy()

    def fewest_guards(self, new: int) -> int:
        """Of a class that is older than this one."""
        return min(len(self.life.store.ledger.guards.ids.get(k, ())) for k in range(new))

    def taken(self, new: int) -> list[int]:
        """Kept samples that this class takes from the older ones, which would be right without it."""
        kept = [r for r in self.life.store.ledger.records.values() if r.label not in (NONE, new)]
        logits = self.life.mind.recall([one or b"" for one in self.life.store.fetch([r.id for r in kept])])[0]
        right = logits[:, :new].argmax(1) == [r.label for r in kept]
        assert right.sum() > 5
        return [r.id for r, yes in zip(kept, right & (logits.argmax(1) == new)) if yes]

    def check(self) -> None:
        """Records, state, means and drift are the same."""
        ledger = self.life.store.ledger
        kept = [ledger.records[i] for i in sorted(ledger.records)]
        assert self.board.records() == [Kept(r.id, r.label, r.guard, r.worth, r.uses) for r in kept]
        mine, theirs = self.device.state(), self.learner.device.state()
        assert all(mine[name].tobytes() == theirs[name].tobytes() for name in theirs)
        found = self.board.statistics()
        assert np.float32(found["drift"]) == np.float32(self.life.drift())
        counts = self.life.store.means.counts
        assert [c["in_mean"] for c in self.board.class_statistics()] == [
            counts.get(k, 0) for k in range(self.board.classes)
        ]


def perceptron(
    scheme: str = "last:1",
    board: str = "nrf51822",
    rule: str | None = None,
    store: str = "4K",
    cost: float | None = None,
) -> tuple[insitu.Learner, np.ndarray, np.ndarray]:
    x, y = points(140)
    made = insitu.compile(imported(), classes=4, scheme=scheme, precision="float", board=board, store=store,
                          max_classes=5, store_rule=rule, class_cost=cost)  # fmt: skip
    return made, x, y


def head_in_flash() -> tuple[insitu.Learner, np.ndarray, np.ndarray]:
    return perceptron("head")


def roomy() -> tuple[insitu.Learner, np.ndarray, np.ndarray]:
    return perceptron(board="nrf52840", store="32K")


def head_in_sram() -> tuple[insitu.Learner, np.ndarray, np.ndarray]:
    return perceptron("head", "stm32l476")


def int8_network(store: str | None = "64K") -> tuple[insitu.Learner, np.ndarray, np.ndarray]:
    graph, rng = network("mobilenet_v2"), np.random.default_rng(2)
    x = rng.normal(size=(140, *graph.inputs[0].shape[1:])).astype(np.float32)
    y = rng.integers(0, 4, len(x))
    x += y.reshape(-1, 1, 1, 1).astype(np.float32)
    made = insitu.compile(graph, classes=4, scheme="last:2", data=x, board="nrf52840", store=store, max_classes=5)
    return made, x.astype(np.float32), y


@pytest.mark.parametrize("make", [perceptron, head_in_flash, head_in_sram, int8_network])
def test_a_life_is_the_same_on_both(make):
    learner, x, y = make()
    count = {perceptron: 100, int8_network: 24}.get(make, 40)
    x = learner.samples(x, y).inputs[0]  # as the program takes them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = Both(learner)
    for i in range(count):
        both.observe(x[i], int(y[i]) if i % 3 else NONE)
        if i % 10 == 9:
            for id in both.learner.asks(2):
                both.label(id, int(y[id - 1]))
    both.observe(x[1], NONE)  # seen before
    both.check()
    both.rehearse(20, RATE)
    both.check()
    new = both.add_class("new")
    for i in range(count, count + 6):
        both.observe(-x[i], new)
    both.check()
    rows = both.device.state()["head.weight"]
    both.rehearse(15, RATE)
    both.check()
    same = (both.device.state()["head.weight"] == rows).all(1).tolist()
    alone = learner.parts.scheme.name == "head" or both.fewest_guards(new) < rules.FEWEST_GUARDS
    assert same == ([True] * new + [False] if alone else [False] * (new + 1))
    both.rehearse(20, 40.0)  # harmful, or not: both must agree
    both.rehearse(10, RATE)
    both.check()
    both.forget(new)
    both.rehearse(5, RATE)
    both.check()


@pytest.mark.parametrize("make", [perceptron, head_in_sram])
def test_a_new_class_takes_no_kept_sample_from_others_by_its_first_bout_on_both(make):
    learner, x, y = make()
    both = Both(learner)
    for i in range(60):
        both.observe(x[i], int(y[i]))
    both.rehearse(300, RATE)
    new = both.add_class("new")
    for i in range(60, 72):
        both.observe(x[i], new)  # like the others: without room for them, it would take some
    both.rehearse(60, 4 * RATE)
    both.check()
    assert not both.taken(new)


@pytest.mark.parametrize("scheme, board", [("last:1", "nrf51822"), ("head", "stm32l476")])
@pytest.mark.parametrize("cost", [0.05, 0.2])
def test_a_new_class_takes_the_share_that_it_may_cost_on_both(scheme, board, cost):
    learner, x, y = perceptron(scheme, board, cost=cost)
    both = Both(learner, cost=cost)
    for i in range(60):
        both.observe(x[i], int(y[i]))
    both.rehearse(300, RATE)
    new = both.add_class("new")
    for i in range(60, 72):
        both.observe(x[i], new)  # like the others
        both.check()
    assert room(both.life, new) > -1e-5
    both.life.cost = 0.0
    assert room(both.life, new) < -1e-3  # without a cost, it would leave more
    both.life.cost = cost
    for _ in range(2):
        both.rehearse(40, RATE)
        both.check()
        assert room(both.life, new) > -1e-5 and len(both.taken(new)) <= cost * 60


@pytest.mark.parametrize("make, old", [(perceptron, 24), (roomy, 90), (head_in_sram, 24), (head_in_sram, 90)])
def test_a_young_class_leaves_room_after_every_bout_on_both(make, old):
    """Few samples of the others: its row learns alone in later bouts, too. Enough of them: everything learns."""
    learner, x, _ = make()
    both = Both(learner)
    for i in range(old):
        both.observe(x[i], i % 4)
    both.rehearse(200, RATE)
    new = both.add_class("new")
    for i in range(old, old + 12):
        both.observe(x[i], new)  # like the others
    both.rehearse(40, RATE)
    for _ in range(2):
        before = both.device.state()
        assert not both.rehearse(40, RATE).rolled_back
        both.check()
        assert not both.taken(new)
        after = both.device.state()
        others = [(before[name] == after[name]).reshape(-1) for name in before if not name.startswith("head")]
        others += [(before[name] == after[name])[:new].reshape(-1) for name in ("head.weight", "head.bias")]
        assert np.concatenate(others).all() == (both.fewest_guards(new) < rules.FEWEST_GUARDS) == (old == 24)
        assert (before["head.weight"] != after["head.weight"])[new].any()


@pytest.mark.parametrize("make", [perceptron, head_in_flash, head_in_sram])
def test_a_row_that_learned_alone_stays_as_it_was_if_it_recognises_fewer_of_its_own_on_both(make):
    """With so few guards, nothing says that such a bout did harm."""
    learner, x, _ = make()
    both = Both(learner)
    for i in range(12):
        both.observe(x[i], i % 4)
    new = both.add_class("new")
    for i in range(8):
        both.observe(np.abs(x[12 + i]) + np.float32(2), new)
    rows = both.device.state()["head.weight"]
    told = both.rehearse(1, 1e6)
    both.check()
    assert "new stays as it was" in told.note and not told.rolled_back
    assert (both.device.state()["head.weight"] == rows).all() and both.life.record.young == new
    for rate in (RATE, 1e6, RATE):
        both.rehearse(20, rate)
        both.check()
    assert (both.device.state()["head.weight"] != rows).any()


def test_the_room_that_a_young_class_leaves_is_known_after_a_restart_on_both():
    learner, x, _ = perceptron()
    both = Both(learner)
    for i in range(24):
        both.observe(x[i], i % 4)
    both.rehearse(200, RATE)
    new = both.add_class("new")
    for i in range(24, 36):
        both.observe(x[i], new)  # like the others
    for _ in range(3):
        both.rehearse(40, RATE)
        both.device.restart()
        both.check()
    assert both.life.record.room < -0.1


@pytest.mark.parametrize("make, of_new", [(perceptron, True), (head_in_flash, False)])
def test_the_class_added_last_learns_alone_until_it_has_many_labels_or_others_have_news_on_both(make, of_new):
    learner, x, _ = make()
    both = Both(learner)
    both.forget(3)
    for i in range(24):
        both.observe(x[i], i % 3)
    for name, end in (("new", 40), ("newer", 52)):
        new = both.add_class(name)
        for i in range(end - 12, end):
            both.observe(x[i], new)
        both.rehearse(20, RATE)
        both.check()
        assert both.life.record.young == new
    rows = both.device.state()["head.weight"]
    both.rehearse(20, RATE)
    both.check()
    assert np.flatnonzero((both.device.state()["head.weight"] != rows).any(1)).tolist() == [new]
    for i in range(52, 52 + YOUTH - 12 if of_new else 53):
        both.observe(x[i] * np.float32(1.25), new if of_new else 0)
    both.rehearse(20, RATE)
    both.check()
    assert (both.device.state()["head.weight"] != rows).any(1).all()


@pytest.mark.parametrize("make", [head_in_flash, head_in_sram])
def test_a_class_stays_new_if_its_first_bout_is_rolled_back_on_both(make):
    learner, x, _ = make()
    both, far = Both(learner), x / np.float32(8) + np.float32(1)  # a class apart
    both.forget(0)
    for i in range(40):
        both.observe(x[i], 1)  # as an untrained head without the class 0 says: all guards are right
    new = both.add_class("new")
    for i in range(40, 80):
        both.observe(far[i], new)
    rows = both.device.state()["head.weight"]
    told = both.rehearse(1, 1e6, partial=True)  # one lesson leads the row far away from its other samples
    assert new == 0 and told.rolled_back, told
    both.check()
    both.observe(far[80], new)  # its row follows its mean again
    both.check()
    both.rehearse(10, RATE, partial=True)
    both.check()
    assert np.flatnonzero((both.device.state()["head.weight"] != rows).any(1)).tolist() == [new]


@pytest.mark.parametrize("scheme, board", [("head", "nrf51822"), ("head", "stm32l476"), ("last:1", "nrf51822")])
def test_a_full_store_keeps_the_same_typical_samples_on_both(scheme, board):
    learner, x, y = perceptron(scheme, board, "typical")
    both = Both(learner, "typical")
    x, y = np.concatenate([x, x[::-1] * np.float32(1.25)]), np.concatenate([y, y[::-1]])
    for i in range(both.board.capacity + 60):
        id = both.observe(x[i], int(y[i]) if i % 7 else NONE)
        if i % 14 == 0 and id in both.life.store.ledger.records:
            both.label(id, int(y[i]))
    both.check()
    random = rules.Ledger(both.board.capacity)
    for i in range(both.board.capacity + 60):
        random.observe(int(y[i]) if i % 7 else NONE)
        if i % 14 == 0 and i + 1 in random.records:
            random.label(i + 1, int(y[i]))
    same = set(random.records) == set(both.life.store.ledger.records)  # those that chance would have kept?
    assert same == (scheme != "head")
    both.rehearse(20, RATE)
    both.check()


@pytest.mark.parametrize("make", [head_in_flash, head_in_sram])
def test_a_row_that_was_trained_outside_of_a_bout_no_longer_follows_its_mean_on_both(make):
    """Steps as `fit` takes them: the next label of the class must not replace what they taught."""
    learner, x, y = make()
    both = Both(learner)
    for i in range(24):
        both.observe(x[i], int(y[i]))
    new = both.add_class("new")
    both.observe(-x[24], new)
    for device in (both.device, learner.device):  # nothing of the row changes: it follows its mean as before
        device.load_arrays(dict(device.state()))
    before = both.device.state()["head.weight"][new].copy()
    both.observe(-x[25], new)
    both.check()
    assert (both.device.state()["head.weight"][new] != before).any()
    trained = both.trained(-x[26:30], new)
    both.observe(-x[30], new)
    both.label(both.observe(-x[31]), new)
    both.check()
    assert (both.device.state()["head.weight"][new] == trained).all()
    both.rehearse(10, RATE)  # it is no newcomer any more: all rows learn
    both.check()
    assert (both.device.state()["head.weight"] != trained).any(1).all()


def test_a_row_that_was_trained_outside_of_a_bout_stays_so_after_a_checkpoint_and_a_cut():
    learner, x, y = head_in_flash()
    both = Both(learner)
    for i in range(24):
        both.observe(x[i], int(y[i]))
    new = both.add_class("new")
    both.observe(-x[24], new)
    trained = both.trained(-x[26:30], new)
    both.board.checkpoint()
    both.device.restart()
    both.observe(-x[30], new)
    both.check()
    assert (both.device.state()["head.weight"][new] == trained).all()


def test_learning_from_latents_takes_less_than_half_of_a_step():
    label, rate, taken = np.zeros(1, np.int32), np.float32(RATE), {}
    for store in (None, "64K"):
        made, samples, _ = int8_network(store)
        assert made.deployed is not None and made.deployed.firmware is not None
        x = made.samples(samples[:1], np.zeros(1, np.int64)).inputs[0]
        device = emulate(made.deployed.firmware)
        if store is None:
            taken["step"] = sum(device.measure("train_step", x, label, rate)[1].values())
        else:
            taken["learn"] = sum(device.measure("learn", *device.run("encode", x), label, rate)[1].values())
    assert taken["learn"] < taken["step"] / 2, taken


def test_both_say_the_same_of_the_rules():
    assert COLLECT == drift.COLLECT and NONE == rules.NONE
