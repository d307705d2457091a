"""Classes that come and go in a head with room for them: nothing is compiled again, and the others keep their rows."""

from __future__ import annotations

import copy
import warnings
from functools import cache

import numpy as np
import pytest

import insitu
from insitu.demo import TARGET, digits
from insitu.errors import DataError, LearningWarning
from insitu.learner.rows import forget_class, rows_in_use
from insitu.learner.seen import usual_rate
from insitu.training.head import UNUSED
from insitu.training.newcomer import row_from_mean
from tests.learners import data, learner

NEW = 9


@cache
def nine_digits() -> insitu.Learner:
    """A head that knows nine digits, with room for three more."""
    d = digits()
    made = insitu.compile(TARGET, data=d.x_train[:200], classes=9, max_classes=12)
    old = d.y_train < NEW
    made.fit(d.x_train[old][:600], d.y_train[old][:600])
    return made


def scores(made: insitu.Learner) -> tuple[float, float]:
    """Accuracy on the nine old digits and on the new one, in %."""
    d = digits()
    right = made.predict(d.x_test).argmax(1) == d.y_test
    return 100 * right[d.y_test < NEW].mean(), 100 * right[d.y_test == NEW].mean()


def test_room_changes_no_prediction_and_no_update():
    """A row that is not in use has no probability, and no gradient reaches it."""
    x, y = data(60)
    plain, roomy = learner("head", head_init="zero"), learner("head", max_classes=7, head_init="zero")
    for made in (plain, roomy):
        made.fit(x, y, epochs=3, rate=0.1)
    assert np.array_equal(plain.predict(x), roomy.predict(x)[:, :4])
    assert np.array_equal(plain.device.state()["head.weight"], roomy.device.state()["head.weight"][:4])
    assert not roomy.device.state()["head.weight"][4:].any() and (roomy.predict(x)[:, 4:] == UNUSED).all()
    assert set(roomy.classify(x[:1])[0]) == {"0", "1", "2", "3"}


def test_a_new_class_takes_part_from_its_first_samples_and_the_old_ones_stay():
    made, d = copy.copy(nine_digits()), digits()
    made.lately = nine_digits().lately
    program, (before, _) = made.program, scores(made)
    assert made.add_class("nine") == NEW and made.program is program
    assert scores(made)[0] == before, "it has no samples yet"
    few = d.x_train[d.y_train == NEW][:20]
    made.partial_fit(few, [NEW] * 20, rate=0.0)  # only its row is made
    after, new = scores(made)
    assert after > before - 1.5 and new > 60


def test_a_forgotten_class_is_never_predicted_and_its_row_is_free():
    made = copy.copy(nine_digits())
    forget_class(made, 4)
    d = digits()
    assert not (made.predict(d.x_test).argmax(1) == 4).any() and not rows_in_use(made)[4]
    assert made.add_class("four again") == 4 and made.names[4] == "four again"
    with pytest.raises(DataError, match="no class named 'seven'"):
        forget_class(made, "seven")


def test_without_room_the_program_is_made_again():
    made = learner("head")
    program = made.program
    assert made.add_class("new") == 4 and made.program is not program


def test_room_is_kept_in_a_file(tmp_path):
    made = learner("head", max_classes=6)
    made.add_class("wave")
    made.save(tmp_path / "a.insitu")
    again = insitu.open(tmp_path / "a.insitu")
    assert again.names[4] == "wave" and list(rows_in_use(again)) == [True] * 4 + [False] * 2
    assert again.add_class("nod") == 5


def test_only_a_float_head_has_room():
    x, _ = data(60)
    with pytest.raises(DataError, match="float head"):
        learner("head", head="int8", precision="int8", data=x, max_classes=6)
    with pytest.raises(DataError, match="max_classes must be an integer >= 4"):
        learner("head", max_classes=3)


def test_a_row_from_a_mean_agrees_with_its_formula_in_float64():
    rng = np.random.default_rng(0)
    means, m = rng.normal(size=(5, 16)), rng.normal(size=16)
    weights, biases = 2.5 * means + 0.1 * rng.normal(size=(5, 16)), rng.normal(size=5)
    w, b = row_from_mean(m, list(means), list(zip(weights, biases.astype(np.float32))))
    c, v = means.mean(0), weights.mean(0)
    s = ((weights - v) * (means - c)).sum() / ((means - c) ** 2).sum()
    assert np.allclose(w, v + s * (m - c), rtol=1e-5) and 2 < s < 3
    assert np.isclose(b, (biases + s / 2 * (means**2).sum(1)).mean() - s / 2 * (m**2).sum(), rtol=1e-5)
    alone, bias = row_from_mean(m, [], [])
    assert np.isclose(alone @ m + bias, 2.0)


def test_what_was_learned_tells_the_rate_for_more_samples_like_it():
    made = learner("head", head_init="zero")
    assert usual_rate(made) is None
    x, y = data(60)
    made.fit(x, y, rate=0.01, epochs=1)
    found = usual_rate(made)
    assert found and 1 < found / made.partial_fit(x, y).head_rate < 3  # means are smaller than samples


def knowing() -> insitu.Learner:
    made, (x, y) = learner("full", head_init="zero"), data(200)
    made.fit(x, y, epochs=2, rate=0.1)
    return made


def warned(made: insitu.Learner, x: np.ndarray, y: np.ndarray, **options) -> list[str]:
    """The warnings of a fit that speak of classes without samples; its history has the same words."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", LearningWarning)
        history = made.fit(x, y, epochs=4, **options)
    found = [str(one.message) for one in said if "no sample is of" in str(one.message)]
    assert found == [note for note in history.notes if "no sample is of" in note]
    return found


@pytest.mark.parametrize("kept, said", [
    ((0, 1, 2), "no sample is of class 3: what the learner knew of it may be forgotten"),
    ((0, 1), "no sample is of the classes 2, 3: what the learner knew of them may be forgotten"),
])  # fmt: skip
def test_a_fit_without_samples_of_a_known_class_says_that_it_may_be_forgotten(kept, said, tmp_path):
    (x, y), made = data(200, seed=1), knowing()
    some = np.isin(y, kept)
    made.save(tmp_path / "knowing.insitu")
    for known in (made, insitu.open(tmp_path / "knowing.insitu")):
        (found,) = warned(known, -x[some], y[some])  # other samples than before: there is something to learn
        assert found.startswith(said)
    assert warned(made, -x[some], y[some]) == [], "the last fit did not know it any more"


def test_a_class_that_is_not_known_yet_is_not_missed():
    (x, y), made = data(200), learner("full", head_init="zero")
    assert warned(made, x[y < 3], y[y < 3]) == []
    assert warned(made, x, y) == [], "all of them are here"


def test_a_rate_of_ones_own_is_not_commented_on():
    (x, y), made = data(200, seed=1), knowing()
    assert warned(made, -x[y < 3], y[y < 3], rate=0.1) == []
