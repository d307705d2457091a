"""Int8 where ranges are degenerate: empty, tiny, huge, or cancelling to almost nothing."""

import numpy as np
import pytest

from insitu.quantizer import Ranges, calibrate, fallbacks, quantize
from insitu.quantizer.scales import activation_quant
from tests.quantizer.near import agrees, quantised
from tests.quantizer.nets import SHAPE, Net, run, samples


@pytest.mark.parametrize(
    ("low", "high"), [(0, 0), (1, 1), (-2, -2), (0.5, 3), (-3, -0.5), (-1e-30, 1e-30), (-1e30, 1e30), (0, 1e-12)]
)
def test_any_range_gives_a_scale_that_holds_zero_exactly(low, high):
    q = activation_quant(low, high)
    assert q.scale[0] > 0 and -128 <= q.zero <= 127
    lowest, highest = (q.scale[0] * (n - q.zero) for n in (-128, 127))
    assert lowest <= max(low, lowest) and highest >= high - q.scale[0] and lowest <= low + q.scale[0]


@pytest.mark.parametrize("scale", [0.0, 1e-9, 1e9])
def test_dead_tiny_and_huge_channels_survive(scale):
    net = Net()
    x = net.input(*SHAPE)
    w = net.rng.uniform(-1, 1, (4, 3, 3, 4))
    w[1] *= scale
    b = np.array([0.5, 0.25, -1.0, 0.0])
    y = net.op("conv2d", x, net.array("w", w), net.array("b", b), padding=(1, 1, 1, 1), name="conv")
    g = net.graph(y)
    q = quantised(g)
    fresh = samples(g, 10, seed=2)
    a, b = run(g, fresh), run(q, fresh)
    step = q.nodes[1].output.type.scale
    assert np.abs(a[..., 1] - b[..., 1]).max() <= 0.02 * np.abs(a[..., 1]).max() + step


def test_a_network_that_gives_only_zeros_is_quantised():
    net = Net()
    x = net.input(*SHAPE)
    y = net.op("relu", net.op("conv2d", x, net.array("w", np.zeros((3, 1, 1, 4))), net.array("b", [-1, -2, 0])))
    g = net.graph(net.conv(net.op("sub", y, y), 2, bias=False))
    assert np.array_equal(run(quantised(g), samples(g, 3)), np.zeros((3, 1, 6, 5, 2)))


@pytest.mark.parametrize("op", ["sub", "mul", "matmul", "linear"])
def test_terms_that_cancel_to_almost_nothing_fall_back_to_float(op):
    net = Net()
    x = net.input(4, 4)
    big = net.op("mul", x, net.array("big", 1e6))
    if op == "linear":
        y = net.op("linear", big, net.array("w", [[1e6, -1e6, 1e6, -1e6]]), name="y")
    else:
        y = net.op(op, big, net.op("neg", big), name="y")
    g = net.graph(net.linear(y, 2))
    data = [np.ones((4, 4)), np.zeros((4, 4))]
    ranges = calibrate(g, data, method="minmax")
    q = quantize(g, Ranges({**ranges.bounds, "y": (-1e-7, 1e-7)}, ranges.means, ranges.channels))
    assert [n.name for n in fallbacks(q)] == ["y"]
    assert np.isfinite(run(q, data)).all()


def test_a_single_number_is_quantised():
    net = Net()
    g = net.graph(net.op("mean", net.op("exp", net.input(*SHAPE)), axes=(0, 1, 2, 3)))
    agrees(g, 20)


def test_a_constant_input_is_quantised():
    net = Net()
    g = net.graph(net.conv(net.input(*SHAPE), 2))
    q = quantised(g, [np.full(SHAPE, 3.0)])
    a, b = run(g, [np.full(SHAPE, 3.0)]), run(q, [np.full(SHAPE, 3.0)])
    assert np.abs(a - b).max() <= 0.02 * np.abs(a).max()


def test_a_huge_bias_stays_within_int32():
    net = Net()
    x = net.input(1, 4)
    g = net.graph(net.op("linear", x, net.array("w", np.full((2, 4), 1e-7)), net.array("b", [1e4, -1e4])))
    q = quantised(g)
    assert np.allclose(run(q, samples(g, 3)), run(g, samples(g, 3)), rtol=0.01)
