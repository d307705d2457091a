"""`fit(x, y)` with nothing else learns, whatever the scale of features and layers, and never makes a model worse."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import log_loss, mean_squared_error, r2_score
from torch import nn

import insitu
from insitu.demo import TARGET
from insitu.demo.watch import network, others, wearer
from insitu.devices.device import Updates
from insitu.errors import DataError, LearningWarning
from insitu.learner.advice import one_for_all
from insitu.learner.choice import LASTING
from insitu.learner.folder import open_folder
from insitu.learner.held_out import Score, guess, no_better
from insitu.learner.rates import Rates
from insitu.learner.settle import usual_epochs

from ..learners import data, learner, mlp, state_of


def accuracy(made, count: int = 400) -> float:
    return made.evaluate(*data(count, seed=9))["accuracy"]


class Scaled(nn.Module):
    """A network whose features are `by` times as large."""

    def __init__(self, by: float):
        super().__init__()
        self.body, self.head = mlp(hidden=24)[:4], nn.Linear(24, 4)
        for parameter in self.body[2].parameters():
            parameter.data *= by

    def forward(self, x):
        return self.head(self.body(x))


# --- it learns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["head", "full"])
@pytest.mark.parametrize("by", [0.3, 1.0, 30.0])
def test_features_of_any_scale_are_learned_from(scheme, by):
    made = learner(scheme, module=Scaled(by).eval(), head_init="zero")
    history = made.fit(*data(120))
    assert accuracy(made) > {"head": 0.6, "full": 0.8}[scheme]
    assert not history.restored and "epochs" in history.found


def test_the_rate_of_a_head_falls_with_the_square_of_its_features():
    made = [learner("head", module=Scaled(by).eval(), head_init="zero") for by in (10.0, 100.0)]
    rates = [one.fit(*data(120)).head_rate for one in made]
    assert 30 < rates[0] / rates[1] < 300


@pytest.mark.parametrize("scheme", ["head", "full"])
def test_thirty_fits_of_ten_samples_learn(scheme):
    made = learner(scheme, head_init="zero")
    x, y = data(300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)
        for i in range(0, 300, 10):
            made.fit(x[i : i + 10], y[i : i + 10])
    assert accuracy(made) > {"head": 0.45, "full": 0.7}[scheme]


@pytest.mark.parametrize("loss", ["mse", "binary_cross_entropy"])
def test_targets_are_learned_with_nothing_given(loss):
    x, _ = data(120)
    y = 0.3 * x[:, :4] if loss == "mse" else (x[:, :4] > 0).astype(np.float32)
    made = learner(classes=None, recipe=insitu.Recipe(loss=loss))
    before = made.evaluate(x, y)[made.measure]
    made.fit(x, y)
    after = made.evaluate(x, y)[made.measure]
    assert after < before / 3 if loss == "mse" else after > 0.9


def test_a_last_sigmoid_is_part_of_the_binary_loss():
    x, _ = data(60)
    y, net = (x[:, :4] > 0).astype(np.float32), mlp()
    options = {"example": x[:1], "data": x, "recipe": insitu.Recipe(loss="binary_cross_entropy")}
    plain, ends = (insitu.compile(m, **options) for m in (net, nn.Sequential(net, nn.Sigmoid()).eval()))
    assert any("sigmoid is part of the loss" in note for note in ends.notes)
    for made in (plain, ends):
        made.fit(x, y)
    np.testing.assert_array_equal(plain.predict(x), ends.predict(x))


@pytest.mark.parametrize("end", [nn.Softmax(1), nn.LogSoftmax(1)])
@pytest.mark.parametrize("precision", ["float", "int8"])
def test_a_last_softmax_is_said_to_be_part_of_the_loss(end, precision, capsys):
    x, _ = data(60)
    net = nn.Sequential(mlp(), end).eval()
    options = {"example": x[:1], "data": x, "precision": precision}
    made = insitu.compile(net, **options)
    note = "the last softmax is part of the loss: predict gives logits, classify gives probabilities"
    assert made.notes.count(note) == 1 and f"note: {note}" in capsys.readouterr().err
    plain = insitu.compile(mlp(), **options)
    np.testing.assert_array_equal(made.predict(x), plain.predict(x))
    assert [list(row.values()) for row in made.classify(x)] == [list(row.values()) for row in plain.classify(x)]
    assert abs(sum(made.classify(x[:1])[0].values()) - 1) < 1e-6
    for other in (plain, insitu.compile(net, **options, classes=3)):
        assert not any("softmax" in note for note in other.notes), "there is none, or it is that of another classifier"


@pytest.mark.parametrize(("optimizer", "batch"), [("momentum", 1), ("adam", 1), ("sgd", 8), ("adam", 8)])
def test_every_optimizer_and_batch_finds_a_rate(optimizer, batch):
    made = learner(batch=batch, recipe=insitu.Recipe(optimizer=optimizer), head_init="zero")
    made.fit(*data(120))
    assert accuracy(made) > 0.75


def test_a_network_that_knows_little_learns_longer():
    usual, little = usual_epochs(120), learner("full", head_init="zero")
    assert f", {2 * usual} epochs" in little.fit(*data(120)).found
    assert f", {LASTING * usual} epochs" in learner("head", head_init="zero").fit(*data(120)).found
    assert ", 3 epochs" in learner("full", head_init="zero").fit(*data(120), epochs=3).found
    known = learner(classes=None, module=trained())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)
        assert f", {usual} epochs" in known.fit(*data(120)).found


def test_the_same_fit_gives_the_same_bytes():
    one, two = learner(), learner()
    assert one.fit(*data(60)).found == two.fit(*data(60)).found
    assert state_of(one) == state_of(two)


def test_many_samples_are_held_out_in_part():
    x, y = data(4500)
    history = learner("head").fit(x, y)
    assert "900 of 4,500 samples held out" in history.found
    assert len(history.losses[0]) == 3600


# --- and does no harm -----------------------------------------------------------------------------------


def test_labels_without_meaning_leave_the_learner_as_it_was():
    made = learner(classes=None, module=trained())
    before = state_of(made)
    x, _ = data(60)
    with pytest.warns(LearningWarning, match="as it was"):
        history = made.fit(x, np.random.default_rng(3).integers(0, 4, 60))
    assert history.restored and state_of(made) == before


def trained() -> nn.Module:
    """A network that knows the task."""
    module, (x, y) = mlp(), data(400, seed=9)
    optimizer = torch.optim.Adam(module.parameters(), 0.02)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(torch.tensor(x)), torch.tensor(y)).backward()
        optimizer.step()
    return module.eval()


def test_a_network_that_knows_its_task_keeps_knowing_it():
    made = learner(classes=None, module=trained())
    before = accuracy(made)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)
        made.fit(*data(40))
    assert accuracy(made) >= before - 0.01


def test_a_few_wrong_targets_do_not_cost_what_was_known():
    """Two of 120 readings are wrong by far: judged by squared errors, the network seemed to know nothing."""
    x, module = data(720)[0], mlp(classes=1, hidden=16)
    y = (np.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]).astype(np.float32)
    optimizer = torch.optim.Adam(module.parameters(), 0.02)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.mse_loss(module(torch.tensor(x[120:420])), torch.tensor(y[120:420])).backward()
        optimizer.step()
    made = learner("full", classes=None, module=module.eval(), recipe=insitu.Recipe(loss="mse"), head_init=None)
    before, wrong = made.evaluate(x[420:], y[420:])["error"], y[:120].copy()
    wrong[[7, 60]] += 90
    with pytest.warns(LearningWarning, match="2 of 120 samples have a target that is far from nearly all others"):
        made.fit(x[:120], wrong)
    assert made.evaluate(x[420:], y[420:])["error"] < 1.1 * before


@pytest.mark.parametrize("number", [4, 10])
def test_a_watch_that_is_trained_in_full_on_a_few_windows_does_not_get_worse(number):
    """Windows overlap: those held out look better than later ones. Without doubts, 5.8 and 5.2 points were lost."""
    pytest.importorskip("seglearn", reason="needs the watch data of seglearn")
    person = wearer(number)
    made = insitu.compile(network(number), scheme="full", data=others(number).x[::16])
    chosen = np.random.default_rng(0).permutation(56)
    before = made.evaluate(person.test.x, person.test.y)["accuracy"]
    made.fit(person.learn.x[chosen], person.learn.y[chosen])
    assert made.evaluate(person.test.x, person.test.y)["accuracy"] >= before - 0.01


def test_a_network_that_only_learned_to_guess_is_as_it_was_and_says_what_to_try():
    x, _ = data(120)
    made = learner("full", head_init="zero")  # a head of zeros says class 0; most labels are 1, and none depends on x
    before = state_of(made)
    with pytest.warns(LearningWarning, match='nothing was learned.*optimizer="adam"') as said:
        history = made.fit(x, (np.random.default_rng(1).random(120) < 0.75).astype(int))
    assert history.restored and state_of(made) == before and "more samples" in str(said[0].message)


@pytest.mark.parametrize(("share", "seed", "restored"), [(0.95, 3, True), (0.9, 10, False)])
def test_a_network_that_answers_the_most_common_class_to_all_is_told_so(share, seed, restored):
    x, made = data(120)[0], learner("full", head_init="zero")
    y = (np.random.default_rng(seed).random(120) < share).astype(int)  # none depends on x
    words = rf"{y.sum()} of 120 samples are of class 1.*right for {y.mean():.1%}.*balanced accuracy.* is 50.0%"
    with pytest.warns(LearningWarning, match=words) as said:
        assert made.fit(x, y).restored == restored
    assert len(said) == 1 and one_for_all(np.repeat([0, 1, 2], (80, 10, 10)))
    assert not one_for_all(np.repeat([0, 1], (70, 30))) and not one_for_all(y.astype(np.float32))


def test_a_network_of_one_layer_is_not_told_to_train_more_layers():
    torch.manual_seed(0)
    rng, one = np.random.default_rng(0), nn.Linear(10, 2)
    x, y = rng.normal(size=(240, 10)).astype(np.float32), rng.integers(0, 2, 240)
    two = nn.Sequential(nn.Linear(10, 4), nn.ReLU(), nn.Linear(4, 2))
    for net, words in ((one, "a network with more layers"), (two, "last:4")):
        made = insitu.compile(net, scheme="head", data=x, example=torch.zeros(1, 10))
        with pytest.warns(LearningWarning, match=f"What may help.*{words}"):
            made.fit(x, y)


def test_a_network_without_mistakes_is_told_that_nothing_was_left_to_learn():
    made, (x, y) = learner("full"), data(90)
    made.fit(x, y)
    x = x[right := made.predict(x).argmax(1) == y]
    with pytest.warns(LearningWarning, match="nothing left to learn.*100.0% before") as said:
        history = made.fit(x, y[right], seed=1)
    assert history.restored and "What may help" not in str(said[0].message)


def test_rates_are_told_with_two_digits():
    assert str(Rates(0.000171, 212.0)) == "rate 210 (head 0.00017)"
    assert str(Rates(0.0314)) == "rate 0.031" and str(Rates(2.0, 0.0)) == "rate 2 of the head alone"


def test_the_same_answer_for_all_is_scored_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    y, targets = rng.integers(0, 3, 50), rng.normal(size=(50, 2)).astype(np.float32)
    shares = DummyClassifier(strategy="prior").fit(np.zeros((50, 1)), y)
    found = guess("cross_entropy", y)
    assert found.measure == pytest.approx(shares.score(np.zeros((50, 1)), y))
    assert found.loss == pytest.approx(log_loss(y, shares.predict_proba(np.zeros((50, 1)))), rel=1e-6)
    constant = DummyRegressor().fit(np.zeros((50, 1)), targets).predict(np.zeros((50, 1)))
    assert guess("mse", targets).measure == pytest.approx(mean_squared_error(targets, constant))
    assert guess("mse", targets).loss == pytest.approx(1 - r2_score(targets, constant))


def test_a_result_counts_as_learned_if_loss_or_accuracy_is_better_than_a_guess():
    guessed = Score(1.0, 0.5, 100)
    assert no_better(Score(0.999, 0.55, 100), guessed)  # within chance
    assert not no_better(Score(1.2, 0.7, 100), guessed)  # too sure of itself, but right
    assert not no_better(Score(0.9, 0.5, 100), guessed)


def test_divergence_and_a_single_class_are_said():
    with pytest.warns(LearningWarning, match="diverged"):
        made = learner(classes=None, recipe=insitu.Recipe(loss="mse", clip=0))
        made.fit(data(40)[0], data(40)[0][:, :4], rate=1e6, epochs=3, warmup=0)


@pytest.mark.parametrize(("rate", "warned"), [(0.5, True), (0.01, False)])
def test_a_rate_that_leaves_a_network_guessing_is_said(rate, warned):
    """Dead units give every sample the same answer: the loss falls to that of guessing, and nothing diverges."""
    x, y = data(160)
    made = learner(module=mlp(hidden=24), recipe=insitu.Recipe(optimizer="adam"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made.fit(x, y, rate=rate, epochs=8)
    assert any("as if guessing" in str(one.message) for one in said) == warned


def test_a_training_that_ends_where_its_trial_did_has_not_diverged():
    """One epoch at the best rate for one epoch: the losses on the way are high, the result is good."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    means, y = rng.normal(size=(3, 1, 9, 11)), rng.integers(0, 3, 60)
    x = (means[y] + 0.5 * rng.normal(size=(60, 1, 9, 11))).astype(np.float32)
    layers = [nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, 2, 1, groups=6), nn.ReLU()]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)).eval()
    made = insitu.compile(net, data=x, scheme="head")
    before = made.evaluate(x, y)["accuracy"]
    history = made.fit(x, y, epochs=1)
    assert history.loss[-1] > 1.5 * np.mean(history.losses[0][:8]), "the losses alone would say so"
    assert not history.notes and made.evaluate(x, y)["accuracy"] > before + 0.1


@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        (range(20), [2] * 20, "all samples belong to one class"),
        ([0], [2], "there is only one sample"),
        ([0] * 20, [0, 1, 2, 3] * 5, "all samples are the same"),
    ],
)
def test_samples_that_cannot_be_told_apart_change_nothing(rows, labels, words):
    made, x = learner(recipe=insitu.Recipe(optimizer="momentum")), data(40)[0]
    before = state_of(made)
    with pytest.warns(LearningWarning, match=f"{words}: the learner is as it was.*partial_fit") as said:
        history = made.fit(x[list(rows)], labels)
    assert len(said) == 1 and history.restored and state_of(made) == before
    with pytest.warns(LearningWarning, match=words):
        made.fit(x[list(rows)], labels, rate=0.1, epochs=1)
    assert state_of(made) != before  # a rate that is given is obeyed


def test_a_single_target_is_said():
    made = learner(classes=None, recipe=insitu.Recipe(loss="mse"))
    with pytest.warns(LearningWarning, match="only one sample"):
        made.fit(data(1)[0], data(1)[0][:, :4])


# --- what is given is obeyed ----------------------------------------------------------------------------


def test_a_given_rate_holds_for_head_and_body_whatever_was_found_before():
    x, y = data(40)
    made, plain = learner(), learner()
    made.device.load_arrays({"body_rate": np.array([0.1], np.float32)})
    for one in (made, plain):
        one.fit(x, y, epochs=2, rate=0.05)
    assert state_of(made) == state_of(plain)
    assert made.device.state()["body_rate"] == 1


def test_a_head_may_have_a_rate_of_its_own():
    x, y = data(40)
    made = learner()
    first = made.device.state()
    history = made.fit(x, y, epochs=1, rate=0.0, head_rate=0.05)
    now = made.device.state()
    changed = {name for name in now if not np.array_equal(now[name], first[name])}
    assert changed == {"head.weight", "head.bias", "body_rate"} and history.head_rate == 0.05


def test_a_found_share_is_part_of_the_state_and_the_step_uses_it():
    x, y = data(40)
    made = learner()
    made.device.load_arrays({"body_rate": np.zeros(1, np.float32)})
    first = made.device.state()
    made.device.train(Updates((x, y.astype(np.int32)), range(40), [0.05] * 40))
    now = made.device.state()
    assert {n for n in now if not np.array_equal(now[n], first[n])} == {"head.weight", "head.bias"}


def test_going_on_needs_the_rate_that_it_began_with():
    with pytest.raises(DataError, match="needs the rate"):
        learner().fit(*data(40), epochs=4, start_epoch=2)


def test_validation_samples_are_what_is_chosen_by_and_test_samples_are_not():
    x, y = data(60)
    seen = learner("head").fit(x, y, test=data(50, seed=5))
    alone = learner("head").fit(x, y)
    assert seen.found == alone.found and len(seen.tested) == len(seen.loss) and not alone.tested
    assert learner("head").fit(x, y, validation=data(50, seed=5)).validation


# --- on a board -----------------------------------------------------------------------------------------


def test_a_board_learns_at_the_rates_found_on_this_computer():
    x, y = data(40)
    host = learner("full", precision="int8", data=x)
    with host.on("emulator", board="stm32f746") as board:
        there = board.fit(x, y, epochs=2)
        here = host.fit(x, y, epochs=2)
        assert there.found == here.found and state_of(board) == state_of(host)


def test_a_folder_has_its_rates_measured_on_the_board(tmp_path):
    x, y = data(40)
    host = learner("full", precision="int8", data=x, board="stm32f746")
    host.write(tmp_path)
    with open_folder(tmp_path) as board:
        history = board.fit(x[:20], y[:20], schedule="constant", warmup=0)
        assert history.rate != 0.01 and history.head_rate > history.rate > 0
        assert history.loss[-1] < history.loss[0]


def test_steps_are_bounded_by_the_weights_of_a_network_that_knows_something():
    """Random weights have further to go, and a clip that is given is the fixed one."""
    options: dict = {"scheme": "head", "precision": "float"}
    found = insitu.compile(TARGET, **options).recipe
    assert (found.clip_kind, found.clip) == ("step", 0.1)
    given = insitu.compile(TARGET, recipe=insitu.Recipe(clip=8.0), **options).recipe
    assert (given.clip_kind, given.clip) == ("parameter", 8.0)
    assert learner("full").recipe.clip_kind is None
