"""The meaning of the elementwise, normalisation and layout ops, compared with torch in float64; what they refuse."""

import numpy as np
import pytest

import insitu.ops  # noqa: F401  fills the registry
from insitu.errors import GraphError
from insitu.graph import build, evaluate, f32, lookup, s8, type_of

torch = pytest.importorskip("torch", reason="compares with torch")
F = torch.nn.functional

RNG = np.random.default_rng(7)
X = np.concatenate([RNG.uniform(-8, 8, 58), [0.0, -3.0, 3.0, 6.0, -1e-3, 1e-3]]).reshape(4, 16)
POSITIVE = np.abs(X) + 0.01
IMAGE = RNG.normal(size=(2, 5, 4, 3))


def run(op: str, *arrays, **attrs):
    with build(op) as b:
        inputs = [b.input(f"x{i}", type_of(np.asarray(a, np.float32))) for i, a in enumerate(arrays)]
        results = lookup(op)(*inputs, **attrs)
        graph = b.graph(*(results if isinstance(results, tuple) else (results,)))
    return evaluate(graph, *arrays, precision=np.float64)


UNARY = {
    "relu": (F.relu, {}),
    "relu6": (F.relu6, {}),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), {"slope": 0.2}),
    "clamp": (lambda x: torch.clamp(x, -1.5, 2.0), {"lo": -1.5, "hi": 2.0}),
    "sigmoid": (torch.sigmoid, {}),
    "tanh": (torch.tanh, {}),
    "hard_sigmoid": (F.hardsigmoid, {}),
    "hard_swish": (F.hardswish, {}),
    "silu": (F.silu, {}),
    "gelu": (F.gelu, {}),
    "elu": (lambda x: F.elu(x, 0.7), {"alpha": 0.7}),
    "softplus": (lambda x: F.softplus(x, threshold=1000), {}),
    "exp": (torch.exp, {}),
    "erf": (torch.erf, {}),
    "neg": (torch.neg, {}),
    "abs": (torch.abs, {}),
    "square": (torch.square, {}),
    "softmax": (lambda x: F.softmax(x, 0), {"axis": 0}),
    "log_softmax": (lambda x: F.log_softmax(x, -1), {}),
    "layer_norm": (lambda x: F.layer_norm(x, (16,)), {}),
    "dropout": (lambda x: F.dropout(x, 0.3, training=False), {"p": 0.3}),
}
OF_POSITIVE = {"log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal}


@pytest.mark.parametrize("op", UNARY)
def test_unary_ops_mean_what_torch_means(op):
    function, attrs = UNARY[op]
    np.testing.assert_allclose(run(op, X, **attrs), function(torch.tensor(X)).numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("op", OF_POSITIVE)
def test_functions_of_positive_numbers_mean_what_torch_means(op):
    np.testing.assert_allclose(run(op, POSITIVE), OF_POSITIVE[op](torch.tensor(POSITIVE)).numpy(), rtol=1e-12)


def test_gelu_with_tanh_is_torch_s():
    want = F.gelu(torch.tensor(X), approximate="tanh").numpy()
    np.testing.assert_allclose(run("gelu", X, approximate="tanh"), want, rtol=1e-12, atol=1e-14)


def test_prelu_broadcasts_over_the_last_axis():
    slope = RNG.uniform(0, 1, 3)
    want = F.prelu(torch.tensor(IMAGE).movedim(-1, 1), torch.tensor(slope)).movedim(1, -1).numpy()
    np.testing.assert_allclose(run("prelu", IMAGE, slope), want, rtol=1e-12)


def test_batch_norm_is_torch_s_in_inference():
    scale, bias, mean, var = RNG.uniform(0.5, 2, (4, 3))
    image = torch.tensor(IMAGE).movedim(-1, 1)
    given = (torch.tensor(v) for v in (mean, var, scale, bias))
    want = F.batch_norm(image, *given, eps=1e-3).movedim(1, -1).numpy()
    np.testing.assert_allclose(run("batch_norm", IMAGE, scale, bias, mean, var, epsilon=1e-3), want, rtol=1e-12)


def test_layer_norm_over_two_dimensions_with_scale_and_bias():
    scale, bias = RNG.normal(size=(2, 4, 3))
    want = F.layer_norm(torch.tensor(IMAGE), (4, 3), torch.tensor(scale), torch.tensor(bias), eps=1e-4).numpy()
    np.testing.assert_allclose(
        run("layer_norm", IMAGE, scale, bias, dims=2, epsilon=1e-4), want, rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize("size", [(10, 8), (3, 9), (7, 2), (5, 4), (1, 1)])
def test_resize_copies_the_pixels_torch_copies(size):
    image = torch.tensor(IMAGE).movedim(-1, 1)
    for mode, attrs in {
        "nearest": {},
        "nearest-exact": {"coordinates": "half_pixel", "rounding": "round_prefer_ceil"},
    }.items():
        want = F.interpolate(image, size=size, mode=mode).movedim(1, -1).numpy()
        np.testing.assert_array_equal(run("resize", IMAGE, size=size, **attrs), want)


def test_split_undoes_concat():
    parts = run("split", IMAGE, sizes=(1, 3), axis=2)
    np.testing.assert_array_equal(run("concat", *parts, axis=2), IMAGE)


def test_padding_of_a_quantised_value_is_where_its_zero_is():
    with build("pad") as b:
        x = b.input("x", s8(1, 2, s=0.5, z=-3))
        graph = b.graph(lookup("pad")(x, pads=((0, 0), (1, 0))), lookup("pad")(x, pads=((0, 0), (0, 1)), value=2.0))
    zero, two = evaluate(graph, np.array([[5, 6]], np.int8))
    assert zero.tolist() == [[-3, 5, 6]]
    assert two.tolist() == [[5, 6, 1]]


REFUSED = {
    "add": ((f32(2, 3), f32(4)), {}, "broadcast"),
    "relu": ((s8(3, s=0.1),), {}, "floats"),
    "reshape": ((f32(2, 3),), {"shape": (4, -1)}, "reshaped"),
    "transpose": ((f32(2, 3),), {"perm": (0, 0)}, "permutation"),
    "concat": ((s8(2, s=0.1), s8(2, s=0.2)), {"axis": 0}, "differ in scale"),
    "slice": ((f32(4),), {"starts": (2,), "stops": (2,), "steps": (1,)}, "not a slice"),
    "split": ((f32(4),), {"sizes": (2, 1), "axis": 0}, "cut"),
    "pad": ((f32(4),), {"pads": ((-1, 0),)}, "pads"),
    "softmax": ((f32(2, 3),), {"axis": 2}, "axis 2"),
    "quantize": ((f32(2),), {}, "output type"),
    "add_s8": ((s8(2, s=0.1), f32(2)), {}, "s8 with one scale"),
    "mul_s8": ((s8(2, s=0.1), s8(2, s=0.1)), {"rounding": "up"}, "rounding"),
}


@pytest.mark.parametrize("op", REFUSED)
def test_what_does_not_fit_is_refused_with_a_reason(op):
    types, attrs, reason = REFUSED[op]
    with build("refused") as b, pytest.raises(GraphError, match=reason):
        lookup(op)(*(b.input(f"x{i}", t) for i, t in enumerate(types)), **attrs)
