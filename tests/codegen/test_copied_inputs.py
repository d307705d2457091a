"""An input that a kernel copies anyway is read where the caller has it; any other becomes part of the arena first."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.codegen import emit_program
from insitu.devices.host import open_host
from insitu.graph import Graph, build, f32
from insitu.ops.activation import relu
from insitu.ops.layout import transpose
from insitu.planner import plan


def turned(reads: int) -> Graph:
    """A graph whose input, channels first, is read so many times."""
    with build("net") as b:
        x = b.input("x", f32(1, 3, 5, 7))
        made = [relu(transpose(x, perm=(0, 2, 3, 1))), relu(x)]
    return b.graph(*made[:reads])


@pytest.mark.parametrize("reads", [1, 2])
def test_only_an_input_that_one_kernel_copies_is_read_from_the_caller(reads):
    code = emit_program(plan(turned(reads))).code["net_predict.c"]
    assert ("copy_bytes(X, in_x" in code) == (reads > 1)
    assert ("channels_last_f32(" in code) and ("in_x, 1, 3" in code) == (reads == 1)


@pytest.mark.parametrize("reads", [1, 2])
def test_its_results_are_those_of_the_graph_and_the_callers_array_stays(reads):
    x = np.random.default_rng(0).standard_normal((1, 3, 5, 7)).astype(np.float32)
    before, found = x.copy(), open_host(turned(reads)).run("predict", x)
    expected = (np.maximum(x.transpose(0, 2, 3, 1), 0), np.maximum(x, 0))[:reads]
    assert all((a == b).all() for a, b in zip(found, expected)) and (x == before).all()
