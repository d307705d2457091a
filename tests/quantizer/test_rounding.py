"""Another rounding: the attribute of every int8 op, float32 scales, and an average that keeps its scale."""

from __future__ import annotations

import numpy as np
import pytest

import insitu
from insitu.graph import Type, build, check, evaluate, s8
from insitu.ops.pool import avg_pool2d_s8
from insitu.ops.quant import requantize_s8
from insitu.quantizer.rounding import with_rounding

from ..learners import data, learner


def average(lo: int = -128):
    with build("average") as b:
        x = b.input("x", s8(1, 4, 4, 3, s=0.1, z=-7))
        return b.graph(avg_pool2d_s8(x, kernel=(2, 2), stride=(2, 2), lo=lo, name="y", out=s8(s=0.05, z=3)))


def test_every_int8_op_gets_the_rounding():
    x, _ = data(20)
    made = learner(precision="int8", data=x, rounding="litert")
    found = {n.attrs["rounding"] for n in made.graphs["predict"].nodes if "rounding" in n.attrs}
    assert found == {"litert"}


def test_scales_become_what_a_file_stores():
    graph = with_rounding(average(), "single")
    for v in graph.values.values():
        assert v.type.quant is None or all(s == float(np.float32(s)) for s in v.type.quant.scale)


@pytest.mark.parametrize("lo", [-128, 3])
def test_an_average_that_changes_its_scale_is_rescaled_afterwards(lo: int):
    graph = check(with_rounding(average(lo), "litert"))
    assert [n.op for n in graph.nodes][:2] == [avg_pool2d_s8, requantize_s8]
    x = np.random.default_rng(0).integers(-128, 128, (1, 4, 4, 3)).astype(np.int8)
    got, once = evaluate(graph, x).astype(int), evaluate(average(lo), x).astype(int)
    assert np.abs(got - once).max() <= 2  # half a step of the average is one of the result
    assert got.min() >= lo


def test_an_unknown_rounding_is_an_error():
    with pytest.raises(insitu.DataError, match="rounding is 'twice'"):
        learner(precision="int8", data=data(20)[0], rounding="twice")


def test_a_type_without_scales_stays():
    from insitu.quantizer.rounding import stored

    assert stored(Type("f32", (2,))) == Type("f32", (2,))
