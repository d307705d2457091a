"""Targets that a loss cannot learn are refused: with them it would have no minimum, or be learned as something else."""

import numpy as np
import pytest

from insitu import DataError
from insitu.graph import build, f32, lookup
from insitu.learner.given import given_samples

X, Y = np.zeros((4, 3), np.float32), np.eye(3)[[0, 1, 2, 0]]


def targets(y, loss: str = "mse") -> np.ndarray | None:
    with build("net") as b:
        out = lookup("reshape")(b.input("x", f32(1, 3)), shape=(1, -1))
    return given_samples(b.graph(out), loss, X, y).labels


WRONG = (Y.astype(str), Y.astype(complex), Y.astype("M8[D]"), np.full((4, 3), "a", object))


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_number_is_no_target(wrong):
    with pytest.raises(DataError, match="targets: the data must be numbers, not "):
        targets(wrong)


def test_numbers_among_objects_are_targets():
    np.testing.assert_array_equal(targets(Y.astype(object)), Y)


@pytest.mark.parametrize("loss", ["binary_cross_entropy", "soft_cross_entropy"])
@pytest.mark.parametrize("wrong", [2 * Y - 1, 2 * Y, Y - 0.5])
def test_chances_are_from_0_to_1(loss, wrong):
    with pytest.raises(DataError, match=f"of {loss} are chances from 0 to 1, not") as e:
        targets(wrong, loss)
    assert ("(y + 1) / 2" in e.value.hint) == (wrong.min() == -1)


def test_shares_of_classes_add_up_to_1():
    with pytest.raises(DataError, match=r"targets, sample 3: the shares .* add up to 0\.5, not 1"):
        targets(Y * [[1], [1], [1], [0.5]], "soft_cross_entropy")
    assert targets(Y * 0.999, "soft_cross_entropy") is not None
    assert targets(Y * 0.5, "binary_cross_entropy") is not None


def test_a_target_beyond_single_precision_is_refused():
    with pytest.raises(DataError, match="not finite, or beyond single precision"):
        targets(Y * 1e300)
