"""Liars who claim a million samples: none counts for more than a few usual devices, under any strategy."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.federated.catalogue import catalogue_of
from insitu.federated.checks import Limits, Reply, norm, weights
from insitu.federated.delta import read_delta, write_delta
from insitu.federated.gateway import Board, Gateway, from_samples
from insitu.federated.member import Member, Task
from insitu.federated.rounds import Fleet, averaged, middle
from insitu.federated.units import units_of
from tests.federated.fleet import fresh, members
from tests.federated.test_gateway import on_a_line

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian, FedTrimmedAvg, Krum

from insitu.federated.app import client_app, run_rounds
from insitu.federated.outcome import outcome_of
from insitu.federated.scored import WEIGHT
from insitu.federated.strategy import DELTA, RECORD, Deltas
from insitu.reports.fleet import fleet_page
from insitu.reports.fleet_text import told
from tests.federated.test_rounds import SETTINGS, Here, apps, everyone

COUNT, MILLION = 7, 1_000_000
SAMPLES = [24 + 4 * k for k in range(COUNT)]  # of tests.federated.fleet.members
STRATEGIES = {"FedAvg": (FedAvg, {}), "FedAdam": (FedAdam, {"eta": 0.01}), "FedMedian": (FedMedian, {}),
              "FedTrimmedAvg": (FedTrimmedAvg, {"beta": 0.3}), "Krum": (Krum, {"num_malicious_nodes": 2})}  # fmt: skip


class Lying:
    """Some devices send noise, twice as long as their honest change, and claim this many samples."""

    def __init__(self, liars: int, claim: int):
        self.liars, self.claim, self.noise = range(COUNT - liars, COUNT), claim, {}

    def __call__(self, message, node, reply):
        if message.metadata.message_type == "train" and node in self.liars:
            units, base = units_of(fresh().graphs), reply.content[RECORD][DELTA][12:20]
            honest, _ = read_delta(reply.content[RECORD][DELTA], units, base)
            rng = np.random.default_rng(0)  # all liars push the same way
            noise = {n: rng.normal(0, 1, a.shape).astype(np.float32) for n, a in honest.items()}
            self.noise = {n: a * np.float32(2 * norm(honest) / norm(noise)) for n, a in noise.items()}
            reply.content[RECORD][DELTA] = write_delta(self.noise, units, base, self.claim)
        return reply


def after_one_round(name: str, liars: int, claim: int, limits: Limits | None = None) -> tuple[Deltas, float]:
    """The server after a round, and the share of the liars' noise in what the model moved by."""
    kind, options = STRATEGIES[name]
    made, lying = Deltas(everyone(kind, COUNT, **options), [fresh()], limits=limits or Limits()), Lying(liars, claim)
    first = {n: a.copy() for n, a in made.first.items()}
    run_rounds(made, Here(apps(COUNT), lying), 1, SETTINGS, None, 60)
    assert not made.dropped  # they lie within the limits of a single reply
    dot = sum(float(((made.first[n] - first[n]) * a).sum()) for n, a in lying.noise.items())
    return made, dot / norm(lying.noise) ** 2


@pytest.mark.parametrize("liars", [1, 2])
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_million_samples_count_for_no_more_than_three_usual_devices(name, liars):
    most = 3 * sorted([*SAMPLES[: COUNT - liars], *[MILLION] * liars])[(COUNT - 1) // 2]
    (found, share), (wanted, _) = (after_one_round(name, liars, claim) for claim in (MILLION, most))
    assert all(np.array_equal(found.first[n], a) for n, a in wanted.first.items())
    honest = sum(SAMPLES[: COUNT - liars])
    bound = {"FedAvg": liars * most / (liars * most + honest) + 0.05, "FedAdam": np.inf}
    assert abs(share) < bound.get(name, 0.12), share


def test_without_the_bound_one_liar_takes_the_model_over():
    assert after_one_round("FedAvg", 1, MILLION, Limits(weight=1e9))[1] > 0.95
    assert after_one_round("FedAvg", 1, MILLION)[1] < 0.45


def test_the_report_says_who_counts_for_less_than_claimed():
    found = outcome_of(after_one_round("FedAvg", 1, MILLION)[0])
    assert f"device {COUNT - 1} says 1,000,000 samples, counts for 108" in told(found)
    assert "1,000,000 (as 108)" in fleet_page(found) and "counts for fewer" in fleet_page(found)
    assert "counts for" not in told(outcome_of(after_one_round("FedAvg", 1, 30)[0]))


def test_a_liar_does_not_decide_what_is_said_about_the_model():
    def boast(message, node, reply):
        if message.metadata.message_type == "evaluate" and node == 0:
            record = next(iter(reply.content.metric_records.values()))
            record["accuracy"], record[WEIGHT] = 1.0, MILLION
        return reply

    made = Deltas(everyone(FedAvg, COUNT), [fresh()])
    run_rounds(made, Here(apps(COUNT), boast), 1, SETTINGS, None, 60)
    scores = dict(made.scored[1])
    assert scores.pop(0) == 1.0 and made.scores["accuracy"] < 0.5 * (1 + max(scores.values()))  # type: ignore


def test_weights_are_bounded_by_the_median_and_honest_ones_stay():
    limits = Limits()
    assert weights([], limits) == [] and weights([9], limits) == [9] and weights([1, 2, 3], limits) == [1, 2, 3]
    assert weights([10, 10, 10, MILLION], limits) == [10, 10, 10, 30]
    assert weights([10, 20, MILLION, MILLION], limits) == [10, 20, 60, 60]  # half of them lie
    assert weights([1, 1, 50], limits) == [1, 1, 3] and weights([1, 50], Limits(weight=float("inf"))) == [1, 50]


def test_a_board_cannot_outweigh_the_others_of_its_gateway():
    def boasting(device, task):
        return MILLION, from_samples(fresh(), *members(3)[2])(device, task)[1]

    honest = [Board(str(k), on_a_line, from_samples(fresh(), *members(3)[k])) for k in range(2)]
    made = Gateway(fresh(), [*honest, Board("2", on_a_line, boasting)])
    fleet = Fleet([made])
    lesson = made.learn(fleet.handout.next(fleet.arrays).packed, fleet.catalogue, Task(1, 0.02))
    assert lesson.samples == 24 + 28 + 3 * 28
    made.close()


def test_a_liar_is_outvoted_in_layers_that_only_some_devices_train():
    """Three devices train everything, one of which lies; four train the head. What these four do not train must not be
    filled with a mean that the liar moved, or four copies of it would outvote the honest two."""
    units, head = units_of(fresh().graphs), units_of(fresh("head").graphs)
    catalogue = catalogue_of([units, head])
    base = {n: np.zeros(s, np.float32) for n, s in catalogue.shapes.items()}
    sent = [({u.name: np.full(u.value.shape, v, np.float32) for u in units}, units) for v in (1.0, 1.5, 100.0)]
    sent += [({u.name: np.full(u.value.shape, 1.0, np.float32) for u in head}, head)] * 4
    replies = [Reply(change, program, 10) for change, program in sent]
    body = next(n for n in base if not n.startswith("head."))
    assert np.all(middle(base, replies, catalogue)[body] == 1.5)
    assert np.all(averaged(base, replies, catalogue)[body] > 30)


@pytest.mark.parametrize("name", ["FedMedian", "FedTrimmedAvg", "Krum"])
def test_strategies_that_expect_liars_do_so_with_unlike_schemes(name):
    """What comes out for layers that three devices train is between what the honest two of them sent."""
    programs = [fresh(), fresh("head")]
    shared = catalogue_of(units_of(each.graphs) for each in programs)
    made = [client_app(lambda _, k=k, d=d: Member(fresh("full" if k >= 4 else "head"), *d), shared)
            for k, d in enumerate(members(COUNT))]  # fmt: skip
    lying, honest = Lying(1, MILLION), []

    def spoil(message, node, reply):
        if message.metadata.message_type == "train" and node in (4, 5):
            data = reply.content[RECORD][DELTA]
            honest.append(read_delta(data, units_of(programs[0].graphs), data[12:20])[0])
        return lying(message, node, reply)

    kind, options = STRATEGIES[name]
    server = Deltas(everyone(kind, COUNT, **options), programs)
    first = {n: a.copy() for n, a in server.first.items()}
    run_rounds(server, Here(made, spoil), 1, SETTINGS, None, 60)
    assert [t.replies for t in server.traffic] == [COUNT]
    for layer in (n for n in first if not n.startswith("head.")):
        low, high = np.minimum(*(c[layer] for c in honest)), np.maximum(*(c[layer] for c in honest))
        moved, slack = server.first[layer] - first[layer], 1e-3 * np.abs(first[layer]).max()
        assert (moved > low - slack).all() and (moved < high + slack).all()
