"""The canonical form computes what the graph computed; layouts cancel; rewriting ends."""

from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import insitu.ops  # noqa: F401
from insitu.graph import Builder, Type, build, check, evaluate, f32, lookup, parse, to_text
from insitu.importers.canonical.clean import clean
from insitu.importers.canonical.transposes import inverse, make, shape_groups

# --- a random graph of every kind of op that a rule matches, in float64 so that folding does not round -----


class Grower:
    """Appends random ops to a graph; `draw` decides, hypothesis shrinks."""

    def __init__(self, draw, builder):
        self.draw, self.builder = draw, builder
        self.rng = np.random.default_rng(draw(st.integers(0, 999)))
        self.values = []

    def constant(self, *shape):
        return self.builder.constant("c", self.rng.uniform(0.5, 1.5, size=shape))

    def pick(self, options):
        return self.draw(st.sampled_from(list(options)))

    def axis(self, x):
        return self.draw(st.integers(-x.type.rank, x.type.rank - 1))

    def grow(self):
        x = self.pick(self.values)
        made = self.pick(KINDS)(self, x)
        for v in made if isinstance(made, tuple) else (made,):
            if v is not None and v.type.size <= 512:
                self.values.append(v)


def unary(g, x):
    return make(g.pick(("relu", "tanh", "neg", "dropout", "clamp")), x)


def clamp(g, x):
    return make("clamp", x, lo=0.0, hi=g.pick((6.0, np.inf, 1.0)))


def binary(g, x):
    others = [v for v in g.values if v.shape == x.shape]
    return make(g.pick(("add", "sub", "mul")), *g.draw(st.permutations([x, g.pick(others)])))


def with_constant(g, x):
    shape = [g.pick((1, d)) for d in x.shape][g.draw(st.integers(0, x.type.rank)) :]
    pair = (x, g.constant(*shape))
    op, turn = g.pick((("add", 1), ("add", -1), ("mul", 1), ("mul", -1), ("sub", 1), ("sub", -1), ("div", 1)))
    return make(op, *pair[::turn])


def transpose(g, x):
    return make("transpose", x, perm=tuple(g.draw(st.permutations(range(x.type.rank)))))


def to_nhwc(g, x):
    return make("transpose", x, perm=g.pick(((0, 2, 3, 1), (0, 3, 1, 2)))) if x.type.rank == 4 else None


def reshape(g, x):
    shape, left = [], x.type.size
    for _ in range(g.draw(st.integers(0, 3))):
        d = g.pick([d for d in range(1, left + 1) if left % d == 0])
        shape.append(d)
        left //= d
    return make("reshape", x, shape=(*shape, left))


def softmax(g, x):
    return make(g.pick(("softmax", "log_softmax")), x, axis=g.axis(x))


def batch_norm(g, x):
    axis = g.axis(x)
    return make("batch_norm", x, *(g.constant(x.shape[axis]) for _ in range(4)), axis=axis)


def concat(g, x):
    axis = g.axis(x)
    return make("concat", x, g.pick([v for v in g.values if v.shape == x.shape]), axis=axis)


def split(g, x):
    axis = g.axis(x)
    first = g.draw(st.integers(1, max(1, x.shape[axis] - 1)))
    rest = x.shape[axis] - first
    return make("split", x, sizes=(first, rest) if rest else (first,), axis=axis)


def cut(g, x):
    starts = tuple(g.draw(st.integers(0, d - 1)) for d in x.shape)
    stops = tuple(g.draw(st.integers(a + 1, d)) for a, d in zip(starts, x.shape))
    return make("slice", x, starts=starts, stops=stops, steps=tuple(g.pick((1, 2)) for _ in x.shape))


def pad(g, x):
    pads = tuple((g.pick((0, 0, 1)), g.pick((0, 0, 1))) for _ in x.shape)
    return make("pad", x, pads=pads, value=g.pick((0.0, 0.5)))


def reduction(g, x):
    if x.type.rank < 2:
        return None
    axes = g.draw(st.lists(st.integers(0, x.type.rank - 1), min_size=1, max_size=x.type.rank - 1, unique=True))
    return make(g.pick(("mean", "sum", "amax")), x, axes=tuple(axes), keepdims=g.pick((True, False)))


def linear(g, x):
    return make("linear", x, g.constant(g.pick((1, 3)), x.shape[-1])) if x.type.rank else None


def matmul(g, x):
    return make("matmul", x, g.constant(x.shape[-1], 2)) if x.type.rank else None


def layer_norm(g, x):
    return make("layer_norm", x, g.constant(x.shape[-1])) if x.type.rank else None


def conv(g, x):
    if x.type.rank != 4:
        return None
    groups = g.pick((1, x.shape[3]))
    w = g.constant(groups * g.pick((1, 2)), 2, 2, x.shape[3] // groups)
    return make("conv2d", x, w, padding=(0, 1, 1, 0), groups=groups)


def pool(g, x):
    if x.type.rank != 4:
        return None
    return make(g.pick(("max_pool2d", "avg_pool2d")), x, kernel=(2, 2), stride=(1, 2), padding=(1, 0, 0, 1))


def of_constants(g, x):
    return make("add", make("relu", g.constant(*x.shape)), g.constant(*x.shape))


KINDS = (unary, clamp, binary, with_constant, transpose, to_nhwc, to_nhwc, reshape, softmax, batch_norm, concat) + (
    split, cut, pad, reduction, linear, matmul, layer_norm, conv, pool, of_constants,
)  # fmt: skip


@st.composite
def graphs(draw):
    builder = Builder("random")
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    with build(builder):
        g = Grower(draw, builder)
        g.values.append(builder.input("x", Type("f64", tuple(shape))))
        for _ in range(draw(st.integers(1, 12))):
            g.grow()
    return builder.graph(*g.values[-draw(st.integers(1, min(2, len(g.values)))) :])


@settings(max_examples=300, deadline=None)
@given(graphs(), st.integers(0, 99))
def test_the_canonical_form_computes_the_same(graph, seed):
    cleaned = check(clean(graph))
    x = np.random.default_rng(seed).normal(size=graph.inputs[0].shape)
    wanted, found = (evaluate(g, x, precision=np.float64) for g in (graph, cleaned))
    for a, b in zip(
        found if isinstance(found, tuple) else (found,), wanted if isinstance(wanted, tuple) else (wanted,)
    ):
        assert a.shape == b.shape
        assert np.max(np.abs(a - b)) <= 1e-12 * max(1.0, np.max(np.abs(b)))


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_cleaning_again_changes_nothing_and_every_time_gives_the_same(graph):
    once = clean(graph)
    assert to_text(clean(once)) == to_text(once)
    assert to_text(clean(graph)) == to_text(once)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_groups_of_axes_hold_the_same_elements(before, data):
    order = data.draw(st.permutations(before))
    after = [prod(order[:2]), *order[2:]]
    for left, right in shape_groups(before, after):
        assert prod(before[a] for a in left) == prod(after[a] for a in right)
    assert [a for left, _ in shape_groups(before, after) for a in left] == list(range(len(before)))


# --- one rule at a time ------------------------------------------------------------------------------------

NCHW, NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


def ops(graph):
    return [n.op.name for n in graph.nodes]


def cleaned(make_body, *shape):
    """clean() of a body of ops over one input, checked to compute the same."""
    with build("g") as b:
        graph = b.graph(make_body(b, b.input("x", f32(*shape))))
    done = check(clean(graph))
    x = np.random.default_rng(0).normal(size=shape)
    wanted, found = (evaluate(g, x, precision=np.float64) for g in (graph, done))
    assert np.allclose(found, wanted, rtol=1e-6, atol=1e-9)
    return done


def weights(b, name, *shape):
    return b.constant(name, np.random.default_rng(len(b.constants)).normal(size=shape).astype(np.float32))


def test_inverse_transposes_cancel_through_everything_elementwise():
    def body(b, x):
        y = make("transpose", x, perm=NCHW)
        y = make("add", make("relu", y), weights(b, "c", 1, 3, 1, 1))
        y = make("mul", y, make("sigmoid", y))
        return make("transpose", y, perm=NHWC)

    graph = cleaned(body, 1, 4, 5, 3)
    assert ops(graph) == ["relu", "add", "sigmoid", "mul"] or ops(graph) == ["relu", "add", "silu"]
    assert graph.constants["c"].shape == (3,), "the constant lies along the last axis now"


def test_a_skip_from_the_input_shares_the_one_transpose():
    def body(b, x):
        y = make("conv2d", make("transpose", x, perm=NHWC), weights(b, "w", 3, 1, 1, 3))
        return make("mean", make("add", x, make("transpose", y, perm=NCHW)), axes=(2, 3))

    assert ops(cleaned(body, 1, 3, 4, 5)) == ["transpose", "conv2d", "add", "mean"]


def test_a_flatten_before_a_linear_layer_is_free():
    def body(b, x):
        y = make("reshape", make("transpose", x, perm=NCHW), shape=(2, -1))
        return make("linear", y, weights(b, "w", 4, 60))

    assert ops(cleaned(body, 2, 4, 5, 3)) == ["reshape", "linear"]


def test_a_flatten_before_a_tied_weight_keeps_its_transpose():
    def body(b, x):
        w = weights(b, "w", 60, 60)
        y = make("reshape", make("transpose", x, perm=NCHW), shape=(2, -1))
        return make("linear", make("linear", y, w), w)

    assert ops(cleaned(body, 2, 4, 5, 3)) == ["transpose", "reshape", "linear", "linear"]


def test_an_image_made_by_a_linear_layer_is_made_channels_last():
    def body(b, x):
        y = make("relu", make("linear", x, weights(b, "w", 60, 7), weights(b, "b", 60)))
        return make("transpose", make("reshape", y, shape=(2, 3, 4, 5)), perm=NHWC)

    graph = cleaned(body, 2, 7)
    assert ops(graph) == ["linear", "relu", "reshape"] and set(graph.constants) == {"w", "b"}


def test_a_transpose_of_axes_of_one_is_a_reshape():
    assert ops(cleaned(lambda b, x: make("transpose", x, perm=NHWC), 1, 1, 4, 5)) == ["reshape"]


def test_global_pooling_and_flatten_are_one_mean():
    def body(b, x):
        y = make("mean", make("transpose", x, perm=NCHW), axes=(-1, -2), keepdims=True)
        return make("reshape", y, shape=(1, -1))

    graph = cleaned(body, 1, 4, 5, 3)
    assert ops(graph) == ["mean"] and graph.nodes[0].attrs == {"axes": (1, 2), "keepdims": False}


def test_a_channel_shuffle_moves_channels_only():
    def body(b, x):
        y = make("reshape", make("transpose", x, perm=NCHW), shape=(2, 2, 3, 4, 5))
        y = make("reshape", make("transpose", y, perm=(0, 2, 1, 3, 4)), shape=(2, 6, 4, 5))
        return make("transpose", y, perm=NHWC)

    graph = cleaned(body, 2, 4, 5, 6)
    assert ops(graph) == ["reshape", "transpose", "reshape"]
    assert graph.nodes[1].attrs["perm"] == (0, 1, 2, 4, 3)


def test_zeros_around_an_image_are_the_padding_of_the_convolution():
    def body(b, x):
        y = make("pad", x, pads=((0, 0), (0, 0), (0, 1), (2, 0)))
        return make("conv2d", make("transpose", y, perm=NHWC), weights(b, "w", 3, 3, 3, 2), padding=(1, 0, 0, 0))

    graph = cleaned(body, 1, 2, 5, 5)
    assert ops(graph) == ["transpose", "conv2d"] and graph.nodes[1].attrs["padding"] == (1, 1, 2, 0)


def test_other_pads_stay():
    def around(value, channels):
        def body(b, x):
            y = make("pad", x, pads=((0, 0), (1, 1), (1, 1), (0, channels)), value=value)
            return make("conv2d", y, weights(b, "w", 3, 3, 3, 2 + channels))

        return ops(cleaned(body, 1, 5, 5, 2))

    assert around(0.5, 0) == around(0.0, 1) == ["pad", "conv2d"]


def test_a_padded_average_counts_the_zeros():
    def body(b, x):
        y = make("pad", x, pads=((0, 0), (1, 1), (1, 0), (0, 0)))
        return make("avg_pool2d", y, kernel=(2, 2), stride=(2, 2))

    graph = cleaned(body, 1, 4, 5, 2)
    assert ops(graph) == ["avg_pool2d"] and graph.nodes[0].attrs["count_include_pad"]


def test_one_channel_a_group_is_depthwise():
    def body(b, x):
        return make("conv2d", x, weights(b, "w", 6, 3, 3, 1), weights(b, "b", 6), groups=3)

    graph = cleaned(body, 1, 4, 5, 3)
    assert ops(graph) == ["depthwise2d"] and graph.constants["w"].shape == (3, 3, 6)


def test_one_channel_in_all_is_an_ordinary_convolution():
    assert ops(cleaned(lambda b, x: make("conv2d", x, weights(b, "w", 6, 3, 3, 1)), 1, 4, 5, 1)) == ["conv2d"]


def test_batch_norm_and_dropout_survive():
    def body(b, x):
        y = make("transpose", x, perm=NCHW)
        y = make("batch_norm", y, *(b.constant(n, np.full(3, 0.5, np.float32)) for n in "abcd"), axis=1)
        return make("transpose", make("dropout", y, p=0.2), perm=NHWC)

    graph = cleaned(body, 1, 4, 5, 3)
    assert ops(graph) == ["batch_norm", "dropout"] and graph.nodes[0].attrs["axis"] == -1


def test_a_huge_constant_is_not_made_of_a_small_one():
    text = """graph g(%x: f32[1]) -> (%y)
      %c = const f32[1x1] [1.0]
      %d = const f32[1x1] [2.0]
      %big = pad(%c, pads=[[0, 999], [0, 999]], value=0.0) : f32[1000x1000]
      %small = add(%c, %d) : f32[1x1]
      %both = mul(%big, %small) : f32[1000x1000]
      %y = add(%both, %x) : f32[1000x1000]
    """
    graph = clean(parse(text))
    assert "pad" in ops(graph) and max(a.size for a in graph.constants.values()) == 1


def test_names_of_layers_and_weights_survive():
    def body(b, x):
        w = weights(b, "features.0.weight", 3, 3, 3, 1)
        y = make("conv2d", make("transpose", x, perm=NHWC), w, groups=3, name="features.0")
        y = make("relu", make("transpose", y, perm=NCHW), name="features.1")
        y = make("reshape", y, shape=(1, -1), name="flatten")
        return make("linear", y, weights(b, "fc.weight", 2, 18), name="fc")

    graph = cleaned(body, 1, 3, 4, 5)
    assert [n.name for n in graph.nodes][1:] == ["features.0", "features.1", "flatten", "fc"]
    assert set(graph.constants) == {"features.0.weight", "fc.weight"}


def test_inverse_is_the_way_back():
    assert inverse(NCHW) == NHWC and lookup("transpose").apply(
        "eval", (np.zeros((1, 2, 3, 4)),), {"perm": NCHW}
    ).shape == (1, 4, 2, 3)


def test_a_value_added_to_its_own_transpose_is_left_as_it_is():
    text = (
        "graph g(%x: f32[2x2]) -> (%y)\n  %t = transpose(%x, perm=[1, 0]) : f32[2x2]\n  %y = add(%x, %t) : f32[2x2]\n"
    )
    assert to_text(clean(parse(text))) == text
