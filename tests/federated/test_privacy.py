"""Differential privacy: the bound holds, the noise has its size, and the epsilon is that of Flower's accountant."""

import numpy as np
import pytest

from insitu.errors import DataError
from insitu.federated.delta import base_hash, read_delta, read_head
from insitu.federated.handout import base_of
from insitu.federated.member import Member, Task
from insitu.federated.privacy import Noise, private
from insitu.federated.rounds import Fleet
from tests.federated.fleet import fresh, members, samples


def change(scale: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"a": rng.normal(0, scale, (50, 40)).astype(np.float32), "b": rng.normal(0, scale, 30).astype(np.float32)}


def total(arrays) -> float:
    return float(np.sqrt(sum(np.square(a).sum() for a in arrays.values())))


@pytest.mark.parametrize("scale", [1e-4, 1.0])
def test_a_change_is_within_the_clip_before_the_noise(scale):
    quiet = private(change(scale), Noise(1e-9, 0.5), np.random.default_rng(1))
    assert total(quiet) <= 0.5 * (1 + 1e-5)
    if scale < 0.01:  # a small change stays as it is
        np.testing.assert_allclose(quiet["a"], change(scale)["a"], atol=1e-8)


def test_the_noise_has_the_size_that_the_epsilon_is_counted_for():
    noise = Noise(2.0, 0.5)
    added = private({"a": np.zeros((400, 500), np.float32)}, noise, np.random.default_rng(2))["a"]
    assert abs(added.std() - 1.0) < 0.01 and abs(added.mean()) < 0.01
    first, second = (private(change(1.0), noise)["a"] for _ in range(2))
    assert np.abs(first - second).max() > 0.1  # never the same twice


def test_the_epsilon_is_the_best_over_all_orders_of_renyi_divergence():
    noise, rounds = Noise(1.3, 1.0), 20
    orders = 1 + np.exp(np.linspace(-3, 6, 20_000))
    known = (rounds * orders / (2 * noise.multiplier**2) + np.log(1 / noise.delta) / (orders - 1)).min()
    assert abs(noise.epsilon(rounds) - known) < 1e-4 * known
    assert noise.epsilon(1) < noise.epsilon(2) and Noise(4.0, 1.0).epsilon(5) < Noise(1.0, 1.0).epsilon(5)


def test_a_device_with_noise_of_its_own_does_not_tell_how_many_samples_it_has():
    (x, y), noise = members(1)[0], Noise(1.0, 0.1)
    fleet = Fleet([Member(fresh(), x, y, noise=noise)])
    packed = base_of(fleet.arrays, fleet.catalogue).packed
    answers = [fleet.members[0].train(packed, fleet.catalogue, Task(rate=0.02, seed=k)) for k in range(2)]
    assert [read_head(a.delta).samples for a in answers] == [1, 1] and answers[0].delta != answers[1].delta


def test_noise_that_protects_nothing_is_refused():
    for bad in ({"multiplier": 0.0}, {"clip": 0.0}, {"kind": "none"}, {"delta": 0.0}):
        with pytest.raises(DataError, match="no such noise"):
            Noise(**{"multiplier": 1.0, "clip": 1.0, **bad})


def test_a_plain_change_tells_the_label_of_a_single_sample_and_noise_hides_it():
    """Why docs/federated.md says that a server which sees single changes can learn about samples."""
    x, y = samples(20, 3)
    fleet = Fleet([Member(fresh(), x, y)])
    packed = fleet.handout.next(fleet.arrays).packed

    def guessed(noise: Noise | None) -> int:
        right = 0
        for k in range(len(y)):
            member = Member(fresh(), x[k : k + 1], y[k : k + 1], noise=noise)
            delta = member.train(packed, fleet.catalogue, Task(1, 0.02)).delta
            change, _ = read_delta(delta, member.units, base_hash(packed))
            right += int(change["head.bias"].argmax() == y[k])
        return right

    assert guessed(None) == 20 and guessed(Noise(1.0, 0.1)) < 15


@pytest.mark.parametrize("kind", ["local", "central"])
def test_the_report_says_the_epsilon_that_all_rounds_are_worth(kind):
    pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')
    from insitu.federated.app import run_rounds
    from insitu.federated.named import strategy_of
    from insitu.federated.outcome import outcome_of
    from insitu.federated.privacy import own_noise
    from insitu.federated.strategy import Deltas
    from insitu.reports.fleet import fleet_page
    from insitu.reports.fleet_text import told
    from tests.federated.test_rounds import SETTINGS, Here, apps

    noise = Noise(2.0, 0.1, kind)
    made = Deltas(strategy_of("fedavg", 4, noise=noise), [fresh()], noise=noise)
    run_rounds(made, Here(apps(noise=own_noise(noise))), 3, SETTINGS, None, 60)
    about, words = outcome_of(made), f"epsilon {noise.epsilon(3):.2f}"
    assert not made.dropped and about["privacy"]["epsilon"] == noise.epsilon(3) and about["privacy"]["kind"] == kind
    assert words in told(about) and words in fleet_page(about)


def test_noise_that_the_server_adds_is_not_added_by_devices_as_well(tmp_path):
    pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')
    from insitu.federated.deployed import member_of

    fresh().save(tmp_path / "g.insitu")
    x, y = members(1)[0]
    np.savez(tmp_path / "mine.npz", x=x, y=y)
    given = {"learner": str(tmp_path / "g.insitu"), "data": str(tmp_path / "mine.npz"), "noise": 1.0, "clip": 0.5}
    assert member_of({**given, "private": "central"}).noise is None
    assert member_of({**given, "private": "local", "epsilon": 3.0}).budget == 3.0
