"""x / 255 in front of a network stays apart, so that its first layer learns like that of a network for x / 255."""

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.ops.normalize import normalize
from insitu.quantizer import fold


class Scaled(nn.Module):
    def __init__(self, body, factor, shift):
        super().__init__()
        self.body, self.factor, self.shift = body, factor, shift

    def forward(self, x):
        return self.body(x * self.factor + self.shift)


def body():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)).eval()  # fmt: skip


def pixels(n=24):
    rng = np.random.default_rng(0)
    return np.rint(rng.uniform(0, 255, (n, 3, 14, 10))).astype(np.float32), np.arange(n) % 3


@pytest.mark.parametrize(("factor", "shift"), [(1 / 255, 0.0), (1 / 127.5, -1.0), (100.0, 2.0)])
def test_a_network_that_scales_its_input_learns_like_one_that_is_given_it_scaled(factor, shift):
    """Apart from the last bits of the products, both see the same numbers; folded, weights were 255 times smaller."""
    x, y = pixels()
    x = x if factor < 1 else x / 25500
    plain = insitu.compile(body(), data=x * factor + shift, scheme="full", precision="int8")
    scaled = insitu.compile(Scaled(body(), factor, shift), data=x, scheme="full", precision="int8")
    assert [n.op for n in scaled.graphs["predict"].nodes].count(normalize) == 1
    for learner, data in ((plain, x * factor + shift), (scaled, x)):
        learner.fit(data, y, rate=0.01, epochs=3)
    np.testing.assert_allclose(scaled.predict(x), plain.predict(x * factor + shift), atol=0.02)


def test_a_factor_near_one_is_still_folded():
    x, _ = pixels()
    graph = insitu.load(Scaled(body(), 0.5, 0.0), torch.from_numpy(x[:1])).graph
    assert normalize not in [n.op for n in fold(graph).nodes]


def test_an_input_that_is_scaled_for_two_layers_gives_the_same_outputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = body(), body()

        def forward(self, x):
            x = x / 255
            return self.a(x) + self.b(x * 0.5)

    x, _ = pixels()
    net = Two().eval()
    model = insitu.load(net, torch.from_numpy(x[:1]))
    expected = net(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(insitu.Model(fold(model.graph)).predict(x), expected, rtol=1e-4, atol=1e-5)
