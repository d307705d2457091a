"""Float layers with what follows them in one kernel, on a host: the same bits from fewer calls."""

import numpy as np
import pytest
import torch
from torch import nn

from insitu.codegen import emit_program
from insitu.devices.host import open_program
from insitu.graph import Builder, Graph, build
from insitu.importers import load
from insitu.ops.activation import clamp, relu, relu6
from insitu.ops.arith import add
from insitu.ops.conv import conv2d
from insitu.ops.depthwise import depthwise2d
from insitu.ops.ended import conv2d_ends, depthwise2d_ends, linear_ends
from insitu.ops.layout import reshape
from insitu.ops.linear import linear
from insitu.planner import plan
from insitu.planner.fuse import fused
from insitu.planner.plan import plan_ordered
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.train import Recipe, train_graphs

RNG = np.random.default_rng(0)
SAME = (1, 1, 1, 1)


def drawn(builder: Builder, name: str, *shape: int):
    return builder.constant(name, RNG.standard_normal(shape).astype(np.float32))


def network(shared: bool = False) -> Graph:
    """A residual block, a depthwise layer and a classifier; `shared`: what the first layer computes is an output."""
    builder = Builder("net")
    with build(builder):
        x = builder.input("x", drawn(builder, "like", 1, 9, 7, 5).type)
        first = conv2d(x, drawn(builder, "w1", 18, 3, 3, 5), drawn(builder, "b1", 18), padding=SAME, name="first")
        a = relu(first, name="a")
        b = conv2d(a, drawn(builder, "w2", 18, 1, 1, 18), name="b")
        c = relu6(add(a, b, name="sum"), name="c")
        d = clamp(
            depthwise2d(c, drawn(builder, "w3", 3, 3, 18), drawn(builder, "b3", 18), padding=SAME), lo=-1.0, name="d"
        )
        flat = reshape(d, shape=(1, 9 * 7 * 18))
        y = relu(linear(flat, drawn(builder, "w4", 11, 9 * 7 * 18), drawn(builder, "b4", 11)), name="y")
        return builder.graph(y, *((first,) if shared else ()))


def results(plan_of, graph: Graph) -> list[np.ndarray]:
    device = open_program(emit_program({"predict": plan_of(graph)}))
    x = np.random.default_rng(1).standard_normal((1, 9, 7, 5)).astype(np.float32)
    return list(device.run("predict", x))


@pytest.mark.parametrize("shared", (False, True))
def test_a_fused_network_gives_the_same_bits(shared):
    graph = network(shared)
    for a, b in zip(results(plan, graph), results(plan_ordered, graph)):
        assert a.tobytes() == b.tobytes()


def test_adds_and_activations_become_part_of_the_layers_before_them():
    nodes = fused(network()).nodes
    assert [n.op for n in nodes if n.op is not reshape] == [conv2d_ends, conv2d_ends, depthwise2d_ends, linear_ends]
    assert [n.name for n in nodes if n.op is not reshape] == ["a", "c", "d", "y"]


def test_a_layer_that_something_else_reads_stays():
    assert [n.op for n in fused(network(shared=True)).nodes][:2] == [conv2d, relu]


def test_a_board_keeps_them_apart():
    calls = {call.function for call in plan(network(), target="mcu", stream=False).calls}
    assert "relu_f32" in calls and not any("ends" in name or "packed" in name for name in calls)


def stepped(plan_of) -> tuple[list[bytes], list[str]]:
    """The results and the state after some steps of a network with batch norms, and the kernels it calls."""
    torch.manual_seed(0)
    parts = [nn.Conv2d(3, 20, 3, padding=1), nn.BatchNorm2d(20), nn.ReLU6(), nn.Conv2d(20, 7, 1), nn.BatchNorm2d(7),
             nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(7, 4)]  # fmt: skip
    graph = load(nn.Sequential(*parts).eval(), torch.zeros(1, 3, 9, 9))
    graphs = train_graphs(graph, read_scheme("full", layers(graph)), Recipe(), head=None, samples=5)
    device = open_program(emit_program({verb: plan_of(g) for verb, g in graphs.items()}))
    x = np.random.default_rng(2).standard_normal((5, 3, 9, 9)).astype(np.float32)
    for _ in range(3):
        outputs = device.run("train_step", x, np.arange(5, dtype=np.int32) % 4, np.float32(0.1))
    found = [a.tobytes() for a in (*outputs, *device.state().values())]
    return found, [call.function for call in device.program.plans["train_step"].calls]


def test_steps_with_fused_batch_norms_end_in_the_same_bits():
    (state, kernels), (apart, more) = stepped(plan), stepped(plan_ordered)
    assert state == apart
    assert not {"relu_f32", "clamp_f32", "relu_dx_f32", "relu6_dx_f32"} & set(kernels)
    assert len(kernels) == len(more) - 7
