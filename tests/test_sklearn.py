"""DeviceClassifier and DeviceRegressor against scikit-learn's own checks, and inside its tools."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, load_wine, make_classification, make_friedman1
from sklearn.linear_model import RidgeCV, SGDClassifier
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from insitu.sklearn import DeviceClassifier, DeviceRegressor
from insitu.sklearn.weights import repetitions


@pytest.mark.parametrize(
    "estimator", [DeviceClassifier(epochs=30), DeviceRegressor(epochs=4)], ids=["classes", "quantities"]
)
def test_scikit_learns_own_checks_pass(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about checks that do not apply
        done = check_estimator(estimator, on_fail=None)
    failed = {row["check_name"]: str(row["exception"])[:200] for row in done if row["status"] == "failed"}
    assert not failed and sum(row["status"] == "passed" for row in done) > 30


@pytest.mark.parametrize("load, least", [(load_iris, 0.92), (load_wine, 0.94)])
def test_it_learns_tables_in_cross_validation(load, least):
    assert cross_val_score(DeviceClassifier(), *load(return_X_y=True), cv=3).mean() > least


def test_it_works_in_a_pipeline_and_a_grid_search():
    x, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    pipe = make_pipeline(StandardScaler(), DeviceClassifier(epochs=20))
    found = GridSearchCV(pipe, {"deviceclassifier__hidden": [(4,), (16,)]}, cv=2).fit(x, names)
    assert np.mean(found.predict(x) == names) > 0.9


def test_a_model_of_the_users_is_trained():
    x, y = load_iris(return_X_y=True)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 5)).eval()
    from insitu.learner.model import load

    made = DeviceClassifier(load(module, torch.zeros(1, 4)), scheme="full", epochs=30, rate=0.02).fit(x, y)
    assert made.score(x, y) > 0.9 and made.predict_proba(x).shape == (150, 3)
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.predict_proba(x), made.predict_proba(x))


@pytest.mark.parametrize("precision", ["float", "int8"])
def test_a_torch_module_is_taken_by_the_shape_of_its_samples(precision):
    x = np.random.default_rng(0).normal(size=(40, 1, 6, 6)).astype(np.float32)
    x[::2, :, :3] += 2
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)).eval()
    names = np.array(["no", "yes"])[np.arange(40) % 2]
    made = DeviceClassifier(module, precision=precision, epochs=10, rate=0.01).fit(x, names)
    assert made.score(x, names) > 0.9


def test_partial_fit_goes_on():
    x, y = load_iris(return_X_y=True)
    made = DeviceClassifier()
    order = np.random.default_rng(0).permutation(150)
    for part in np.array_split(np.tile(order, 20), 60):
        made.partial_fit(x[part], y[part], classes=[0, 1, 2])
    assert made.score(x, y) > 0.9
    with pytest.raises(ValueError, match="is new"):
        made.partial_fit(x[:2], [0, 7])


def test_partial_fit_takes_classes_as_scikit_learns_own_estimators_do():
    x, y = load_iris(return_X_y=True)
    for made in (DeviceClassifier(), SGDClassifier()):
        with pytest.raises(ValueError, match="classes must be passed on the first call"):
            made.partial_fit(x[:10], y[:10])
        made.partial_fit(x[:10], y[:10], classes=[0, 1, 2])
        np.testing.assert_array_equal(vars(made)["classes_"], [0, 1, 2])
        made.partial_fit(x[50:60], y[50:60]).partial_fit(x[50:60], y[50:60], classes=[2, 1, 0])
        with pytest.raises(ValueError, match="classes="):
            made.partial_fit(x[:10], y[:10], classes=[0, 1])


def test_a_weight_repeats_a_sample():
    x, y = load_iris(return_X_y=True)
    times = np.random.default_rng(0).integers(0, 4, 150)
    weighted = DeviceClassifier(epochs=5).fit(x, y, sample_weight=times)
    np.testing.assert_array_equal(
        weighted.predict_proba(x), DeviceClassifier(epochs=5).fit(x.repeat(times, 0), y.repeat(times)).predict_proba(x)
    )


@pytest.mark.parametrize(
    "weights, times",
    [([2, 0, 1], [2, 0, 1]), ([0.5, 0.5, 1.5], [1, 1, 3]), ([1e-3, 2e-3, 0], [1, 2, 0]), ([1, 1.5, 1.5], [1, 2, 1]),
     ([7, 7000, 7], [0, 48, 0]), ([5e8, 5e8], [1, 1])],
)  # fmt: skip
def test_weights_become_repetitions(weights, times):
    assert repetitions(np.array(weights, np.float64)).tolist() == times


def test_balanced_classes_find_more_of_the_rare_one():
    x, y = make_classification(800, 10, n_informative=5, weights=[0.93], flip_y=0.05, random_state=0)
    own = np.ones(400)
    plain, balanced = (
        DeviceClassifier(class_weight=w, hidden=()).fit(x[:400], y[:400], own) for w in (None, "balanced")
    )
    found, more = (balanced_accuracy_score(y[400:], made.predict(x[400:])) for made in (plain, balanced))
    assert more > found + 0.02 and (own == 1).all(), (found, more)


def test_a_class_that_counts_little_stays_a_class():
    x, y = load_iris(return_X_y=True)
    made = DeviceClassifier(epochs=5, class_weight={0: 1, 1: 1, 2: 1e-6}).fit(x, y)
    assert made.predict_proba(x).shape == (150, 3)
    with pytest.raises(ValueError, match="negative"):
        DeviceClassifier(class_weight={0: 1, 1: -1, 2: 1}).fit(x, y)


def test_a_scheme_without_a_model_is_refused_where_it_would_say_nothing():
    x, y = load_iris(return_X_y=True)
    for scheme in ("last:1", "fulll"):
        with pytest.raises(ValueError, match=f"scheme='{scheme}' is for a model; without one"):
            DeviceClassifier(scheme=scheme).fit(x, y)


def test_a_regressor_learns_a_quantity_or_several_whatever_their_units(capsys):
    x, y = make_friedman1(300, noise=1.0, random_state=0)
    line = cross_val_score(RidgeCV(), x, y, cv=2).mean()
    assert cross_val_score(make_pipeline(StandardScaler(), DeviceRegressor()), x, y, cv=2).mean() > line + 0.05
    both = np.stack([y, 1e4 * x[:, 3] - 5], 1)
    made = DeviceRegressor().fit(x[:200], both[:200])
    assert made.predict(x[:7]).shape == (7, 2)
    assert np.min(r2_score(both[200:], made.predict(x[200:]), multioutput="raw_values")) > 0.8
    assert "optimizer" not in capsys.readouterr().err  # nobody can choose it


def test_weights_of_quantities_repeat_samples():
    x, y = make_friedman1(60, random_state=0)
    times = np.random.default_rng(0).integers(0, 4, 60)
    weighted = DeviceRegressor(epochs=2).fit(x, y, sample_weight=times)
    repeated = DeviceRegressor(epochs=2).fit(x.repeat(times, 0), y.repeat(times))
    np.testing.assert_array_equal(weighted.predict(x), repeated.predict(x))


@pytest.mark.parametrize("precision", ["float", "int8"])
def test_a_regressor_trains_a_torch_module_of_the_users(precision):
    x, y = make_friedman1(300, random_state=0)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1)).eval()
    made = DeviceRegressor(module, precision=precision, scheme="full").fit(x, y)
    assert made.score(x, y) > 0.8 and made.predict(x).shape == (300,)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).predict(x), made.predict(x))


@pytest.mark.parametrize(
    "classes, names", [(["ash", "elm", "oak"], ["ash", "elm", "oak"]), ([3, 5, 8], ["3", "5", "8"]), ([0, 1, 2], None)]
)
def test_the_learner_behind_it_knows_the_classes_by_name(classes, names, capsys):
    x, y = load_iris(return_X_y=True)
    made = DeviceClassifier(epochs=10).fit(x, np.array(classes)[y])
    assert made.learner_.classes_.tolist() == (names or classes)
    assert [next(iter(found)) for found in made.learner_.classify(x[::10])] == [str(c) for c in made.predict(x[::10])]
    made.partial_fit(x[:5], np.array(classes)[y[:5]])
    assert "note" not in capsys.readouterr().err


def test_names_change_nothing_else():
    x, y = load_iris(return_X_y=True)
    states = [
        DeviceClassifier(epochs=3).fit(x, of[y]).learner_.device.save_state() for of in (np.arange(3), np.arange(5, 8))
    ]
    assert states[0] == states[1]


def test_a_new_class_is_named_in_plain_words():
    x, y = load_iris(return_X_y=True)
    made = DeviceClassifier(epochs=1).fit(x, np.array(["ash", "elm", "oak"])[y])
    with pytest.raises(ValueError, match="the class 'fir' is new"):
        made.partial_fit(x[:1], ["fir"])
