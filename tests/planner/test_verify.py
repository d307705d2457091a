"""The proof is independent: it accepts every plan of the planner, and catches every overlap made by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.errors import GraphError
from insitu.planner import plan, verify
from insitu.planner.lifetimes import Buffer, lower_bound
from insitu.planner.place.placer import arena_bytes, place

from ..graph.random_graphs import graphs


@st.composite
def buffer_sets(draw):
    count = draw(st.integers(1, 14))
    found = []
    for i in range(count):
        first = draw(st.integers(-1, 10))
        found.append(Buffer((f"b{i}",), draw(st.integers(1, 300)), first, first + draw(st.integers(0, 6))))
    return tuple(found)


@given(buffer_sets())
@settings(max_examples=200, deadline=None)
def test_no_two_live_buffers_overlap(buffers):
    offsets, total = place(buffers)
    assert total == arena_bytes(offsets) >= lower_bound(buffers)
    for a in buffers:
        assert offsets[a] % 16 == 0
        for b in buffers:
            if a is not b and a.first <= b.last and b.first <= a.last:
                assert offsets[a] + a.bytes <= offsets[b] or offsets[b] + b.bytes <= offsets[a]


@given(graphs())
@settings(max_examples=40, deadline=None)
def test_every_plan_is_proven(graph):
    made = plan(graph)
    assert made.arena_bytes >= made.lower_bound_bytes


@given(graphs(), st.data())
@settings(max_examples=100, deadline=None)
def test_moving_a_value_onto_a_live_one_is_caught(graph, data):
    """Two values that must both survive to the end never share a byte."""
    made = plan(replace(graph, outputs=tuple(v for n in graph.nodes for v in n.outputs)))
    names = [v.name for v in made.graph.outputs]
    if len(names) < 2:
        return
    a, b = data.draw(st.permutations(names))[:2]
    broken = replace(made, offsets={**made.offsets, a: made.offsets[b]})
    with pytest.raises(GraphError, match="arena byte|same call uses"):
        verify(broken)


def test_an_offset_outside_the_arena_is_caught():
    made = plan(_chain())
    name = made.graph.nodes[0].output.name
    with pytest.raises(GraphError, match="outside the arena"):
        verify(replace(made, offsets={**made.offsets, name: made.arena_bytes - 4}))


def _chain():
    from insitu.graph import build, f32, lookup

    with build("chain") as b:
        x = b.input("x", f32(1, 5, 5, 2))
        w = b.constant("w", np.ones((3, 3, 3, 2), np.float32))
        y = lookup("conv2d")(x, w, name="c1")
        y = lookup("relu")(y, name="r1")
    return b.graph(y)


def test_a_kernel_that_cannot_work_in_place_gets_its_own_bytes():
    made = plan(_chain(), target="mcu", stream=False)  # a host makes one kernel of both
    assert made.offsets["c1"] != made.offsets["x"]
    assert made.offsets["r1"] == made.offsets["c1"]  # relu can
    with pytest.raises(GraphError, match="%c1"):
        verify(replace(made, offsets={**made.offsets, "c1": made.offsets["x"], "r1": made.offsets["x"]}))
