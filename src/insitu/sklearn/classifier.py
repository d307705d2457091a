"""A classifier with scikit-learn's interface, around a learner."""

from __future__ import annotations

from math import ceil

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data

from insitu.errors import DataError
from insitu.graph.classes import checked
from insitu.learner import Learner
from insitu.learner.classify import probabilities
from insitu.pipeline import compile
from insitu.pipeline.network import example_of
from insitu.sklearn.estimator import Estimator
from insitu.sklearn.table import BATCH, RATE, UPDATES, table_network
from insitu.sklearn.weights import in_order, repetitions, weights_of
from insitu.training.train import Recipe


class DeviceClassifier(ClassifierMixin, Estimator):
    """Learns with the generated C of a model; without a model, with a small network for tables.

    model       a model for `insitu.compile`; None: its own network, trained in full
    scheme      what is trained of the model
    precision   "int8" or "float"
    hidden      widths of its own network's hidden layers
    epochs, rate    None: found from the data
    random_state    of its own network's initial weights, and of the order of samples
    class_weight    "balanced", or class -> weight: samples of a class count more. Weights are repetitions (weights.py):
                    a sample of weight 3 is learned from as if it were there three times
    """

    def __init__(self, model=None, *, scheme: str = "head", precision: str = "float", hidden: tuple[int, ...] = (32,),
                 epochs: int | None = None, rate: float | None = None, random_state=None,
                 class_weight=None):  # fmt: skip
        super().__init__(model, scheme=scheme, random_state=random_state)
        self.precision, self.hidden = precision, hidden
        self.epochs, self.rate, self.class_weight = epochs, rate, class_weight

    def fit(self, X, y, sample_weight=None) -> DeviceClassifier:
        """Learn from these samples, from the start."""
        X, y = self._checked(X, y, reset=True)
        if sample_weight is None and self.class_weight is None:
            self.classes_ = np.unique(y)
        else:
            weights = weights_of(X, y, sample_weight, self.class_weight)
            self.classes_, times = np.unique(y[weights > 0]), repetitions(weights)
            X, y = X.repeat(times, axis=0), y.repeat(times)
        labels = np.searchsorted(self.classes_, y)
        if self.model is None:  # its rate needs no samples held out, so the order means nothing
            order = in_order(X, labels)
            X, labels = X[order], labels[order]
        self.learner_ = self._compiled(X) if len(self.classes_) > 1 else None  # one class: nothing to tell apart
        self._learn(X, labels)
        return self

    def partial_fit(self, X, y, classes=None) -> DeviceClassifier:
        """Learn from these samples as well, in one pass; the first call must say which classes there are. All of them
        count alike: give a sample that counts more several times."""
        first = not hasattr(self, "classes_")
        X, y = self._checked(X, y, reset=first)
        if first:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit")
            self.classes_ = unique_labels(classes)
            self.learner_ = self._compiled(X) if len(self.classes_) > 1 else None
        elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise ValueError(f"classes={classes!r} are not those of the first call: {self.classes_!r}")
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise ValueError(
                f"the class {strange.tolist()[0]!r} is new; the first partial_fit(..., classes=) names all of them"
            )
        if self.learner_ is not None:
            rate = self.rate or (RATE if self.model is None else None)
            self.learner_.partial_fit(X, as_learned(self.learner_, np.searchsorted(self.classes_, y)), rate=rate)
        return self

    def predict_proba(self, X) -> np.ndarray:
        """[samples, classes]: the probability of each class."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if self.learner_ is None:
            return np.ones((len(X), 1))
        return probabilities(self.learner_.graphs["predict"], np.asarray(self.learner_.predict(X)))

    def predict(self, X) -> np.ndarray:
        """The likeliest class of each sample."""
        likely = self.predict_proba(X)
        return self.classes_[likely.argmax(axis=1)]

    # ---------------------------------------------------------------------------------------------

    def _checked(self, X, y, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_data(self, X, y, reset=reset, **self._wanted())
        check_classification_targets(y)
        return np.asarray(X), np.asarray(y)

    def _compiled(self, X: np.ndarray) -> Learner:
        """A learner that knows the classes by name, so that its file and what is exported of it do, too."""
        learner = self._unnamed(X)
        learner.rename(class_names(self.classes_))
        return learner

    def _unnamed(self, X: np.ndarray) -> Learner:
        count, seed = len(self.classes_), self._seed()
        if self.model is None:
            self._own_scheme()
            graph = table_network(X, self.hidden, count, seed)
            return compile(graph, precision="float", scheme="full", batch=BATCH, recipe=Recipe(optimizer="adam"))
        data = X if self.precision == "int8" else None
        given = {"precision": self.precision, "scheme": self.scheme, "data": data, "seed": seed}
        return compile(self.model, classes=count, example=example_of(self.model, None, X), **given)

    def _learn(self, X: np.ndarray, labels: np.ndarray) -> None:
        if self.learner_ is None:
            return
        given = {"epochs": self.epochs, "rate": self.rate}
        if self.model is None:
            updates = ceil(len(X) / BATCH)
            given = {"epochs": given["epochs"] or min(max(ceil(UPDATES / updates), 5), 200), "rate": self.rate or RATE}
        found = {name: value for name, value in given.items() if value is not None}
        self.learner_.fit(X, as_learned(self.learner_, labels), seed=self._seed(), **found)


def as_learned(learner: Learner, labels: np.ndarray) -> np.ndarray:
    """The numbers of classes as the learner knows them: by their names, if they have some."""
    return learner.classes_[labels]


def class_names(classes: np.ndarray) -> tuple[str, ...]:
    """The names of the classes; none if they are 0, 1, 2, ..., or if not every one can be a name."""
    found = classes.tolist()
    try:
        return () if found == list(range(len(found))) else checked(map(str, found))
    except DataError:
        return ()
