"""What is kept of a class stays typical of it, where only the head is trained."""

from __future__ import annotations

import numpy as np

import insitu
from insitu.store.rules import COMPARED, Ledger
from insitu.store.typical import least_missed
from tests.learners import imported
from tests.store.lives import CLASSES, samples


def learner() -> insitu.Learner:
    return insitu.compile(imported(), classes=CLASSES, scheme="head", precision="float")


def test_the_one_that_is_missed_least_leaves_the_nearest_mean():
    rng = np.random.default_rng(0)
    for count in (2, 3, 17):
        rows, mean = rng.normal(size=(count, 5)).astype(np.float32), rng.normal(size=5).astype(np.float32)
        apart = [np.square(np.delete(rows, i, 0).mean(0, dtype=np.float64) - mean).sum() for i in range(count)]
        assert least_missed(rows, mean) == int(np.argmin(apart))
    assert least_missed(np.ones((3, 2), np.float32), np.zeros(2, np.float32)) == 0  # of equals, the first


def apart(rule: str) -> float:
    """How far the mean of what a life keeps of its classes is from the mean of all that it saw."""
    x, y = samples(imported(), 400)
    with learner() as one:
        life = one.keep(count=40, rule=rule)
        one.observe(x, y)
        found = []
        for k, ids in life.store.ledger.trainees.ids.items():
            latents = [latent for latent in life.store.fetch(ids) if latent is not None]
            found.append(np.square(life.mind.recall(latents)[1].mean(0) - life.store.means.means[k]).sum())
    return float(np.mean(found))


def test_the_mean_of_what_is_kept_stays_near_that_of_all_samples():
    assert apart("typical") < apart("balanced") / 10 and apart("typical") < apart("oldest") / 10


def test_one_call_or_many_keep_the_same():
    x, y = samples(imported(), 120)
    kept = []
    for size in (120, 7, 1):
        with learner() as one:
            life = one.keep(count=30)
            for i in range(0, len(x), size):
                one.observe(x[i : i + size], y[i : i + size])
            kept.append(life.store.ledger.records)
    assert kept[0] == kept[1] == kept[2]


def test_large_classes_samples_without_a_label_and_guards_are_left_to_chance():
    asked: list[tuple[int, int]] = []

    def spare(label: int, among: list[int]) -> int:
        asked.append((label, len(among)))
        return among[0]

    ledger = Ledger(200, "typical", spare=spare)
    for _ in range(200):
        ledger.observe(0)  # more than are compared
        ledger.observe()
    assert not asked
    for i in range(400):
        ledger.observe(1 + i % 3)
    assert asked and {label for label, _ in asked} <= {0, 1, 2, 3} and max(n for _, n in asked) <= COMPARED
    other = Ledger(100, "balanced", spare=lambda label, among: 1 // 0)
    for i in range(200):
        other.observe(i % 3)
