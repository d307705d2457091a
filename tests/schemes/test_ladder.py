"""The ladder: rungs are nested, follow the structure of a network, and name themselves."""

from fractions import Fraction
from itertools import pairwise

import pytest

from insitu.errors import SchemeError
from insitu.schemes.cost import Bytes, bytes_of, state_bytes
from insitu.schemes.ladder import climb, highest, kind, ladder, rungs
from insitu.schemes.scheme import read_scheme
from insitu.training.train import Recipe, train_graphs

from .nets import body, mlp, mobilenet

KEPT = ("weight", "bias", "trained", "residual")


@pytest.fixture(scope="module")
def net():
    return body(mobilenet())


def parts(scheme) -> set[tuple[str, Fraction]]:
    """What is trained: a bias has share 0, and a share contains the smaller ones."""
    biases = {(u.layer, Fraction(0)) for u in scheme.updates if u.bias}
    shares = {(u.layer, Fraction(n, 8)) for u in scheme.updates for n in (1, 2, 4, 8) if Fraction(n, 8) <= u.share}
    return biases | shares


def test_every_rung_contains_the_one_before_it_and_takes_more_state(net):
    steps = rungs(net)
    found = [climb(net, i, steps) for i in range(len(steps))]
    sizes = [state_bytes(scheme, net, Bytes()) for scheme in found]
    assert all(parts(a) < parts(b) for a, b in pairwise(found))
    assert sizes == sorted(set(sizes))


def test_it_begins_with_the_head_and_ends_with_everything(net):
    assert climb(net, 0).updates == ()
    assert climb(net, len(rungs(net)) - 1) == read_scheme("full", net)


def test_depthwise_layers_are_trained_at_the_top_only(net):
    depthwise = {layer.name for layer in net if not kind(layer)}
    assert depthwise == {layer.name for layer in net if layer.node.op.name.startswith("depthwise")}
    assert not depthwise & {u.layer for u in climb(net, len(rungs(net)) - 2).updates}


def test_layers_before_the_middle_come_after_all_others(net):
    late = {layer.name for layer in net[len(net) // 2 :]}
    order = [step.layer in late for step in rungs(net)[1:-1]]
    assert order == sorted(order, reverse=True) and True in order and False in order


def test_an_expanding_layer_counts_more_than_a_contracting_one(net):
    table, middle = ladder(net), len(net) // 2
    wide = next(x for x in net[middle:] if kind(x) == 1)
    narrow = next(x for x in net[middle:] if 0 < kind(x) < 1)
    assert wide.weight.shape[0] > wide.weight.shape[-1] and narrow.weight.shape[0] < narrow.weight.shape[-1]
    assert table.gains[wide.name].shares[Fraction(1)] > table.gains[narrow.name].shares[Fraction(1)]


def test_a_rung_is_a_scheme_with_a_name(net):
    assert read_scheme("ladder:5", net) == climb(net, 5)
    last = len(rungs(net)) - 1
    for text, complaint in ((f"ladder:{last + 1}", f"has {last} rungs"), ("ladder", "number of the rung is missing")):
        with pytest.raises(SchemeError, match=complaint):
            read_scheme(text, net)


def test_the_state_of_a_rung_is_what_its_graphs_keep(net):
    recipe = Recipe()
    for number in (3, 9, len(rungs(net)) - 2):
        scheme = climb(net, number)
        state = {}
        for g in train_graphs(mobilenet(), scheme, recipe).values():
            state |= {name: array.nbytes for name, array in g.state.items()}
        trained = [n for n in state if n.endswith(KEPT) and not n.startswith("head.")]
        assert state_bytes(scheme, net, bytes_of(recipe)) == sum(state[n] for n in trained)


def test_a_network_of_linear_layers_has_a_ladder_too():
    net = body(mlp())
    assert len(rungs(net)) > 2 and climb(net, 1).updates


def test_the_highest_that_fits_is_found_in_a_few_tries():
    asked = []
    assert highest(100, lambda n: not asked.append(n) and n <= 62) == 62
    assert len(asked) < 10
    assert highest(5, lambda n: False) is None and highest(5, lambda n: True) == 4
    assert [highest(n, lambda k: True) for n in (1, 2)] == [0, 1] and highest(2, lambda k: k == 0) == 0
