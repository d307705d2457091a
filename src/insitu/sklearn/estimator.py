"""What the classifier and the regressor share: how samples are checked, and the seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

OF_ITS_OWN = ("head", "full")  # the default, which is for models, and what is done


class Estimator(BaseEstimator):
    """Around a model of the user's, or its own network for tables."""

    def __init__(self, model=None, *, scheme: str = "head", random_state=None):
        self.model, self.scheme, self.random_state = model, scheme, random_state

    def _validated(self, X, reset: bool) -> np.ndarray:
        return np.asarray(validate_data(self, X, reset=reset, **self._wanted()))

    def _wanted(self) -> dict:
        return {"dtype": np.float32, "allow_nd": self.model is not None}

    def _own_scheme(self) -> None:
        """A scheme is for a model: refused without one."""
        if self.scheme not in OF_ITS_OWN:
            raise ValueError(f"scheme={self.scheme!r} is for a model; without one, its own network learns in full")

    def _seed(self) -> int:
        return 0 if self.random_state is None else int(check_random_state(self.random_state).randint(1 << 30))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        return replace(tags, input_tags=replace(tags.input_tags, three_d_array=self.model is not None))
