"""Folding: fewer ops, the same function."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.errors import GraphError
from insitu.quantizer import fold
from tests.quantizer.nets import SHAPE, Net, ops, run, samples


def linear(net, x):
    return net.linear(x, 7)


def conv(net, x):
    return net.conv(x, 6, stride=(2, 1))


def no_bias(net, x):
    return net.conv(x, 6, bias=False)


def grouped(net, x):
    return net.conv(x, 6, groups=2)


def depthwise(net, x):
    return net.depthwise(x, m=2, padding=(1, 1, 1, 1))


def conv1d(net, x):
    x = net.op("reshape", x, shape=(1, 30, 4))
    return net.op("conv1d", x, net.const("w", (6, 3, 2)), net.const("b", (6,)), groups=2, padding=(1, 1))


def transposed(net, x):
    w, b = net.const("w", (4, 3, 3, 3)), net.const("b", (6,))
    return net.op("conv_transpose2d", x, w, b, stride=(2, 2), groups=2)


LAYERS = [linear, conv, no_bias, grouped, depthwise, conv1d, transposed]


def same(graph, tolerance=1e-10):
    """The folded graph, after checking that it computes the same in float64."""
    folded = fold(graph)
    for x in samples(graph, 3):
        a, b = (run(g, [x], np.float64) for g in (graph, folded))
        assert np.abs(a - b).max() <= tolerance * np.abs(a).max()
    return folded


@pytest.mark.parametrize("layer", LAYERS)
def test_batch_norm_disappears_into_the_layer_before_it(layer):
    net = Net(dtype="f64")
    g = net.graph(net.batch_norm(layer(net, net.input(*SHAPE))))
    folded = same(g)
    assert ops(folded) == ops(g)[:-1]


@pytest.mark.parametrize("layer", [linear, conv, no_bias, grouped, depthwise, conv1d, transposed])
def test_scale_and_shift_after_a_layer_disappear(layer):
    net = Net(dtype="f64")
    y = layer(net, net.input(*SHAPE))
    y = net.op("sub", net.op("div", y, net.array("std", [2.5])), net.const("mean", (1, y.shape[-1])))
    y = net.op("sub", net.const("one", (1,)), net.op("mul", net.const("scale", y.shape[-1:]), y))
    g = net.graph(y)
    assert ops(same(g)) == ops(g)[:-4]


@pytest.mark.parametrize("layer", [linear, grouped, depthwise])
def test_scale_before_a_layer_disappears(layer):
    net = Net(dtype="f64")
    g = net.graph(layer(net, net.op("mul", net.input(*SHAPE), net.const("scale", (4,)))))
    assert ops(same(g)) == ops(g)[1:]


def test_batch_norm_before_a_convolution_without_padding_disappears():
    net = Net(dtype="f64")
    g = net.graph(net.conv(net.batch_norm(net.input(*SHAPE)), 6, groups=2, padding=(0, 0, 0, 0)))
    assert ops(same(g)) == ["conv2d"]


def test_batch_norm_before_padding_stays_as_mul_and_add():
    net = Net(dtype="f64")
    g = net.graph(net.conv(net.batch_norm(net.input(*SHAPE)), 6))
    assert ops(same(g)) == ["mul", "add", "conv2d"]


@pytest.mark.parametrize("axis", [1, -1])
def test_batch_norm_alone_becomes_mul_and_add(axis):
    net = Net(dtype="f64")
    g = net.graph(net.batch_norm(net.op("relu", net.input(*SHAPE)), axis=axis))
    assert ops(same(g)) == ["relu", "mul", "add"]


def test_a_convolution_that_others_read_is_left_alone():
    net = Net(dtype="f64")
    y = net.conv(net.input(*SHAPE), 4)
    g = net.graph(net.op("add", net.batch_norm(y), y))
    assert ops(same(g)) == ["conv2d", "mul", "add", "add"]


def test_layers_and_weights_keep_their_names():
    net = Net()
    y = net.batch_norm(net.conv(net.input(*SHAPE), 4, name="features.0", bias=False), name="features.1")
    y = net.op("mul", net.op("relu", y, name="features.2"), net.const("gain", (4,)), name="gain.0")
    folded = fold(net.graph(net.batch_norm(net.linear(y, 3, name="head"), name="head.bn")))
    assert [n.name for n in folded.nodes] == ["features.0", "features.2", "head"]
    assert [v.name for v in folded.nodes[0].inputs] == ["x", "features.0.weight", "features.0.bias"]
    assert [v.name for v in folded.nodes[2].inputs] == ["features.2", "head.weight", "head.bias"]


@pytest.mark.parametrize(
    ("before", "attrs", "after"),
    [
        ("clamp", {}, []),
        ("clamp", {"lo": 0.0, "hi": 6.0}, ["relu6"]),
        ("clamp", {"lo": 0.0}, ["relu"]),
        ("clamp", {"lo": -0.5, "hi": 0.5}, ["clamp"]),
        ("relu6", {}, ["relu6"]),
        ("dropout", {"p": 0.3}, []),
    ],
)
def test_what_does_nothing_is_dropped_and_what_has_a_name_gets_it(before, attrs, after):
    net = Net(dtype="f64")
    g = net.graph(net.op("abs", net.op(before, net.input(*SHAPE), **attrs)))
    assert ops(same(g)) == [*after, "abs"]


def test_a_clamp_of_what_is_within_its_bounds_is_dropped():
    net = Net()
    y = net.op("relu", net.op("relu6", net.op("relu6", net.input(*SHAPE))))
    assert ops(fold(net.graph(y))) == ["relu6"]


def test_zeros_around_an_image_become_the_padding_of_the_convolution():
    net = Net(dtype="f64")
    x = net.op("pad", net.input(*SHAPE), pads=((0, 0), (0, 1), (2, 1), (0, 0)))
    folded = same(net.graph(net.conv(x, 3)))
    assert ops(folded) == ["conv2d"]
    assert folded.nodes[0].attrs["padding"] == (1, 2, 3, 2)


@pytest.mark.parametrize(("value", "act", "kept"), [(-1e38, "tanh", False), (0.0, "relu", False), (0.0, "tanh", True)])
def test_padding_that_never_wins_becomes_that_of_the_max_pool(value, act, kept):
    net = Net(dtype="f64")
    x = net.op("pad", net.op(act, net.input(*SHAPE)), pads=((0, 0), (1, 0), (1, 1), (0, 0)), value=value)
    folded = same(net.graph(net.op("max_pool2d", x, kernel=(3, 3), stride=(2, 2))))
    assert ("pad" in ops(folded)) == kept


def test_what_depends_on_constants_alone_is_computed():
    net = Net(dtype="f64")
    w = net.op("transpose", net.const("w", (4, 7)), perm=(1, 0))
    g = net.graph(net.op("linear", net.input(*SHAPE), w))
    assert ops(same(g)) == ["linear"]


def test_a_folded_graph_is_given_back_as_it_is():
    net = Net()
    folded = fold(net.graph(net.batch_norm(net.conv(net.input(*SHAPE), 4))))
    assert fold(folded) is folded


def test_batch_norm_with_parameters_from_outside_is_refused_by_name():
    net = Net()
    x = net.input(1, 4)
    inputs = [net.input(4, name=n) for n in ("scale", "bias", "mean", "var")]
    with pytest.raises(GraphError, match="%norm"):
        fold(net.graph(net.op("batch_norm", x, *inputs, name="norm")))


STEPS = {
    "conv": lambda net, x, i: net.conv(x, 4, name=f"conv{i}", padding=(1, 1, 1, 1)),
    "narrow": lambda net, x, i: net.conv(x, 4, 1, name=f"narrow{i}"),
    "depthwise": lambda net, x, i: net.depthwise(x, f"depthwise{i}", padding=(1, 1, 1, 1)),
    "linear": lambda net, x, i: net.linear(x, 4, name=f"linear{i}"),
    "batch_norm": lambda net, x, i: net.batch_norm(x, name=f"bn{i}"),
    "mul": lambda net, x, i: net.op("mul", x, net.const(f"c{i}", (4,), 0.5, 2)),
    "add": lambda net, x, i: net.op("add", net.const(f"c{i}", (1, 1, 4)), x),
    "sub": lambda net, x, i: net.op("sub", net.const(f"c{i}", ()), x),
    "div": lambda net, x, i: net.op("div", x, net.const(f"c{i}", (4,), 0.5, 2)),
    "rows": lambda net, x, i: net.op("mul", x, net.const(f"c{i}", (6, 1, 1))),
    "relu": lambda net, x, i: net.op("relu", x),
    "relu6": lambda net, x, i: net.op("clamp", x, lo=0.0, hi=6.0),
    "dropout": lambda net, x, i: net.op("dropout", x),
    "pad": lambda net, x, i: net.op("slice", net.op("pad", x, pads=((0, 0), (1, 0), (0, 0), (0, 0))),
                                    starts=(0,) * 4, stops=SHAPE, steps=(1,) * 4),
    "skip": lambda net, x, i: net.op("add", x, net.op("tanh", x)),
}  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=7))
def test_folding_any_chain_keeps_what_it_computes(steps):
    net = Net(dtype="f64")
    x = net.input(*SHAPE)
    for i, step in enumerate(steps):
        x = STEPS[step](net, x, i)
    same(net.graph(x, net.op("neg", x)))


def test_in_float32_folding_stays_within_rounding():
    net = Net()
    g = net.graph(net.batch_norm(net.conv(net.input(*SHAPE), 8)))
    a, b = run(g, samples(g), np.float64), run(fold(g), samples(g), np.float64)
    assert np.abs(a - b).max() <= 1e-6 * np.abs(a).max()
