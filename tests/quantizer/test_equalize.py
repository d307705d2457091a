"""Equal ranges of channels before a depthwise convolution: exact, and worth it."""

import numpy as np

from insitu.quantizer import calibrate, quantize
from insitu.quantizer.equalize import equalize
from tests.quantizer.nets import SHAPE, Net, run, samples, sqnr


def uneven(act="relu", seed=0):
    """conv, act, depthwise, with channels up to twenty times as large as others."""
    net = Net(seed)
    sizes = np.array([20, 1, 2, 10, 1, 4])
    y = net.op("mul", net.conv(net.input(*SHAPE), 6), net.array("sizes", sizes))
    y = net.depthwise(net.op(act, y, name="act"))
    return net.graph(net.op("mul", y, net.array("back", 1 / sizes)))


def folded_and_ranges(graph):
    from insitu.quantizer import fold

    return fold(graph), calibrate(graph, samples(graph, 100), method="minmax")


def test_equalising_keeps_the_function_and_evens_the_channels():
    g, ranges = folded_and_ranges(uneven())
    even, after = equalize(g, ranges)
    fresh = samples(g, 5, seed=2)
    a, b = run(g, fresh, np.float64), run(even, fresh, np.float64)
    assert np.abs(a - b).max() <= 1e-5 * np.abs(a).max()
    before, now = ranges.channels["act"][1], after.channels["act"][1]
    assert before.max() > 10 * before.min()
    assert np.allclose(now, now.max())


def test_the_new_ranges_are_those_a_second_calibration_finds():
    g, ranges = folded_and_ranges(uneven("leaky_relu"))
    even, after = equalize(g, ranges)
    again = calibrate(even, samples(g, 100), method="minmax")
    for name in again:
        assert np.allclose(after[name], again[name], rtol=1e-4), name
        assert np.allclose(after.means[name], again.means[name], rtol=1e-3, atol=1e-4), name


def test_equal_channels_lower_the_error():
    g = uneven()
    ranges = calibrate(g, samples(g, 100), method="minmax")
    fresh = samples(g, 30, seed=2)
    wanted = run(g, fresh)
    plain, even = (sqnr(wanted, run(quantize(g, ranges, equalize_channels=e), fresh)) for e in (False, True))
    assert even > plain + 10


def test_relu6_and_values_that_others_read_are_left_alone():
    g, ranges = folded_and_ranges(uneven("relu6"))
    assert equalize(g, ranges)[1] is ranges
    net = Net()
    y = net.op("relu", net.conv(net.input(*SHAPE), 6))
    g, ranges = folded_and_ranges(net.graph(net.depthwise(y), net.op("neg", y)))
    assert equalize(g, ranges)[1] is ranges
