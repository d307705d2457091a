"""Small random float graphs for property tests: elementwise chains with branches, constants and layouts."""

import numpy as np
from hypothesis import strategies as st

import insitu.ops  # noqa: F401
from insitu.graph import Builder, Graph, build, f32, lookup

UNARY = ("relu", "relu6", "sigmoid", "tanh", "neg", "hard_swish")
BINARY = ("add", "sub", "mul")


@st.composite
def graphs(draw) -> Graph:
    """A graph of up to a dozen ops over one shape; outputs are one or two of its values."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    builder = Builder("random")
    with build(builder):
        values = [builder.input("x", f32(*shape))]
        for i in range(draw(st.integers(1, 12))):
            values.append(_grow(draw, builder, values, rng, i))
    count = draw(st.integers(1, 2))
    return builder.graph(*values[-count:])


def _grow(draw, builder, values, rng, i):
    kind = draw(st.sampled_from(("unary", "binary", "constant", "transpose")))
    x = draw(st.sampled_from(values))
    if kind == "unary":
        return lookup(draw(st.sampled_from(UNARY)))(x, name=f"u{i}")
    if kind == "constant":
        c = builder.constant(f"c{i}", rng.normal(size=x.shape).astype(np.float32))
        return lookup("add")(x, c, name=f"k{i}")
    if kind == "transpose":
        perm = draw(st.permutations(range(x.type.rank)))
        return lookup("transpose")(x, perm=tuple(perm), name=f"t{i}")
    same = [v for v in values if v.shape == x.shape]
    return lookup(draw(st.sampled_from(BINARY)))(x, draw(st.sampled_from(same)), name=f"b{i}")
