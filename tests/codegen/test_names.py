"""What a model calls its layers cannot change what the program does."""

import numpy as np
import pytest

import insitu.ops  # noqa: F401
from insitu.codegen import c
from insitu.devices.host import open_host
from insitu.graph import build, evaluate, f32, lookup


@pytest.mark.parametrize("text", ["*/ int x; /*", "*\\ int x; /\\*", "a *\n/ b", "??/", "* / /* */"])
def test_nothing_ends_a_comment_early(text):
    line = c.comment(text)
    assert line.count("*/") == 1 and line.endswith(" */")
    assert "\\" not in line and "\n" not in line and "/*" not in line[2:]


@pytest.mark.parametrize("name", ["null", "NULL", "int32_max", "insitu_x", "eof", "net_arena_bytes"])
def test_a_layer_with_a_name_that_c_knows_computes_the_same(name):
    rng = np.random.default_rng(0)
    with build("g") as b:
        x = b.input("x", f32(1, 6, 6, 2))
        w1 = b.constant("w1", rng.normal(size=(3, 3, 3, 2)).astype(np.float32))
        w2 = b.constant("w2", rng.normal(size=(3, 3, 3, 3)).astype(np.float32))
        y = lookup("conv2d")(lookup("conv2d")(x, w1, name=name), w2, name="y")
    graph = b.graph(y)
    sample = rng.normal(size=(1, 6, 6, 2)).astype(np.float32)
    np.testing.assert_allclose(open_host(graph).predict(sample), evaluate(graph, sample), rtol=1e-4, atol=1e-4)
