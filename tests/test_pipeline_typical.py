"""What compile() says of calibration samples that are not typical."""

import warnings
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.errors import LearningWarning
from insitu.terminal.wording import in_shell


def windows(count: int = 40) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 3, 24)).astype(np.float32)


def plain() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(88, 2)).eval()


def compiled(x: np.ndarray, net: nn.Module | None = None, **options) -> list[str]:
    """The warnings of a 1-D network that is calibrated on these windows."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", LearningWarning)
        insitu.compile(net or plain(), data=x, classes=2, **{"scheme": "head", **options})
    return [str(one.message) for one in said if one.category is LearningWarning]


@pytest.mark.parametrize("wrong", [-999.0, -9999.0, 1e6])
def test_one_wrong_reading_that_leaves_int8_few_steps_is_named(wrong):
    x = windows()
    x[5, 1, 7] = wrong
    (said,) = compiled(x)
    assert f"sample 5 has {wrong:.6g}, and most lie within -2.8" in said
    assert "which is 1 of the 255 steps of int8. If it is wrong, leave it out or clip it" in said


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_samples_of_any_scale_and_one_that_is_ten_times_larger_are_no_matter(factor):
    x = windows() * np.float32(factor)
    x[5] *= 10
    assert compiled(x) == []


def test_silence_between_a_few_sounds_is_no_matter():
    x = windows()
    x[3:] = 0
    assert compiled(x) == []


def test_samples_that_are_all_the_same_are_named_at_the_command_line_too(capsys):
    alike = np.ones((40, 3, 24), np.float32)
    (said,) = compiled(alike)
    assert said.startswith("all calibration samples are the same")
    with in_shell():
        assert compiled(alike) == []
    assert f"note: {said}" in capsys.readouterr().err


def test_numbers_far_from_zero_are_told_to_be_so_and_not_one_of_them_to_be_wrong():
    (said,) = compiled(windows() - 1000)
    assert "all numbers lie within -1003" in said and "Subtract their mean, -1000.03" in said


def test_what_is_refused_for_being_far_from_zero_is_not_told_to_be_scaled_as_it_was_scaled():
    x = windows() - 1000
    with pytest.warns(LearningWarning, match="far from 0"):
        made = insitu.compile(plain(), data=x, classes=2, scheme="head")
    with pytest.raises(insitu.DataError, match="the data lies in -1e") as error:
        made.fit(x, np.arange(40) % 2)
    assert error.value.hint == "these numbers are far from 0: subtract their mean, here and in calibration"


@cache
def normed() -> nn.Module:
    """A network with a batch norm that has seen such windows."""
    torch.manual_seed(0)
    layers = nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4, momentum=None), nn.ReLU(), nn.Flatten(), nn.Linear(88, 2)
    net = nn.Sequential(*layers).train()
    net(torch.tensor(windows()))
    with torch.no_grad():
        net[4].weight *= 3  # no longer as it was initialised
    return net.eval()


@pytest.mark.parametrize("precision", ["int8", "float"])
@pytest.mark.parametrize("change, says", [
    (lambda x: 100 * x, "spread 10"),
    (lambda x: 30 * x + 128, "spread 3"),
    (lambda x: 0.001 * x, "spread 992 times less"),
    (lambda x: x + 20, "standard deviations away"),
])  # fmt: skip
def test_samples_in_another_unit_than_a_frozen_batch_norm_knows_are_told_to_be(change, says, precision):
    (said,) = compiled(change(windows()), normed(), precision=precision)
    assert said.startswith("the model was trained on other numbers: those that its first batch norm (1) sees")
    assert says in said


def test_pixels_that_are_not_scaled_are_told_how_to_be():
    (said,) = compiled(np.clip(np.rint(windows() * 40 + 128), 0, 255), normed())
    assert "these look like pixels, 0 to 255: scale them; or transform=insitu.Transform()" in said


@pytest.mark.parametrize("change", [lambda x: x, lambda x: 4 * x, lambda x: 0.1 * x, lambda x: x + 1])
def test_samples_of_another_domain_in_the_same_unit_are_no_matter(change):
    assert compiled(change(windows()), normed()) == []


def test_a_batch_norm_that_learns_its_statistics_or_has_none_yet_is_not_asked():
    fresh = nn.Sequential(nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(88, 2)).eval()
    assert compiled(100 * windows(), fresh) == []
    assert compiled(100 * windows(), normed(), precision="float", scheme="full", batch=8) == []
