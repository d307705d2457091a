"""The text form prints, and parses back to the same graph."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.errors import GraphError
from insitu.graph import Type, arrays, build, evaluate, f32, parse, quant, s8, to_text
from insitu.graph.file import read, save

from .random_graphs import graphs

SHAPES = st.lists(st.integers(1, 5), max_size=4).map(tuple)
SCALES = st.floats(1e-12, 1e6)


@given(graphs())
@settings(deadline=None, max_examples=60)
def test_text_parses_back_to_the_same_text_and_meaning(graph):
    again = parse(to_text(graph), arrays(graph))
    assert to_text(again) == to_text(graph)
    x = np.linspace(-2, 2, graph.inputs[0].type.size).reshape(graph.inputs[0].shape)
    for a, b in zip(_many(evaluate(graph, x)), _many(evaluate(again, x))):
        np.testing.assert_array_equal(a, b)


@given(SHAPES, st.sampled_from(["f32", "s8", "u8", "s32"]), SCALES, st.integers(-128, 127))
@settings(deadline=None)
def test_per_tensor_types_round_trip(shape, dtype, scale, zero):
    wanted = Type(dtype, shape, None if dtype == "f32" else quant(scale, zero))
    assert _round_trip(wanted) == wanted


@given(st.lists(SCALES, min_size=1, max_size=40))
@settings(deadline=None)
def test_per_channel_scales_round_trip_inline_and_by_reference(scales):
    wanted = Type("s8", (2, len(scales)), quant(scales, 0, axis=1))
    assert _round_trip(wanted) == wanted


def test_types_print_as_documented():
    assert str(f32(1, 32, 32, 3)) == "f32[1x32x32x3]"
    assert str(s8(1, 8, s=0.5, z=-128)) == "s8[1x8; s=0.5 z=-128]"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1"),
        ("graph g(%x: f32[2]) -> (%y)", "used before it is defined"),
        ("graph g(%x: f32[2]) -> (%x)\n  %x = relu(%x) : f32[2]", "line 2: %x is defined twice"),
        ("graph g(%x: f32[2]) -> (%y)\n  %y = relux(%x) : f32[2]", "unknown op"),
        ("graph g(%x: f32[2]) -> (%y)\n  %y = relu(%x) : f99[2]", "is not a type"),
        ("graph g(%x: f32[0]) -> (%x)", "dimension below 1"),
        ("graph g(%x: f32[99999x99999]) -> (%x)", "elements"),
        ("graph g(%x: s8[2; s=-1.0 z=0]) -> (%x)", "positive"),
        ("graph g(%x: f32[2]) -> (%y)\n  %w = const f32[3] [1.0]\n  %y = add(%x, %w) : f32[2]", "line 2"),
    ],
)
def test_broken_text_is_an_error_that_names_its_line(text, complaint):
    with pytest.raises(GraphError, match=complaint):
        parse(text)


@given(graphs())
@settings(deadline=None, max_examples=10)
def test_a_saved_graph_reads_back(tmp_path_factory, graph):
    path = tmp_path_factory.mktemp("g") / "g.insitu"
    save(graph, path)
    assert to_text(read(path)) == to_text(graph)
    first = path.read_bytes()
    save(graph, path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("size", [2, 12])
def test_constants_with_a_scale_a_channel_round_trip(size):
    with build("g") as b:
        w = b.constant("w", np.arange(size, dtype=np.int8), s8(size, s=[0.5] * size, axis=0))
    graph = b.graph(w)
    again = parse(to_text(graph), arrays(graph))
    assert again.outputs[0].type == w.type
    np.testing.assert_array_equal(again.constants["w"], graph.constants["w"])


def _round_trip(wanted: Type) -> Type:
    with build("g") as b:
        x = b.input("x", wanted)
    graph = b.graph(x)
    return parse(to_text(graph), arrays(graph)).outputs[0].type


def _many(x):
    return x if isinstance(x, tuple) else (x,)
