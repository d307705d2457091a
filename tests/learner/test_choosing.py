"""The rules by which fit chooses: what is held out, what counts as better, which rates and layers are tried."""

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from sklearn.metrics import log_loss
from torch import nn

import insitu
from insitu.codegen.state import ADDED, HEADER_BYTES, StateLayout
from insitu.errors import DataError
from insitu.learner.between import between
from insitu.learner.choice import Way, choose, climb, directions, enough, nearest
from insitu.learner.course import Course
from insitu.learner.feed import Feed, plain
from insitu.learner.held_out import Score, clearly, folds, helps, known, odd, score, with_copies
from insitu.learner.rates import Probe, Rates, real, trained_values
from insitu.learner.settle import usual_epochs
from insitu.learner.trials import PARTS, SHARE, WORK, Trials, Tried, trial_samples

from ..learners import data, learner, state_of


def test_every_class_is_on_both_sides_and_every_sample_is_held_out_once():
    y = np.repeat(np.arange(5), [3, 4, 5, 6, 7])
    parts = folds(y, 0)
    assert sorted(np.concatenate([p.held for p in parts])) == list(range(25))
    assert all(set(y[p.learn]) == set(range(5)) for p in parts)
    assert folds(np.arange(10), 0) == []  # one sample of each: none can be spared


def test_of_many_samples_at_most_a_thousand_are_held_out():
    (only,) = folds(np.arange(20000) % 7, 0)
    assert 900 <= len(only.held) <= 1007 and not set(only.held) & set(only.learn)


def test_samples_of_a_class_that_follow_each_other_are_held_out_together():
    y = np.tile([0, 1], 30)
    for part in folds(y, 0):
        own = np.flatnonzero(np.isin(np.flatnonzero(y == 0), part.held))
        assert len(own) == 6 and np.ptp(own) == 5
    (only,) = folds(np.tile([0, 1], 300), 0)
    assert np.ptp(only.held[only.held % 2 == 0]) == 2 * 59


def test_copies_of_a_sample_are_held_out_together():
    own, y = np.arange(40, dtype=np.float32).reshape(40, 1, 1), np.arange(40) % 4
    chosen = np.random.default_rng(0).permutation(np.repeat(np.arange(40), 5))
    parts = with_copies(folds, y[chosen], 0, (own[chosen],))
    assert sorted(np.concatenate([p.held for p in parts])) == list(range(200))
    assert not any(set(chosen[p.held]) & set(chosen[p.learn]) for p in parts)
    assert all(len(p.held) == 40 for p in parts)


def test_without_copies_samples_are_divided_as_ever():
    y = np.arange(60) % 3
    for ours, usual in zip(with_copies(folds, y, 0, (np.arange(60.0)[:, None],)), folds(y, 0), strict=True):
        assert (ours.held == usual.held).all() and (ours.learn == usual.learn).all()


def test_copies_with_wrong_labels_do_not_pass_for_a_gain():
    x, y = data(400)
    made = learner()
    made.fit(x[:200], y[:200])
    before = made.evaluate(x[200:], y[200:])["accuracy"]
    wrong = np.where(np.arange(60) % 5 == 0, (y[200:260] + 1) % 4, y[200:260])
    order = np.random.default_rng(0).permutation(300)
    made.fit(np.tile(x[200:260], (5, 1))[order], np.tile(wrong, 5)[order])
    assert made.evaluate(x[260:], y[260:])["accuracy"] > before - 0.05


def test_held_out_targets_are_drawn_at_random_for_they_may_be_sorted():
    targets = np.linspace(0, 1, 60, dtype=np.float32)[:, None]
    assert all(np.ptp(targets[part.held]) > 0.7 for part in folds(targets, 0))


def test_better_by_more_than_chance_is_the_paired_t_of_scipy():
    rng = np.random.default_rng(0)
    hard = rng.exponential(size=40)  # samples differ much more than the two results
    one, two = (Score(0, 0, 40, each=hard + 0.1 * rng.normal(size=40) + by) for by in (0.0, 0.05))
    t = stats.ttest_rel(two.each, one.each).statistic
    assert t > 0 and clearly(one, two, t - 0.01) and not clearly(one, two, t + 0.01)
    assert not clearly(one, Score(0, 0, 40, each=rng.permutation(two.each)), 1.0)  # not paired: lost among the samples
    lost = Score(np.inf, 0, 40, each=np.full(40, np.inf))
    assert clearly(one, lost, 3) and not clearly(lost, one, 0)


def test_the_cost_of_an_answer_does_not_depend_on_how_sure_the_network_is():
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(200, 4)), rng.integers(0, 4, 200)
    z[np.arange(200), y] += 1
    one, sure = score("cross_entropy", z, y), score("cross_entropy", 1.5**5 * z, y)
    assert sure.cost == pytest.approx(one.cost) and sure.loss > 1.5 * one.loss
    best = optimize.minimize_scalar(lambda t: log_loss(y, torch.tensor(z / t).softmax(1).numpy()), bounds=(0.1, 10))
    assert one.cost - (1 - one.measure) == pytest.approx(best.fun, rel=0.01)


def test_odd_targets_are_few_and_far_from_all_others():
    y = np.random.default_rng(0).normal(5, 2, (100, 2))
    assert not odd(y).any() and not odd(np.exp(y / 2)).any()  # normal, and skewed
    y[3, 0] = 60
    assert np.argwhere(odd(y)).tolist() == [[3, 0]]
    outputs = np.tile(y.mean(0), (100, 1))
    assert score("mse", outputs, y).each[3] == pytest.approx((outputs[3, 1] - y[3, 1]) ** 2 / y[:, 1].var() / 2)
    y[:6, 0] = 60  # more than one in twenty: another kind, not a mistake
    rare = np.where(np.arange(100) < 4, 9.0, 0.0)[:, None]  # mostly nothing happens
    assert not odd(y).any() and not odd(rare).any()


def test_the_long_tail_of_good_targets_is_not_odd_but_what_lies_beyond_a_gap_is():
    a, b = np.random.default_rng(1).normal(size=(2, 400))
    y = (20 * a * b)[:, None]  # many are near 0, some far away
    assert np.abs(y).max() > 10 * np.subtract(*np.quantile(y, (0.75, 0.25))) / 1.349 and not odd(y).any()
    y[7] = 2000
    assert np.flatnonzero(odd(y)).tolist() == [7]


def test_a_climb_goes_up_as_long_as_it_gets_better_else_down():
    def place_of(costs, guessed=2.0, both=False):
        scores = {k: Score(cost, 0.5, 10, each=np.full(10, cost)) for k, cost in costs.items()}
        known = Score(guessed, 0.5, 10, each=np.full(10, guessed))
        return climb(lambda place: scores[place[0]], (0, 0), Way((1, 0), 2, both), known)[0]

    assert place_of({0: 1.0, 1: 1.0, 2: 1.1, -1: 1.2}) == 0
    assert place_of({0: 1.0, 1: 1.0, 2: 0.9}) == 2  # one step that is no better may be chance
    assert place_of({0: 1.0, 1: 0.9, 2: 0.8}) == 2
    assert place_of({0: 1.0, 1: 1.1, -1: 0.9, -2: 1.1}) == -1
    assert place_of({0: 1.0, 1: 1.01, 2: 0.5}, guessed=1.0) == 2  # nothing was learned yet: it goes on
    assert place_of({0: 1.0, 1: 0.99, 2: 1.1, -1: 0.7, -2: 0.8}) == 1
    assert place_of({0: 1.0, 1: 0.99, 2: 1.1, -1: 0.7, -2: 0.8}, both=True) == -1  # a head's: a little is not all
    assert directions(False, True, False) == [Way((1, 0), 3, both=True)]
    assert directions(True, False, False) == directions(True, False, True) == [Way((0, 1))]  # the head's rate stays


def test_rates_of_a_head_far_from_the_derived_one_need_clear_evidence_if_there_is_something_to_lose():
    rng = np.random.default_rng(2)
    hard = rng.exponential(size=50)
    cost = {0: 0.3, 1: 0.25, 2: 0.0}  # of the derived rates, and of higher ones
    scored = {(k, k): Score(0, 0, 50, each=hard + by + 0.2 * rng.normal(size=50)) for k, by in cost.items()}
    assert nearest(scored, 0.0) == nearest(scored, 2.0) == (2, 2) and nearest(scored, 20.0) == (0, 0)
    guessed = Score(1.4, 0.25, 50)
    assert known(guessed, guessed) == 0 and known(Score(0, 1.0, 50), guessed) == 1
    assert known(Score(0.25, 0.25, 50, False), Score(1.0, 1.0, 50, False)) == 0.5  # half of the error


class Stand:
    """Trials whose results are known: the cost of the head alone, and of each place for all layers."""

    affordable = True
    doubtful = False
    epochs = 20

    def __init__(self, alone: float, costs: dict, shares=(0.0, 0.0), right: float = 0.5, learned: dict | float = 0.0):
        self.alone, self.costs, self.shares, self.asked, self.right = alone, costs, shares, [], right
        self.learned = learned  # the loss of the samples learned from, in all trials or by place
        self.both, self.probe, self.report = True, self, lambda *_: None
        self.parameters = ()

    def quick(self):
        return self

    def before(self) -> Score:
        return result(1.0, 0.95)

    def run(self, rates: Rates, rival=None) -> Tried:
        place = round(np.log(rates.body) / np.log(3)) if rates.body else None
        self.asked.append(place)
        assert place is not None or rival is None  # what is safe is tried to the end
        cost = self.alone if place is None else self.costs[place]
        right = self.right if place is None else 0.5  # of the head alone
        parts = {part: result(cost + more, right) for part, more in zip(PARTS, (*self.shares, 0.0))}
        learned = self.learned.get(place, 0.0) if isinstance(self.learned, dict) else self.learned
        return Tried(parts, learned=learned, epochs=self.epochs)


NOISE = np.random.default_rng(4).normal(size=(50,))


def result(cost: float, right: float = 0.5) -> Score:
    """A result whose cost differs from that of others by 0.01 to 0.02 at a standard error of 0.01 or less."""
    return Score(cost, right, 50, each=cost + 0.07 * cost * NOISE)


def chosen(stand: Stand, right: float):
    """What is chosen for a network with so many right answers of two classes."""
    return choose(stand, Rates(1.0, 1.0), result(1.0, right), Score(2.0, 0.5, 50), False)  # type: ignore[arg-type]


@pytest.mark.parametrize("right", [0.5, 0.95])
def test_layers_that_learn_no_better_than_the_head_alone_are_left_out(right):
    costs = {k: 0.5 + 0.1 * abs(k) for k in range(-12, 13)}
    assert chosen(Stand(0.4, costs), right).rates.body == 0
    assert chosen(Stand(0.5, costs), right).rates.body == 0  # not better: what is safe
    assert chosen(Stand(0.6, costs), right).rates.body == 1


def test_a_network_that_knows_its_task_is_taught_faster_only_if_its_samples_are_not_learned():
    faster = {k: 4 / (k + 20) for k in range(-12, 13)}
    assert (chosen(Stand(2.0, faster), 0.6).rates.body or 0) > 3
    stand = Stand(2.0, faster, learned=0.04)
    assert chosen(stand, 0.95).rates.body == 1 and stand.asked == [None, None, 0]  # the head alone harms: a third, too
    stand = Stand(2.0, faster, learned={0: 0.3, 1: 0.06, 2: 0.04})
    assert chosen(stand, 0.95).rates == Rates(1.0, 9.0) and stand.asked == [None, None, 0, 1, 2]  # of the body alone
    stand = Stand(2.0, faster, learned=0.06)
    assert chosen(stand, 0.95).rates == Rates(1.0, 243.0) and stand.asked == [None, None, *range(6)]
    stand = Stand(2.0, {0: 0.3, 1: 0.4, 2: 0.1}, learned=0.06)
    assert chosen(stand, 0.95).rates.body == 1 and stand.asked == [None, None, 0, 1]  # and only if that is better
    harmful = Stand(2.0, {0: 1.5, -1: 0.3})
    assert chosen(harmful, 0.95).rates == Rates(1 / 3, 1 / 3)


def test_the_lowest_cost_wins_if_little_is_known():
    """Rates nearer to the derived ones won unless they were clearly worse; the best is far above, mostly."""
    little = {k: 0.5 if k == 2 else 0.501 + 0.001 * abs(k - 2) for k in range(-12, 13)}
    stand = Stand(0.9, little)
    assert chosen(stand, 0.6).rates == Rates(1.0, 9.0) and stand.asked == [None, None, None, 0, 1, 2, 3]


def test_a_rate_at_which_a_network_breaks_never_wins_by_chance():
    """Its own samples tell: at lower rates they were learned, and at this one they are not."""
    luck, learned = {0: 0.5, 1: 0.45, 2: 0.4, 3: 0.1, 4: 0.9}, {0: 0.2, 1: 0.1, 2: 0.01, 3: 0.07}
    assert chosen(Stand(2.0, luck, learned=learned), 0.5).rates == Rates(1.0, 9.0)
    assert chosen(Stand(2.0, luck, learned={**learned, 3: 0.06}), 0.5).rates == Rates(1.0, 27.0)  # nearly learned
    short = Stand(2.0, luck, learned=learned)
    short.epochs = 3  # losses on the way are high, the result may be good
    assert chosen(short, 0.5).rates == Rates(1.0, 27.0)
    breaking = {0: 0.5, 1: 0.3} | dict.fromkeys((-1, -2), 0.6)
    assert chosen(Stand(2.0, breaking, learned={0: 0.01, 1: 2.0, -1: 0.1, -2: 0.3}), 0.5).rates == Rates(1.0, 1.0)


def test_where_few_samples_tell_rates_near_the_derived_ones_win():
    costs = {k: (1, 0.9, 0.897, 0.894, 0.891, 0.9)[k] for k in range(6)}
    stand = Noisy(2.0, costs)
    assert (chosen(stand, 0.5).rates.body or 0) > 9
    stand = Noisy(2.0, costs)
    stand.doubtful = True
    assert chosen(stand, 0.5).rates == Rates(1.0, 3.0)  # clearly better than the derived one, and the others are not


class Heads(Stand):
    """Trials in which the rate of the head matters, too: a third of the derived one is better."""

    def run(self, rates: Rates, rival=None) -> Tried:
        tried = super().run(rates, rival)
        return tried if rates.head > 0.5 or rates.body else Tried({part: result(0.2) for part in PARTS})


def test_a_head_that_learns_alone_gets_the_rate_of_a_program_of_its_own():
    costs = dict.fromkeys(range(-12, 13), 0.5)
    assert chosen(Stand(0.4, costs), 0.5).rates == Rates(1.0, 0.0)
    assert chosen(Heads(0.4, costs), 0.5).rates == Rates(1 / 3, 0.0)
    better = dict.fromkeys(range(-12, 13), 0.3)  # than the head at its derived rate, but not than at a third of it
    assert chosen(Heads(0.4, better), 0.5).rates == Rates(1 / 3, 0.0)


class Noisy(Stand):
    """Trials whose samples vary in every trial anew, by 0.07 around the same cost."""

    def run(self, rates: Rates, rival=None) -> Tried:
        end = super().run(rates, rival).end
        noise = np.random.default_rng(len(self.asked)).normal(size=50)
        each = end.loss + 0.07 * (noise - noise.mean()) / noise.std()
        return Tried({part: Score(end.loss, end.measure, 50, each=each) for part in PARTS})


def test_what_a_head_reaches_alone_counts_if_the_network_knows_its_task():
    """There, other layers need evidence; a network that knows little gains more by them than it can lose."""
    little = dict.fromkeys(range(-12, 13), 0.499)  # better by less than a tenth of a standard error
    assert chosen(Noisy(0.5, little, right=0.95), 0.5).rates.body
    assert chosen(Noisy(0.5, little, right=0.95), 0.95).rates.body == 0
    assert chosen(Noisy(0.5, dict.fromkeys(range(-12, 13), 0.3), right=0.95), 0.95).rates.body == 1  # clearly better


def test_a_hopeless_trial_is_given_up_after_its_first_fold():
    made, (x, y) = learner("full"), data(90)
    made.fit(x, y, rate=0.1, epochs=20)
    probe = Probe(made.device, trained_values(made.graphs), "cross_entropy")
    course = Course(3, 0.0, 1, "cosine", 0.0, 0)
    feed = Feed(made.device, plain((x,)), y.astype(np.int32))
    trials = Trials(feed, folds(y, 0), course, made.recipe, probe, made.device.state(), lambda *_: None, samples=10**6)
    good = trials.run(Rates(0.001, 0.001))
    assert len(good.outputs) == 5 and good.parts.keys() == set(PARTS)
    ruin, whole = trials.run(Rates(3.0, 3.0), good), trials.run(Rates(3.0, 3.0))
    assert not ruin.outputs and not np.isfinite(ruin.end.cost) and len(whole.outputs) == 5
    assert good.end.cost < whole.end.cost < np.inf
    assert np.isfinite(trials.run(Rates(0.001, 0.001), good).end.cost)  # no worse: it goes on


def test_a_head_whose_rate_is_given_keeps_it_when_training_does_not_help():
    rates, before, guessed = Rates(1.0, 1.0), result(1.0, 0.95), Score(2.0, 0.5, 50)
    assert choose(Stand(2.0, {0: 1.5, -1: 0.3}), rates, before, guessed, True).rates == Rates(1.0, 1 / 3)  # type: ignore[arg-type]


def test_only_as_much_of_a_training_counts_as_is_clearly_better():
    assert chosen(Stand(2.0, {0: 0.5}, (0.2, -0.2)), 0.95).part == 0.75
    rng = np.random.default_rng(5)
    hard, cost = rng.exponential(size=60), (0.5, 0.28, 0.0)
    parts = {part: Score(0, 0, 60, each=hard + by + rng.normal(size=60)) for part, by in zip(PARTS, cost)}
    assert enough(parts, 0.0) == 1.0 and enough(parts, 1e6) == 0.5
    assert not chosen(Stand(2.0, {0: 1.5, -1: 1.5}), 0.95).helps


@pytest.mark.parametrize("options", [{}, {"precision": "int8", "data": data(40)[0]}])
def test_half_way_is_half_of_every_step_in_real_units(options):
    made = learner("full", **options)
    first = made.device.state()
    made.fit(*data(60), rate=0.05, epochs=3)
    last, values = made.device.state(), trained_values(made.graphs)
    half = between(first, last, 0.5, values)
    assert half.keys() == last.keys() and all(half[n].dtype == last[n].dtype for n in half)
    for v in values:
        unit = 1 if v.type.quant is None else v.type.quant.scales(v.type.rank)
        now, was, end = (real(state, v) for state in (half, first, last))
        step = {"f32": 0, "s8": 1 / 256, "s32": 0.5}[v.dtype]  # what the state can hold
        assert (np.abs(now - (was + end) / 2) <= 1e-6 + step * unit).all()


def test_a_single_sample_of_each_class_teaches_the_head_alone():
    x, y = data(200)
    chosen = [int(np.flatnonzero(y == c)[0]) for c in range(4)]
    made = learner("full", head_init="zero")
    first = made.device.state()
    history = made.fit(x[chosen], y[chosen])
    now = made.device.state()
    assert {n for n in now if not np.array_equal(now[n], first[n])} == {"head.weight", "head.bias", "body_rate"}
    assert "of the head alone" in history.found


def test_a_smaller_loss_does_not_help_if_more_answers_are_wrong_or_less_is_known():
    def made(loss, right, cost=1.0):
        return Score(loss, right, 100, each=cost + 0.1 * np.arange(100) % 3)

    before = made(1.0, 0.5)
    assert helps(made(0.9, 0.5), before) and helps(made(1.05, 0.6), before)
    assert not helps(made(0.9, 0.35), before) and not helps(made(np.inf, 0.0), before)
    assert not helps(made(0.9, 0.5, cost=1.1), before)  # only less sure of its mistakes
    assert helps(made(2.5, 0.6, cost=0.7), before)  # too sure of itself, but it knows more


def test_trials_of_large_networks_are_a_part_of_the_training():
    sizes = [trial_samples(2000, 10**9, False, left) for left in (0, 8000, 16000, np.inf)]
    assert sizes == [SHARE[0] * 2000, 1000, SHARE[1] * 2000, SHARE[1] * 2000]
    once, twice = (trial_samples(2000, int(WORK / 6000), lost, 0) for lost in (False, True))
    assert once == pytest.approx(6000, rel=0.01) and twice == pytest.approx(2 * once, rel=0.01)


def test_fewer_samples_are_seen_more_often():
    assert [usual_epochs(n) for n in (20, 200, 1600, 100_000)] == [40, 20, 10, 4]


def test_a_state_of_before_there_was_a_share_is_loaded():
    x, y = data(20)
    made, fresh = learner(), learner()
    made.fit(x, y, epochs=1, rate=0.1)
    layout = made.program.state
    kept = tuple(v for v in layout.fields if v.name not in ADDED)
    old = StateLayout(kept, {}, layout.older)
    fresh.device.load_state(old.saved(old.pack(made.device.state())))
    assert state_of(fresh) == state_of(made)
    damaged = bytearray(old.saved(old.pack(made.device.state())))
    damaged[HEADER_BYTES] ^= 1
    with pytest.raises(DataError):
        fresh.device.load_state(bytes(damaged))


@pytest.mark.parametrize("width, dtype", [(2, "f32"), (300, "s8")])
def test_the_last_layer_of_a_regression_is_float_only_if_it_is_small(width, dtype):
    """An autoencoder's last layer would take four times its flash and SRAM."""
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, width)).eval()
    x = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    made = insitu.compile(net, example=torch.zeros(1, 8), data=x, recipe=insitu.Recipe(loss="mse"), scheme="full")
    weights = [v for v in made.graphs["predict"].values.values() if v.shape == (width, 16)]
    assert {v.dtype for v in weights} == {dtype}
