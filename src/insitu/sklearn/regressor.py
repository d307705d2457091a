"""A regressor with scikit-learn's interface, around a learner: one target, or several."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from insitu.learner import Learner
from insitu.pipeline import compile
from insitu.pipeline.network import example_of
from insitu.sklearn.estimator import Estimator
from insitu.sklearn.table import table_network
from insitu.sklearn.weights import in_order, repetitions
from insitu.terminal.wording import in_lesson
from insitu.training.train import Recipe

SQUARED = Recipe(loss="mse")


class DeviceRegressor(RegressorMixin, MultiOutputMixin, Estimator):
    """Learns quantities with the generated C of a model; without a model, with a small network for tables.

    model       a model for `insitu.compile`, with an output for each target; None: its own network, trained in full
    scheme      what is trained of the model
    precision   "int8" or "float"
    hidden      widths of its own network's hidden layers
    epochs, rate    None: found from the data
    random_state    of its own network's initial weights, and of the order of samples
    """

    def __init__(self, model=None, *, scheme: str = "head", precision: str = "float", hidden: tuple[int, ...] = (32,),
                 epochs: int | None = None, rate: float | None = None, random_state=None):  # fmt: skip
        super().__init__(model, scheme=scheme, random_state=random_state)
        self.precision, self.hidden, self.epochs, self.rate = precision, hidden, epochs, rate

    def fit(self, X, y, sample_weight=None) -> DeviceRegressor:
        """Learn from these samples, from the start; a weight repeats a sample (weights.py)."""
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, **self._wanted())
        X, targets = np.asarray(X), np.asarray(y, np.float32).reshape(len(y), -1)
        self.one_ = np.ndim(y) == 1
        if sample_weight is not None:
            times = repetitions(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
            X, targets = X.repeat(times, axis=0), targets.repeat(times, axis=0)
        if self.model is None:
            order = in_order(X, targets)
            X, targets = X[order], targets[order]
        with in_lesson() if self.model is None else nullcontext():
            self.learner_ = self._compiled(X, targets.shape[1])
            given = {"epochs": self.epochs, "rate": self.rate, "seed": self._seed()}
            self.learner_.fit(X, targets, **{name: value for name, value in given.items() if value is not None})
        return self

    def predict(self, X) -> np.ndarray:
        """[samples], or [samples, targets]: the quantities."""
        check_is_fitted(self)
        found = np.asarray(self.learner_.predict(self._validated(X, reset=False)), np.float64)
        return found.reshape(-1) if self.one_ else found.reshape(len(found), -1)

    def _compiled(self, X: np.ndarray, targets: int) -> Learner:
        seed = self._seed()
        if self.model is None:
            self._own_scheme()
            return compile(
                table_network(X, self.hidden, targets, seed), precision="float", scheme="full", recipe=SQUARED
            )
        given = {"precision": self.precision, "scheme": self.scheme, "seed": seed, "recipe": SQUARED}
        data = X if self.precision == "int8" else None
        return compile(self.model, example=example_of(self.model, None, X), data=data, **given)
