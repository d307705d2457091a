"""Patterns are recognised in every spelling, only where they are exact, and never change what a graph computes."""

import numpy as np
import pytest

import insitu.ops  # noqa: F401  fills the registry
from insitu.graph import Builder, build, check, evaluate, f32, lookup, parse, rewrite
from insitu.importers.canonical.patterns import PATTERNS


class Ops:
    def __getattr__(self, name):
        return lookup(name)


o = Ops()


def graph_of(function, *shape):
    """The graph of `function(x, number)`; `number(v)` is a scalar constant, `number(array)` a constant."""
    builder = Builder("net")
    with build(builder):
        x = builder.input("x", f32(*(shape or (3, 4))))
        y = function(x, lambda v: builder.constant("c", np.asarray(v, np.float32)))
    return builder.graph(*(y if isinstance(y, tuple) else (y,)))


def rewritten(function, *shape):
    """The ops after rewriting, which must not change the results."""
    before = graph_of(function, *shape)
    after = check(rewrite(before, *PATTERNS))
    x = np.random.default_rng(0).standard_normal(before.inputs[0].shape) * 3
    found, wanted = (evaluate(g, x, precision=np.float64) for g in (after, before))
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, wanted))):
        assert np.allclose(a, b, rtol=1e-6, atol=1e-6)
    return [n.op.name for n in after.nodes]


def _one_plus_erf(x, c, factor=0.5**0.5):
    return o.add(o.erf(o.mul(x, c(factor))), c(1.0))


def _inside_tanh(x, c):
    cube = o.mul(o.mul(o.mul(x, x), x), c(0.044715))
    return o.add(o.tanh(o.mul(o.add(x, cube), c((2 / np.pi) ** 0.5))), c(1.0))


SPELLINGS = {
    "gelu, half last": ("gelu", lambda x, c: o.mul(o.mul(x, _one_plus_erf(x, c)), c(0.5))),
    "gelu, half first": ("gelu", lambda x, c: o.mul(o.mul(x, c(0.5)), _one_plus_erf(x, c))),
    "gelu, divided": (
        "gelu",
        lambda x, c: o.mul(o.mul(x, o.add(c(1.0), o.erf(o.div(x, c(2**0.5))))), c(0.5)),
    ),
    "gelu, tanh": ("gelu", lambda x, c: o.mul(o.mul(c(0.5), x), _inside_tanh(x, c))),
    "silu": ("silu", lambda x, c: o.mul(x, o.sigmoid(x))),
    "silu, turned round": ("silu", lambda x, c: o.mul(o.sigmoid(x), x)),
    "silu, by exp": ("silu", lambda x, c: o.div(x, o.add(o.exp(o.neg(x)), c(1.0)))),
    "hard_swish": ("hard_swish", lambda x, c: o.div(o.mul(x, o.relu6(o.add(x, c(3.0)))), c(6.0))),
    "hard_swish, clamp": ("hard_swish", lambda x, c: o.mul(x, o.mul(o.clamp(o.add(x, c(3)), lo=0, hi=6), c(1 / 6)))),
    "hard_swish, by hard_sigmoid": ("hard_swish", lambda x, c: o.mul(o.hard_sigmoid(x), x)),
    "hard_sigmoid": ("hard_sigmoid", lambda x, c: o.div(o.relu6(o.add(x, c(3.0))), c(6.0))),
    "hard_sigmoid, clamp": ("hard_sigmoid", lambda x, c: o.clamp(o.add(o.mul(x, c(1 / 6)), c(0.5)), lo=0, hi=1)),
    "relu6": ("relu6", lambda x, c: o.clamp(o.relu(x), lo=-1.0, hi=6.0)),
    "square": ("square", lambda x, c: o.mul(x, x)),
}


@pytest.mark.parametrize("case", SPELLINGS)
def test_a_function_is_recognised_however_it_is_spelled(case):
    name, function = SPELLINGS[case]
    # one more op around it: the pattern is found inside a network, too
    assert rewritten(lambda x, c: o.tanh(function(o.abs(x), c))) == ["abs", name, "tanh"]


ALMOST = {
    "another slope": lambda x, c: o.mul(x, o.sigmoid(o.mul(x, c(1.1)))),
    "another function": lambda x, c: o.mul(x, o.tanh(x)),
    "another factor": lambda x, c: o.mul(o.mul(x, _one_plus_erf(x, c, 0.7)), c(0.5)),
    "one factor per channel": lambda x, c: o.mul(o.sigmoid(x), c([1.0, 2.0, 3.0, 4.0])),
    "a wider clamp": lambda x, c: o.div(o.clamp(o.add(x, c(3.0)), lo=0.0, hi=6.5), c(6.0)),
    "two values": lambda x, c: o.mul(o.tanh(x), o.sigmoid(o.abs(x))),
}


@pytest.mark.parametrize("case", ALMOST)
def test_what_only_looks_like_one_stays(case):
    before = [n.op.name for n in graph_of(ALMOST[case]).nodes]
    assert rewritten(ALMOST[case]) == before


def test_what_somebody_else_reads_is_not_swallowed():
    def function(x, c):
        gate = o.sigmoid(x)
        return o.mul(x, gate), gate

    assert rewritten(function) == ["sigmoid", "mul"]


# --- products ------------------------------------------------------------------------------------------

W, B = np.arange(8.0).reshape(4, 2) / 8, np.array([0.5, -1.0])


def test_matmul_and_add_become_linear():
    assert rewritten(lambda x, c: o.add(c(B), o.matmul(x, c(W)))) == ["linear"]


def test_two_biases_become_one():
    assert rewritten(lambda x, c: o.add(o.add(o.matmul(x, c(W)), c(B)), c(0.25))) == ["linear"]


def test_a_bias_behind_a_convolution_goes_into_it():
    w = np.ones((2, 1, 1, 3))
    assert rewritten(lambda x, c: o.add(o.conv2d(x, c(w)), c(B.reshape(1, 1, 1, 2))), 1, 2, 2, 3) == ["conv2d"]


CROP = {"starts": (0, 0), "stops": (2, 2), "steps": (1, 1)}


def test_a_bias_behind_a_cropped_product_goes_before_the_crop():
    """Keras crops a transposed convolution before it adds the bias; `full` trains what a layer has."""
    assert rewritten(lambda x, c: o.add(o.slice(o.matmul(x, c(W)), **CROP), c(B))) == ["linear", "slice"]


def test_a_bias_stays_behind_a_crop_of_channels_or_of_a_product_that_others_read():
    def two(x, c):
        y = o.matmul(x, c(W))
        return y, o.add(o.slice(y, **CROP), c(B))

    assert rewritten(two) == ["linear", "slice", "add"]
    one = CROP | {"stops": (2, 1)}
    assert rewritten(lambda x, c: o.add(o.slice(o.matmul(x, c(W)), **one), c(0.5))) == ["linear", "slice", "add"]


def test_a_bias_behind_a_reshape_of_the_last_axis_goes_before_it():
    heads = {"shape": (3, 2, 1)}
    assert rewritten(lambda x, c: o.add(o.reshape(o.matmul(x, c(W)), **heads), c(B[:, None]))) == ["linear", "reshape"]
    mixed = {"shape": (2, 3)}
    assert rewritten(lambda x, c: o.add(o.reshape(o.matmul(x, c(W)), shape=(1, 6)), c(np.arange(6.0)))) == [
        "linear", "reshape", "add",
    ]  # fmt: skip
    assert rewritten(lambda x, c: o.add(o.reshape(o.matmul(x, c(W)), **mixed), c(B[:, None]))) == [
        "linear", "reshape", "add",
    ]  # fmt: skip


def test_a_constant_of_another_axis_is_no_bias():
    assert rewritten(lambda x, c: o.add(o.matmul(x, c(W)), c([[1.0], [2.0], [3.0]]))) == ["linear", "add"]


# --- layer norm ----------------------------------------------------------------------------------------


def centred(x):
    return o.sub(x, o.mean(x, axes=(-1,), keepdims=True))


def spread(d, c, square=lambda d: o.square(d)):
    return o.add(o.mean(square(d), axes=(1,), keepdims=True), c(1e-5))


NORMS = {
    "div by sqrt": lambda x, c: o.div(d := centred(x), o.sqrt(spread(d, c))),
    "times rsqrt": lambda x, c: o.mul(d := centred(x), o.rsqrt(spread(d, c))),
    "times reciprocal": lambda x, c: o.mul(o.reciprocal(o.sqrt(spread(d := centred(x), c))), d),
    "d times d": lambda x, c: o.div(d := centred(x), o.sqrt(spread(d, c, lambda d: o.mul(d, d)))),
    "centred twice": lambda x, c: o.div(centred(x), o.sqrt(spread(centred(x), c))),
}


@pytest.mark.parametrize("case", NORMS)
def test_layer_norm_from_its_parts(case):
    assert rewritten(NORMS[case]) == ["layer_norm"]


def test_layer_norm_takes_its_scale_and_bias_in():
    scale, bias = np.arange(1.0, 5.0), np.array([0.1, 0.2, 0.3, 0.4])
    assert rewritten(lambda x, c: o.add(o.mul(o.layer_norm(x), c(scale)), c(bias))) == ["layer_norm"]
    assert rewritten(lambda x, c: o.add(o.layer_norm(x), c(bias))) == ["layer_norm"]
    assert rewritten(lambda x, c: o.mul(o.layer_norm(x), c([[1.0], [2.0], [3.0]]))) == ["layer_norm", "mul"]


# --- two ways to say one thing ---------------------------------------------------------------------------


def test_the_same_computation_is_done_once():
    assert rewritten(lambda x, c: o.sub(o.tanh(o.abs(x)), o.exp(o.tanh(o.abs(x))))) == ["abs", "tanh", "exp", "sub"]


def test_two_dropouts_stay_two():
    assert rewritten(lambda x, c: o.add(o.dropout(x, p=0.3), o.dropout(x, p=0.3))) == ["dropout", "dropout", "add"]


def piece(x, a, b):
    return o.slice(x, starts=(0, a), stops=(x.shape[0], b), steps=(1, 1))


def test_slices_that_cut_a_value_into_pieces_are_a_split():
    assert rewritten(lambda x, c: o.concat(piece(x, 1, 4), piece(x, 0, 1), axis=1)) == ["split", "concat"]


@pytest.mark.parametrize("cuts", [((0, 2), (3, 4)), ((0, 3), (2, 4)), ((1, 4), (0, 4))])
def test_slices_with_a_gap_or_an_overlap_are_not(cuts):
    assert "split" not in rewritten(lambda x, c: tuple(o.tanh(piece(x, a, b)) for a, b in cuts))


def test_a_slice_of_a_slice_is_a_slice():
    def function(x, c):
        y = o.slice(x, starts=(1, 0), stops=(9, 7), steps=(2, 3))
        return o.slice(y, starts=(1, 1), stops=(4, 3), steps=(2, 1))

    assert rewritten(function, 10, 7) == ["slice"]


@pytest.mark.parametrize("op, name", [("avg_pool2d", "mean"), ("max_pool2d", "amax")])
def test_a_pool_over_the_whole_image_is_a_reduction(op, name):
    assert rewritten(lambda x, c: lookup(op)(x, kernel=(2, 3), stride=(2, 3)), 1, 2, 3, 4) == [name]
    assert rewritten(lambda x, c: lookup(op)(x, kernel=(2, 2), stride=(2, 2)), 1, 2, 3, 4) == [op]


def test_a_reduction_of_one_sample_leaves_its_axis_alone():
    graph = graph_of(lambda x, c: o.amax(o.reshape(x, shape=(1, 4, 5)), axes=(1,)), 1, 1, 4, 5)
    assert rewrite(graph, *PATTERNS).nodes[0].attrs["axes"] == (1, 2)


def test_a_reduction_looks_through_axes_of_size_one():
    def function(x, c):
        return o.mean(o.reshape(x, shape=(1, 1, 5, 3)), axes=(1, 2))

    assert rewritten(function, 1, 5, 3) == ["mean"]


def test_a_resize_has_one_name_for_what_it_copies():
    text = """graph net(%x: f32[1x3x2x1]) -> (%y)
      %y = resize(%x, size=[6, 4], coordinates="half_pixel", rounding="round_prefer_ceil") : f32[1x6x4x1]"""
    attrs = rewrite(parse(text), *PATTERNS).nodes[0].attrs
    assert (attrs["coordinates"], attrs["rounding"]) == ("asymmetric", "floor")
