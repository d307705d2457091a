"""Several samples at once are the same as one after the other, or refused: nothing mixes them."""

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.devices.device import Updates
from insitu.errors import GraphError
from insitu.graph import Builder, build, evaluate, f32, lookup
from insitu.training.passes.rebatch import rebatch

SAMPLES = 4


def graph_of(function, *shape):
    builder = Builder("net")
    with build(builder):
        y = function(builder.input("x", f32(1, *shape)))
    return builder.graph(y)


def op(name, **attrs):
    return lambda x: lookup(name)(x, **attrs)


MIXED = {
    "mean": op("mean", axes=(0, 1)),
    "largest, with an axis of one element in its place": op("amax", axes=(0, 2)),
    "softmax": op("softmax", axis=0),
    "running sum": op("cumsum", axis=0),
    "turned, with as many elements as samples": op("transpose", perm=(1, 0, 2)),
    "normalised": op("layer_norm", dims=3),
    "reshaped": op("reshape", shape=(4, 1, 3)),
}


@pytest.mark.parametrize("name", MIXED)
def test_what_mixes_samples_is_refused(name):
    shape = (1, 3) if "one element" in name else (SAMPLES, 3)
    with pytest.raises(GraphError, match="moves the sample axis"):
        rebatch(graph_of(MIXED[name], *shape), SAMPLES)


APART = {
    "mean": op("mean", axes=(1,)),
    "softmax": op("softmax", axis=-1),
    "turned": op("transpose", perm=(0, 2, 1)),
    "normalised": op("layer_norm", dims=2),
    "reshaped": op("reshape", shape=(1, 2, 6)),
}


@pytest.mark.parametrize("name", APART)
def test_several_at_once_are_each_as_alone(name):
    x = np.random.default_rng(0).normal(size=(SAMPLES, 4, 3))
    one = graph_of(APART[name], 4, 3)
    together = evaluate(rebatch(one, SAMPLES), x, precision=np.float64)
    assert np.allclose(together, np.concatenate([evaluate(one, x[i : i + 1], precision=np.float64) for i in range(4)]))


class Signal(nn.Module):
    """A pool of a signal is one of an image whose height is 1, an axis like that of the samples."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.fc = nn.Conv1d(4, 8, 3), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(nn.functional.max_pool1d(torch.relu(self.norm(self.conv(x))), 2).amax(-1))


def test_the_loss_of_a_batch_of_signals_is_that_of_torch():
    x, y = np.random.default_rng(0).normal(size=(SAMPLES, 4, 20)).astype(np.float32), np.arange(SAMPLES) % 3
    options = {"precision": "float", "scheme": "full", "classes": 3, "head_init": "own", "batch": SAMPLES}
    made = insitu.compile(Signal().eval(), example=torch.zeros(1, 4, 20), **options)
    losses = made.device.train(Updates((x, y.astype(np.int32)), range(SAMPLES), [0.01], SAMPLES)).losses
    wanted = nn.functional.cross_entropy(Signal().train()(torch.tensor(x)), torch.tensor(y)).item()
    assert np.isclose(np.mean(losses), wanted, rtol=1e-5)
