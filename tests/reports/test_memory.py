"""The picture of the arena shows the plan: every letter is where its bytes are, and the peak is named."""

import numpy as np

from insitu.graph import build, f32
from insitu.ops.activation import relu, sigmoid
from insitu.ops.arith import add
from insitu.planner import plan
from insitu.reports.memory import memory_map


def skip_graph():
    """x is needed until the end: three values are alive while the last is computed."""
    with build("skip") as b:
        x = b.input("x", f32(1, 64))
        y = add(x, b.constant("c", np.ones(64, np.float32)), name="y")
        z = relu(sigmoid(y, name="s"), name="z")
        return b.graph(add(x, z, name="sum"))


def test_every_block_lies_inside_the_arena_and_none_overlaps_another_alive_with_it():
    found = memory_map(plan(skip_graph()))
    for step in range(len(found.steps)):
        alive = sorted(found.alive(step), key=lambda b: b.offset)
        ends = [b.offset + b.bytes for b in alive]
        assert all(end <= b.offset for end, b in zip(ends, alive[1:]))
        assert max(ends) <= found.arena_bytes


def test_the_picture_has_a_row_a_band_and_a_column_a_step():
    found = memory_map(plan(skip_graph()))
    rows = [line.partition("|")[2] for line in found.to_text(width=8, height=4).splitlines() if "|" in line]
    assert len(rows) == 4
    assert {len(r) for r in rows} == {8}  # four steps, two columns each


def test_a_letter_stands_only_where_its_block_is_alive():
    found = memory_map(plan(skip_graph()))
    rows = [line.partition("|")[2] for line in found.to_text(width=4, height=4).splitlines() if "|" in line]
    for step, column in enumerate(zip(*rows)):
        letters = {c for c in column if c != "."}
        assert letters == {"abcdefgh"[found.blocks.index(b)] for b in found.alive(step)}


def test_the_headline_gives_the_bytes_and_the_bound():
    found = memory_map(plan(skip_graph()))
    assert found.headline().startswith(f"arena {found.arena_bytes} B, lower bound {found.lower_bound_bytes} B")
