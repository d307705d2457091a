"""einsum is spelled out in ops that exist, with the result of numpy's; a product with weights is a linear layer."""

import numpy as np
import pytest

from insitu.errors import GraphError
from insitu.graph import Builder, build, check, evaluate, f32, lookup
from insitu.importers.canonical.clean import clean
from insitu.importers.canonical.einsum import einsum

RNG = np.random.default_rng(0)


def graph_of(equation, shapes, weights=()):
    """The graph of an equation; operands whose number is in `weights` are constants."""
    builder, operands = Builder("net"), []
    with build(builder):
        for i, shape in enumerate(shapes):
            array = RNG.standard_normal(shape).astype(np.float32)
            operands.append(builder.constant(f"w{i}", array) if i in weights else builder.input(f"x{i}", f32(*shape)))
        y = einsum(equation, operands, lambda op, *x, **k: lookup(op)(*x, **k), lambda v: v.name.startswith("w"))
    return builder.graph(y)


CASES = {
    "turned": ("bchw->bhcw", [(1, 4, 3, 2)]),
    "summed": ("bij->bj", [(1, 4, 3)]),
    "matrices": ("bij,bjk->bik", [(1, 4, 3), (1, 3, 5)]),
    "scores": ("bqhd,bkhd->bhqk", [(1, 6, 2, 4), (1, 5, 2, 4)]),
    "attended": ("acbe,aecd->abcd", [(1, 3, 9, 4), (1, 4, 3, 5)]),
    "leading axes": ("...ij,...jk->...ik", [(1, 2, 3, 4), (1, 2, 4, 5)]),
    "outer": ("bi,bj->bij", [(1, 4), (1, 3)]),
    "unwritten result": ("bi,bj", [(1, 4), (1, 3)]),
    "elements": ("bi,bi->ib", [(2, 4), (2, 4)]),
    "rows": ("bi,bi->b", [(2, 4), (2, 4)]),
    "three": ("bi,ij,bj->b", [(2, 4), (4, 3), (2, 3)]),
    "one that sums": ("bi,jk->bk", [(2, 4), (3, 5)]),
}


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_numpy_computes(name):
    equation, shapes = CASES[name]
    graph = check(graph_of(equation, shapes), "float")
    inputs = [RNG.standard_normal(s) for s in shapes]
    found = evaluate(graph, *inputs, precision=np.float64)
    assert np.allclose(found, np.einsum(equation, *inputs), atol=1e-9)


WEIGHTED = {
    "dense over the last axis": ("...i,io->...o", [(1, 7, 6), (6, 5)], 1, ["linear"]),
    "heads": ("abc,cde->abde", [(1, 9, 12), (12, 3, 4)], 1, ["linear", "reshape"]),
    "heads joined": ("abcd,cde->abe", [(1, 9, 3, 4), (3, 4, 7)], 1, ["reshape", "linear"]),
    "weights first": ("oi,bti->bto", [(5, 6), (1, 7, 6)], 0, ["linear"]),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_product_with_weights_is_a_linear_layer(name):
    equation, shapes, weights, ops = WEIGHTED[name]
    graph = clean(made := graph_of(equation, shapes, (weights,)))
    assert [n.op.name for n in graph.nodes] == ops
    x = RNG.standard_normal(shapes[1 - weights])
    operands = [x, made.constants[f"w{weights}"]][:: 1 if weights else -1]
    assert np.allclose(evaluate(graph, x, precision=np.float64), np.einsum(equation, *operands), atol=1e-6)


@pytest.mark.parametrize(
    ("equation", "shapes", "words"),
    [
        ("bii->bi", [(1, 3, 3)], "twice"),
        ("ij,jk->ik", [(1, 3)], "for 2 tensors, not 1"),
        ("ij->ji", [(1, 3, 3)], "does not fit"),
        ("ij,jk->ik", [(1, 3), (4, 2)], "sizes 3 and 4 for 'j'"),
        ("ij->ik", [(1, 3)], "not supported"),
    ],
)
def test_an_equation_that_cannot_be_spelled_out_says_why(equation, shapes, words):
    with pytest.raises(GraphError, match=words):
        graph_of(equation, shapes)
