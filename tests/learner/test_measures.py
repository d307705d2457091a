"""How right each sample is, and the share of a whole set: the same rule."""

import numpy as np
import pytest

from insitu.learner.measures import MEASURES, RIGHT


@pytest.mark.parametrize("loss", RIGHT)
def test_each_sample_is_as_right_as_it_is_alone(loss: str):
    rng = np.random.default_rng(0)
    out, targets = rng.standard_normal((9, 4)), rng.random((9, 4))
    y = rng.integers(0, 4, 9) if loss == "cross_entropy" else targets
    measured = MEASURES[loss][1]
    each = [measured(out[i : i + 1], y[i : i + 1]) for i in range(9)]
    assert RIGHT[loss](out, y).tolist() == each
    assert measured(out, y) == pytest.approx(np.mean(each))
