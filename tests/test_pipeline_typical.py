"""What compile() says of calibration samples that are not typical."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.errors import LearningWarning
from insitu.terminal.wording import in_shell


def windows(count: int = 40) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 3, 24)).astype(np.float32)


def compiled(x: np.ndarray) -> list[str]:
    """The warnings of a 1-D network that is calibrated on these windows."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(88, 2)).eval()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", LearningWarning)
        insitu.compile(net, data=x, scheme="head", classes=2)
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
