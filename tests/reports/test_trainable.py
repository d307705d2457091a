"""Which layers a gradient reaches: an op without a rule blocks the layers before it, and nothing else."""

import numpy as np

from insitu.graph import build, f32
from insitu.ops.activation import relu, sigmoid, tanh
from insitu.ops.arith import add
from insitu.ops.linear import linear
from insitu.reports.trainable import check_graph


def layer(b, x, name):
    return linear(x, b.constant(f"{name}.weight", np.ones((4, 4), np.float32)), name=name)


def branches():
    """l1 -> (sigmoid | tanh -> l2) -> add -> l3"""
    with build("branches") as b:
        x = layer(b, b.input("x", f32(1, 4)), "l1")
        y = add(sigmoid(x, name="left"), layer(b, tanh(x, name="right"), "l2"), name="join")
        return b.graph(layer(b, relu(y, name="act"), "l3"))


def trainable_layers(without):
    found = check_graph(branches(), lambda op: op.name not in without)
    return [r.layer for r in found.rows if r.trainable and r.parameters]


def test_with_all_rules_every_layer_is_trainable():
    assert trainable_layers(()) == ["l1", "l2", "l3"]


def test_a_blocker_stops_what_is_before_it():
    assert trainable_layers({"relu"}) == ["l3"]


def test_one_blocked_branch_spoils_the_sum_but_not_the_other_branch():
    assert trainable_layers({"sigmoid"}) == ["l2", "l3"]


def test_a_value_that_leads_nowhere_blocks_nothing():
    with build("dead") as b:
        x = layer(b, b.input("x", f32(1, 4)), "l1")
        sigmoid(x, name="unused")
        graph = b.graph(layer(b, x, "l2"))
    found = check_graph(graph, lambda op: op.name != "sigmoid")
    assert found.trainable
    assert [r.layer for r in found.rows if r.trainable] == ["l1", "l2"]


def test_without_parameters_there_is_nothing_to_train():
    with build("plain") as b:
        graph = b.graph(relu(b.input("x", f32(1, 4))))
    found = check_graph(graph, lambda op: True)
    assert not found.trainable
    assert found.verdict == "cannot be trained: no layer has parameters"


def test_a_single_number_that_a_layer_reads_is_no_parameter():
    with build("scaled") as b:
        x = layer(b, b.input("x", f32(1, 4)), "l1")
        graph = b.graph(add(x, b.constant("shift", np.float32(0.5)), name="shifted"))
    assert [(r.layer, r.parameters) for r in check_graph(graph, lambda op: True).rows] == [("l1", 16), ("shifted", 0)]
