"""Post-training int8: close to the float network, and clear about what is not int8."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.errors import GraphError
from insitu.graph import check, parse, to_text
from insitu.graph.text import arrays
from insitu.quantizer import Ranges, calibrate, fallbacks, quantize
from tests.quantizer.near import agrees, quantised
from tests.quantizer.nets import SHAPE, Net, ops, run, samples, values


# one network per kind of lowering: its ops, and the int8 ops they must become
def conv_relu(net, x):
    return net.op("relu", net.conv(x, 8))


def conv_relu6(net, x):
    return net.op("relu6", net.op("mul", net.conv(x, 8), net.array("c", 9.0)))


def conv_clamp(net, x):
    return net.op("clamp", net.conv(x, 8, groups=2), lo=-0.5, hi=0.75)


def depthwise(net, x):
    return net.depthwise(x, m=2, padding=(1, 1, 1, 1))


def linear(net, x):
    return net.linear(net.op("reshape", x, shape=(1, -1)), 5)


def conv1d(net, x):
    x = net.op("reshape", x, shape=(1, 30, 4))
    x = net.op("relu", net.op("conv1d", x, net.const("w", (6, 3, 2)), groups=2, stride=2, padding=(1, 0)))
    return net.op("conv1d", x, net.const("v", (6, 3, 1)), net.const("b", (6,)), groups=6, dilation=2)


def transposed(net, x):
    w, b = net.const("w", (4, 3, 3, 3)), net.const("b", (6,))
    attrs = {"stride": (2, 2), "padding": (1, 1, 1, 0), "output_padding": (1, 0), "groups": 2}
    return net.op("relu", net.op("conv_transpose2d", x, w, b, **attrs))


def transposed_sparse(net, x):
    return net.op("conv_transpose2d", x, net.const("w", (4, 2, 1, 3)), stride=(3, 2), dilation=(1, 1))


def residual(net, x):
    return net.op("relu", net.op("add", x, net.conv(x, 4)))


def difference(net, x):
    return net.op("sub", x, net.conv(x, 4))


def squeeze_excite(net, x):
    s = net.op("mean", x, axes=(1, 2), keepdims=True)
    return net.op("mul", net.op("hard_sigmoid", net.conv(s, 4, 1)), x)


def tensor_constant(net, x):
    return net.op("add", x, net.const("position", (6, 5, 1)))


def attention(net, x):
    x = net.op("reshape", x, shape=(1, 30, 4))
    return net.op("matmul", x, net.op("transpose", net.linear(x, 4), perm=(0, 2, 1)))


def constant_matrix(net, x):
    return net.op("matmul", x, net.const("w", (4, 6)))


def channels(net, x):
    y = net.op("add", net.op("mul", net.op("tanh", x), net.array("a", [1, -30, 0.1, 2])), net.const("b", (4,)))
    return net.op("mul", y, net.array("c", [1, 1 / 30, 10, 0.5]))


def channels_of_rows(net, x):
    x = net.op("reshape", x, shape=(30, 4))
    return net.op("add", net.op("div", x, net.array("a", [1, 3, 0.5, 2])), net.const("b", (4,)))


def pools(net, x):
    x = net.op("max_pool2d", x, kernel=(2, 2), stride=(1, 1), padding=(1, 0, 0, 1))
    return net.op("avg_pool2d", x, kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1))


def sums(net, x):
    return net.op("sum", net.op("square", x), axes=(1, 2))


def highest(net, x):
    return net.op("amax", x, axes=(1, 2))


def concat(net, x):
    y = net.op("concat", net.conv(x, 3), net.op("sigmoid", x), x, net.const("c", (1, 6, 5, 2)), axis=-1)
    return net.op("add", y, net.op("concat", x, x, x, net.conv(y, 1, name="last"), axis=3))


def moves(net, x):
    a, b = net.op("split", net.op("transpose", x, perm=(0, 2, 1, 3)), sizes=(1, 3), axis=-1)
    x = net.op("concat", b, a, axis=-1)
    x = net.op("pad", x, pads=((0, 0), (1, 0), (0, 2), (0, 0)), value=0.5)
    x = net.op("slice", x, starts=(0, 1, 0, 0), stops=(1, 6, 8, 4), steps=(1, 2, 1, 1))
    return net.op("resize", x, size=(5, 7))


def softmax(net, x):
    return net.op("softmax", net.op("mul", x, net.array("c", 2.0)))


def softmax_of_rows(net, x):
    return net.op("softmax", x, axis=1)


def slopes(net, x):
    return net.op("prelu", x, net.array("slope", [0.3]))


def chain(net, x):
    y = net.op("relu6", net.op("add", x, net.array("three", [3.0])))
    return net.op("div", net.op("mul", net.array("two", [2.0]), y), net.array("six", [[6.0]]))


CASES = {
    conv_relu: ["conv2d_s8"],
    conv_relu6: ["conv2d_s8"],
    conv_clamp: ["conv2d_s8"],
    depthwise: ["depthwise2d_s8"],
    linear: ["reshape", "linear_s8"],
    conv1d: ["reshape", "reshape", "conv2d_s8", "reshape", "reshape", "depthwise2d_s8", "reshape"],
    transposed: ["reshape", "pad", "reshape", "conv2d_s8"],
    transposed_sparse: ["reshape", "pad", "reshape", "slice", "conv2d_s8"],
    residual: ["conv2d_s8", "add_s8"],
    difference: ["conv2d_s8", "sub_s8"],
    squeeze_excite: ["mean_s8", "conv2d_s8", "lut_s8", "mul_s8"],
    tensor_constant: ["add_s8"],
    attention: ["reshape", "linear_s8", "transpose", "matmul_s8"],
    constant_matrix: ["linear_s8"],
    channels: ["lut_s8", "depthwise2d_s8"],
    channels_of_rows: ["reshape", "reshape", "depthwise2d_s8", "reshape"],
    pools: ["max_pool2d", "avg_pool2d_s8"],
    sums: ["lut_s8", "mean_s8", "lut_s8"],
    highest: ["amax"],
    concat: None,
    moves: ["transpose", "split", "concat", "pad", "slice", "resize"],
    softmax: ["lut_s8", "softmax_s8"],
    softmax_of_rows: ["transpose", "softmax_s8", "transpose"],
    slopes: ["lut_s8"],
    chain: ["lut_s8"],
}


@pytest.mark.parametrize("case", CASES)
def test_int8_is_near_float_and_has_the_kernels_meant_for_it(case):
    net = Net()
    g = net.graph(case(net, net.input(*SHAPE)))
    q = agrees(g)
    assert fallbacks(q) == []
    if CASES[case] is not None:
        assert ops(q) == ["quantize", *CASES[case], "dequantize"]


UNARY = [
    "relu", "relu6", "leaky_relu", "sigmoid", "tanh", "hard_sigmoid", "hard_swish", "silu", "gelu", "elu", "softplus",
    "exp", "neg", "abs", "square", "erf", "sqrt", "log", "rsqrt", "reciprocal",
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_every_unary_function_is_one_table(name):
    net = Net()
    x = net.input(*SHAPE)
    if name in ("sqrt", "log", "rsqrt", "reciprocal"):  # only for positive numbers
        x = net.op("add", net.op("abs", x), net.array("c", 0.5))
    assert ops(agrees(net.graph(net.op(name, x)), 26)) == ["quantize", "lut_s8", "dequantize"]


def layer_norm(net, x):
    return net.op("layer_norm", x, net.const("scale", (4,)), name="norm")


def quotient(net, x):
    return net.op("div", x, net.op("add", net.op("abs", net.conv(x, 4)), net.array("one", 1.0)), name="norm")


def log_softmax(net, x):
    return net.op("log_softmax", x, name="norm")


def slopes_of_channels(net, x):
    return net.op("prelu", x, net.const("slope", (4,)), name="norm")


@pytest.mark.parametrize("case", [layer_norm, quotient, log_softmax, slopes_of_channels])
def test_what_has_no_int8_kernel_runs_in_float_and_says_so(case):
    net = Net()
    g = net.graph(net.conv(case(net, net.conv(net.input(*SHAPE), 4, name="first")), 3, name="last"))
    q = agrees(g)
    (node,) = fallbacks(q)
    assert node.name == "norm"
    assert any("norm" in note and "float" in note for note in q.notes)
    assert [ops(q)[0], ops(q)[-2]] == ["quantize", "conv2d_s8"]
    assert "dequantize" in ops(q)[1:-1]


def test_neighbouring_float_ops_are_not_quantised_in_between():
    net = Net()
    x = net.op("reshape", layer_norm(net, net.conv(net.input(*SHAPE), 4)), shape=(1, 30, 4))
    q = agrees(net.graph(net.op("log_softmax", x)), 30)
    assert ops(q) == ["quantize", "conv2d_s8", "dequantize", "layer_norm", "reshape", "log_softmax"]


def test_weights_from_outside_fall_back():
    net = Net()
    x, w = net.input(1, 4), net.input(3, 4, name="w")
    q = agrees(net.graph(net.linear(net.op("linear", x, w), 2, name="next")))
    assert [n.op.name for n in fallbacks(q)] == ["linear"]


def test_an_int8_graph_passes_through_untouched():
    net = Net()
    q = quantised(net.graph(conv_relu(net, net.input(*SHAPE))))
    assert quantize(q, Ranges({})) is q
    assert fallbacks(net.graph()) == []


def test_the_numerics_are_those_of_the_contract():
    net = Net()
    q = quantised(net.graph(conv_relu(net, net.input(*SHAPE))))
    conv = q.nodes[1]
    x, w, b = (v.type for v in conv.inputs)
    assert conv.attrs["rounding"] == "single"
    assert conv.output.type.zero == -128
    assert w.quant and w.quant.axis == 0 and len(w.quant.scale) == 8 and w.zero == 0
    assert q.constants["conv.weight"].min() >= -127
    assert (np.abs(q.constants["conv.weight"]).reshape(8, -1).max(axis=1) == 127).all()
    assert b.dtype == "s32" and b.quant and np.allclose(b.quant.scale, x.scale * np.array(w.quant.scale))
    assert x.scale == np.float32(x.scale)


def test_a_fused_clamp_is_in_output_integers():
    net = Net()
    q = quantised(net.graph(net.op("clamp", net.conv(net.input(*SHAPE), 8), lo=-0.5, hi=0.75)))
    t, conv = q.nodes[1].output.type, q.nodes[1]
    assert (conv.attrs["lo"], conv.attrs["hi"]) == (-128, 127)
    assert t.scale * (127 - t.zero) == pytest.approx(0.75, abs=t.scale)
    assert t.scale * (-128 - t.zero) == pytest.approx(-0.5, abs=t.scale)


def test_a_relu_that_shares_its_input_is_not_fused_away():
    net = Net()
    y = net.conv(net.input(*SHAPE), 4)
    q = agrees(net.graph(net.op("concat", net.op("relu", y), y, axis=-1)))
    assert "lut_s8" in ops(q)


@pytest.mark.parametrize(
    ("name", "scale", "zero"), [("sigmoid", 1 / 256, -128), ("tanh", 1 / 128, 0), ("softmax", 1 / 256, -128)]
)
def test_known_ranges_do_not_depend_on_the_data(name, scale, zero):
    net = Net()
    q = quantised(net.graph(net.op(name, net.input(*SHAPE))), [np.full(SHAPE, 0.01)])
    t = q.nodes[-2].output.type
    assert (t.scale, t.zero) == (scale, zero)


def test_inputs_of_a_concat_share_a_scale_unless_others_read_them():
    net = Net()
    x = net.input(*SHAPE)
    q = quantised(net.graph(net.op("concat", net.conv(x, 2, name="a"), net.conv(x, 2, name="b"), axis=-1)))
    assert "requantize_s8" not in ops(q)
    net = Net()
    x = net.input(*SHAPE)
    y = net.conv(x, 2)
    q = quantised(net.graph(net.op("concat", y, net.conv(x, 2, name="b"), axis=-1), net.op("neg", y)))
    assert ops(q).count("requantize_s8") == 1


def test_integer_inputs_and_outputs_on_request():
    net = Net()
    g = net.graph(net.linear(conv_relu(net, net.input(*SHAPE)), 3))
    ranges = calibrate(g, samples(g))
    inside, outside = quantize(g, ranges, float_io=False), quantize(g, ranges)
    assert inside.inputs[0].dtype == inside.outputs[0].dtype == "s8"
    assert ops(outside) == ["quantize", *ops(inside), "dequantize"]
    env = values(outside, samples(g)[0])
    assert np.array_equal(run(inside, [env["x.s8"]])[0], env["linear"])


def test_an_int8_graph_prints_and_parses_back():
    net = Net()
    q = quantised(net.graph(net.op("softmax", net.linear(concat(net, net.input(*SHAPE)), 3))))
    assert to_text(parse(to_text(q), arrays(q))) == to_text(q)
    check(q, "int8")


def test_a_graph_that_was_not_calibrated_is_refused_by_name():
    net = Net()
    with pytest.raises(GraphError, match="%conv"):
        quantize(net.graph(net.conv(net.input(*SHAPE), 4)), Ranges({"x": (-1, 1)}))


# --- any small network --------------------------------------------------------------------------------------

BLOCKS = {
    "conv": lambda net, x, i: net.op("relu", net.batch_norm(net.conv(x, 6, name=f"conv{i}"), name=f"bn{i}")),
    "linear": lambda net, x, i: net.conv(x, 5, 1, name=f"linear{i}"),
    "swish": lambda net, x, i: net.op("hard_swish", net.conv(x, 4, name=f"swish{i}")),
    "depthwise": lambda net, x, i: net.op("relu6", net.depthwise(x, f"depthwise{i}", padding=(1, 1, 1, 1))),
    "residual": lambda net, x, i: net.op("add", x, net.conv(x, x.shape[-1], name=f"residual{i}")),
    "excite": lambda net, x, i: net.op(
        "mul", x, net.op("sigmoid", net.conv(net.op("mean", x, axes=(1, 2), keepdims=True), x.shape[-1], 1, f"se{i}"))
    ),
    "pool": lambda net, x, i: net.op("max_pool2d", x, kernel=(2, 2), stride=(1, 1), padding=(0, 1, 0, 1)),
    "average": lambda net, x, i: net.op("avg_pool2d", x, kernel=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1)),
    "concat": lambda net, x, i: net.op("concat", x, net.conv(x, 2, name=f"concat{i}"), axis=-1),
    "norm": lambda net, x, i: net.batch_norm(x, name=f"norm{i}"),
}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(sorted(BLOCKS)), min_size=1, max_size=5), st.integers(0, 99))
def test_any_small_cnn_is_near_its_float_self(blocks, seed):
    net = Net(seed)
    x = net.input(*SHAPE)
    for i, block in enumerate(blocks):
        x = BLOCKS[block](net, x, i)
    agrees(net.graph(net.linear(x, 5, name="head")), 18)
