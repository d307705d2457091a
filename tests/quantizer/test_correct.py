"""Bias correction and the choice of weight scales."""

import numpy as np
import pytest

from insitu.ops.conv import conv2d
from insitu.quantizer import calibrate, quantize
from insitu.quantizer.weights import quantize_weights, response
from tests.quantizer.nets import SHAPE, Net, run, samples


def coarse(layer):
    """A layer with weights that round badly, on inputs whose mean is far from zero."""
    net = Net(3)
    x = net.op("abs", net.input(*SHAPE))
    if layer == "conv":
        w = net.rng.uniform(-0.01, 0.01, (4, 5, 5, 4))
        w[:, 0, 0, 0] = 1.0  # one large weight makes the scale coarse for the others
        return net.graph(net.op("conv2d", x, net.array("w", w)))
    w = net.rng.uniform(-0.01, 0.01, (5, 120))
    w[:, 0] = 1.0
    return net.graph(net.op("linear", net.op("reshape", x, shape=(1, 120)), net.array("w", w)))


@pytest.mark.parametrize("layer", ["conv", "linear"])
def test_bias_correction_takes_off_the_mean_error(layer):
    g = coarse(layer)
    data = samples(g, 200)
    ranges = calibrate(g, data, method="minmax")
    wanted = run(g, data)
    axes = tuple(range(wanted.ndim - 1))

    def mean_error(**options):
        return np.abs((run(quantize(g, ranges, **options), data) - wanted).mean(axis=axes)).max()

    assert mean_error() < 0.4 * mean_error(bias_correction=False)


def test_a_response_is_what_a_constant_image_gives():
    net = Net()
    x = net.input(*SHAPE)
    g = net.graph(net.conv(x, 6, groups=2, bias=False, padding=(0, 0, 0, 0)))
    level = np.array([1.0, -2.0, 0.5, 3.0])
    y = run(g, [np.broadcast_to(level, SHAPE)], np.float64)[0]
    assert np.allclose(y[0, 0, 0], response(conv2d, g.constants["conv.weight"], level, {"groups": 2}))


def test_weights_are_symmetric_and_use_all_of_int8():
    w = np.random.default_rng(0).normal(size=(5, 3, 3, 2))
    q = quantize_weights(w, np.zeros(5), 0)
    assert (np.abs(q.integers).reshape(5, -1).max(axis=1) == 127).all()
    assert np.abs(q.real - w).max() <= q.scale.max() / 2 * 1.001


def test_one_scale_for_all_is_the_largest():
    w = np.random.default_rng(0).normal(size=(3, 3, 4)) * [1, 2, 3, 4]
    q = quantize_weights(w, np.zeros(4), 2, per_channel=False)
    assert q.scale.shape == (1,)
    assert np.abs(q.integers).max() == 127


def test_clipping_lowers_the_error_of_weights_with_an_outlier():
    w = np.random.default_rng(0).normal(size=(2, 4000))
    w[0, 0] = 30.0

    def error(clip):
        return ((quantize_weights(w, np.zeros(2), 0, clip=clip).real - w) ** 2).sum(axis=1)

    assert (error(True) <= error(False)).all()
    assert error(True)[0] < error(False)[0]


def test_one_scale_for_all_channels_is_coarser_but_works():
    net = Net()
    g = net.graph(net.conv(net.input(*SHAPE), 4))
    ranges = calibrate(g, samples(g))
    q = quantize(g, ranges, per_channel=False)
    assert not q.nodes[1].inputs[1].type.quant.per_channel  # type: ignore[union-attr]
    a, b = run(g, samples(g)), run(q, samples(g))
    assert np.abs(a - b).max() < 0.1 * np.abs(a).max()
