"""The example for a torch module: arrays are accepted, and anything else gives an error."""

import numpy as np
import pytest
import torch
from torch import nn

import insitu

NET = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).eval()


@pytest.mark.parametrize("example", [np.zeros((1, 3, 4), np.float32), (torch.zeros(1, 3, 4),)], ids=["array", "tuple"])
def test_an_array_is_as_good_as_a_tensor(example):
    want = insitu.load(NET, torch.zeros(1, 3, 4))
    assert str(insitu.load(NET, example).graph) == str(want.graph)


@pytest.mark.parametrize("example", [(1, 3, 4), "x", 3.0])
def test_what_is_no_example_is_named(example):
    with pytest.raises(insitu.ModelError, match="the example input is a") as e:
        insitu.load(NET, example)
    assert "torch.zeros" in e.value.hint


def test_an_example_of_four_samples_loads_but_is_not_what_compile_takes():
    assert insitu.load(NET, torch.zeros(4, 3, 4)).graph.inputs[0].shape == (4, 3, 4)
    with pytest.raises(insitu.ModelError, match="one sample at a time") as e:
        insitu.compile(NET, example=torch.zeros(4, 3, 4), precision="float", scheme="head")
    assert "first axis is 1" in e.value.hint
