"""Batch norms that have seen no sample get the statistics of the samples that a model is compiled with."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.pipeline.statistics import with_statistics

from .learners import data


def deep(count: int = 8, width: int = 12) -> nn.Sequential:
    torch.manual_seed(0)
    sizes = [6, *[width] * count]
    made = [m for i, o in pairwise(sizes) for m in (nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU())]
    return nn.Sequential(*made, nn.Dropout(), nn.Linear(width, 4)).eval()


def statistics(module: nn.Module) -> list[torch.Tensor]:
    return [b for norm in module if isinstance(norm, nn.BatchNorm1d) for b in (norm.running_mean, norm.running_var)]


def found(module: nn.Module, x: np.ndarray) -> list[np.ndarray]:
    graph = with_statistics(insitu.load(module, torch.zeros(1, *x.shape[1:])).graph, (x,))
    return [graph.constants[v.name] for n in graph.nodes if n.op.name == "batch_norm" for v in n.inputs[3:5]]


def test_fresh_norms_get_what_torch_finds_in_one_batch():
    x, _ = data(60)
    module, theirs = deep(3), deep(3).train()
    for norm in (m for m in theirs if isinstance(m, nn.BatchNorm1d)):
        norm.momentum = 1.0
    theirs(torch.tensor(x))
    for ours, wanted in zip(found(module, x), statistics(theirs), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)


def test_norms_that_were_trained_stay_as_they_are():
    module = deep(2)
    module[1].running_mean += 0.5
    module[1].running_var *= 2.0
    first, second = found(module, data(60)[0])[:2], found(module, data(60)[0])[2:]
    assert (first[0] == 0.5).all() and (first[1] == 2.0).all()
    assert second[0].any() and (second[1] != 1.0).all()


def test_a_scale_and_shift_that_a_file_spells_as_a_norm_stays_as_it_is():
    module = deep(2)
    nn.init.constant_(module[1].bias, 0.25)
    mean, variance, *_ = found(module, data(60)[0])
    assert not mean.any() and (variance == 1).all()


def test_a_channel_that_is_the_same_in_all_samples_is_not_made_to_vary():
    module = deep(2)
    nn.init.zeros_(module[0].weight)
    mean, variance, *_ = found(module, data(60)[0])
    np.testing.assert_allclose(mean, module[0].bias.detach(), rtol=1e-5)
    assert (variance == 1).all()


@pytest.mark.parametrize("precision", ["int8", "float"])
def test_an_untrained_network_with_many_norms_learns(precision):
    x, y = data(300)
    made = insitu.compile(deep(), data=x[:200], precision=precision)
    made.fit(x[:200], y[:200])
    assert made.evaluate(x[200:], y[200:])["accuracy"] > 0.5


def test_the_note_says_what_became_of_the_norms():
    made = insitu.compile(deep(2), data=data(60)[0], precision="float")
    assert any("batch norms got the statistics of the data" in note for note in made.notes)
