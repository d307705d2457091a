"""Changes that lower the peak of trained layers keep the bytes: weights in parts, in place, inputs kept in part."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.devices.host import open_plans
from insitu.errors import GraphError
from insitu.graph import Graph, Type, build, f32, lookup, s8
from insitu.graph.eval import run_step
from insitu.ops._block import exponents
from insitu.planner import plan, verify
from insitu.planner.changes.change import Tools
from insitu.planner.changes.in_place import laid_over
from insitu.planner.changes.kept_channels import narrowed
from insitu.planner.changes.table import TRIED
from insitu.planner.changes.weight_parts import taken_apart
from insitu.planner.plan import call_of, plan_ordered
from insitu.planner.spent import changes, spent

from .test_tiles import Layer


class Forward:
    """A random layer in the forward pass with some trained channels, followed by a depthwise layer."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def draw(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def weights(self, b, name: str, shape: tuple, scale: dict, trained: bool = False):
        array = self.rng.integers(-127, 128, shape).astype(np.int8)
        return (b.lasting if trained else b.constant)(name, array, s8(*shape, **scale))

    def graph(self) -> Graph:
        o, c, mask = self.draw(1, 50), self.draw(2, 300), bool(self.draw(0, 2))
        some = tuple(map(int, self.rng.permutation(c)[: self.draw(1, c)]))
        taps = ((1, 1), (1, 1), (3, 2), ())[self.draw(0, 4)]
        scale: dict[str, Any] = {"s": self.rng.uniform(0.01, 0.1, o), "axis": 0} if self.draw(0, 2) else {"s": 0.05}
        options = {"mask": mask, "lo": -120, "out": s8(s=0.2 * c, z=3)}
        with build("layer") as b:
            x = b.input("x", s8(*((1, 4, 5) if taps else (3,)), c, s=0.04, z=-5))
            w = self.weights(b, "w", (o, *taps, len(some)), scale, trained=True)
            fixed = self.weights(b, "fixed", (o, *taps, c - len(some)), scale)
            bias = b.constant("b", self.rng.integers(-999, 999, o).astype(np.int32))
            whole = lookup("merge_channels")(w, fixed, channels=some, name="merged")
            made = lookup("conv2d_s8" if taps else "linear_s8")(x, whole, bias, name="y", **options)
            y, *bits = made if mask else (made,)
            if taps:
                by = self.weights(b, "by", (3, 3, o), {"s": 0.05})
                made = lookup("depthwise2d_s8")(y, by, name="z", padding=(1, 1, 1, 1), **options)
                y, *more = made if mask else (made,)
                bits += more
        return b.graph(y, *bits)

    def feed(self, graph: Graph):
        return self.rng.integers(-128, 128, graph.inputs[0].shape).astype(np.int8)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["host", "mcu"]))
@settings(max_examples=8, deadline=None)
def test_every_change_to_a_layer_gives_the_same_bytes(seed, target):
    layer = Forward(seed)
    graph, changed = layer.graph(), []
    for node in graph.nodes:
        tools = Tools(lambda n: call_of(n, graph, target))
        changed += [made for do in TRIED for made in do(graph, node, tools)]
    both = [taken_apart(g, g.nodes[0]) for g in changed if g.nodes[0].op.name == "merge_channels"]
    graphs = [graph, *changed, *(g for g in both if g)]
    plans = {f"v{i}": verify(plan_ordered(g, target=target)) for i, g in enumerate(graphs)}
    device, x = open_plans({"predict": plans["v0"], **plans}), layer.feed(graph)
    results = []
    for i, verb in enumerate(plans):
        device.poison(i)
        results.append([y.tobytes() for y in device.run(verb, x)])
    assert any(n.op.name.endswith("_parts_s8") for g in graphs for n in g.nodes)
    assert all(result == results[0] for result in results)
    assert [np.asarray(y).tobytes() for y in run_step(graphs[-1], dict(graph.state), x)[0]] == results[0]


def wide_layer(updated: bool = False) -> Graph:
    """A layer, trained in part, whose whole weight is larger than everything else."""
    rng = np.random.default_rng(0)
    with build("wide") as b:
        x, halves = b.input("x", s8(1, 2, 2, 64, s=0.04)), []
        for name, make in (("w", b.lasting), ("fixed", b.constant)):
            halves.append(make(name, rng.integers(-127, 128, (96, 1, 1, 32)).astype(np.int8), s8(96, 1, 1, 32, s=0.05)))
        whole = lookup("merge_channels")(*halves, channels=tuple(range(0, 64, 2)), name="merged")
        y = lookup("conv2d_s8")(x, whole, name="y", out=s8(s=2.0))
        z = lookup("depthwise2d_s8")(y, b.constant("by", np.ones((3, 3, 96), np.int8), s8(3, 3, 96, s=0.1)), name="z",
                                     padding=(1, 1, 1, 1), out=s8(s=3.0))  # fmt: skip
        if updated:
            g, rate = b.input("g", f32(*halves[0].shape)), b.input("rate", f32())
            count = b.lasting("count", np.zeros(3, np.int32))
            new = lookup("sgd_nearest_s8")(halves[0], g, rate, count, name="new")
            b.update(halves[0], new[0])
            b.update(count, new[1])
    return b.graph(z)


def test_a_weight_that_is_in_the_way_is_never_put_together():
    graph = wide_layer()
    lowered, usual = (plan(graph, target="mcu", enough=enough) for enough in (0, 1 << 20))
    assert spent(lowered)["weights_in_parts"] and not spent(usual)["weights_in_parts"]
    assert lowered.arena_bytes < usual.arena_bytes - 4000
    x = np.random.default_rng(1).integers(-128, 128, (1, 2, 2, 64)).astype(np.int8)
    results = [open_plans({"predict": made}).run("predict", x)[0].tobytes() for made in (lowered, usual)]
    assert results[0] == results[1]


def test_a_layer_is_laid_over_its_input_unless_somebody_else_reads_that():
    graph = wide_layer()
    over = laid_over(graph, graph.producer["z"])
    assert over and spent(plan_ordered(over))["in_place"] == ["z"]
    assert plan_ordered(over, target="mcu").offsets["z"] == plan_ordered(over, target="mcu").offsets["y"]
    both = replace(over, outputs=(*over.outputs, graph.producer["y"].output))
    made = verify(plan_ordered(both, target="mcu"))
    assert made.offsets["z"] != made.offsets["y"]
    strided = replace(graph.producer["z"], attrs={**graph.producer["z"].attrs, "stride": (2, 2)})
    assert laid_over(replace(graph, nodes=(*graph.nodes[:-1], strided)), strided) is None


def test_parts_that_are_read_after_their_update_are_caught():
    graph = wide_layer(updated=True)
    apart = taken_apart(graph, graph.producer["merged"])
    made = apart and verify(plan_ordered(apart, target="mcu"))
    assert made and [n.name for n in made.graph.nodes] == ["y", "z", "new.0"]
    late = replace(made.graph, nodes=tuple(made.graph.nodes[i] for i in (2, 0, 1)))
    with pytest.raises(GraphError, match="%w: step 1 reads it after new.0 has replaced it"):
        verify(replace(made, graph=late, calls=tuple(made.calls[i] for i in (2, 0, 1))))


def trained_layer(block: str = "", late: bool = False) -> Graph:
    """A layer with three trained channels of eight; the gradient of its weight reads their input long after. `late`:
    another node reads the input even later."""
    rng = np.random.default_rng(4)
    with build("trained") as b:
        x, rate = b.input("x", s8(1, 4, 4, 8, s=0.04)), b.input("rate", f32())
        m = Type(block or "f32", (1, 4, 4, 16))
        g = (b.input("g", m), *([b.input("e", exponents(m))] if block else []))
        halves = [make(name, rng.integers(-127, 128, (16, 1, 1, n)).astype(np.int8), s8(16, 1, 1, n, s=0.05))
                  for name, make, n in (("w", b.lasting, 3), ("fixed", b.constant, 5))]  # fmt: skip
        residual = b.lasting("r", np.zeros((16, 1, 1, 3), np.int8), s8(16, 1, 1, 3))
        count = b.lasting("count", np.zeros(3, np.int32))
        read = lookup("requantize_s8")(x, name="read", out=s8(s=0.04))
        whole = lookup("merge_channels")(*halves, channels=(6, 1, 2), name="merged")
        y = lookup("conv2d_s8")(read, whole, name="y", out=s8(s=2.0))
        end = "_block" if block else ""
        dw = lookup(f"conv2d_dw{end}")(*g, read, kernel=(1, 1), channels=(6, 1, 2), name="dw")
        made = lookup(f"sgd_residual{end}_s8")(halves[0], residual, *(dw if block else (dw,)), rate, count, name="new")
        for state, new in zip((halves[0], residual, count), made):
            b.update(state, new)
        outputs = (y, *([lookup("requantize_s8")(read, name="again", out=s8(s=0.1))] if late else []))
    return b.graph(*outputs)


@pytest.mark.parametrize("target", ["host", "mcu"])
@pytest.mark.parametrize("block", ["", "s16b", "s8b"])
def test_a_gradient_needs_the_channels_that_are_trained_and_no_others(block, target):
    graph = trained_layer(block)
    short = narrowed(graph)
    plans = [verify(plan_ordered(g, target=target)) for g in (graph, short)]
    names = [n.name for n in short.nodes]
    assert names == ["read", "merged", "y", "read.kept", "dw.0" if block else "dw", "new.0"]
    assert short.nodes[4].inputs[-1].shape == (1, 4, 4, 3)
    assert [n.name for n in short.users["read"]] == ["y", "read.kept"]
    device, ran, layer = open_plans({"predict": plans[0], "v0": plans[0], "v1": plans[1]}), [], Layer(1)
    feeds, start = [layer.feed(v.name, v.type) for v in graph.inputs], device.save_state()
    for verb in ("v0", "v1"):
        device.load_state(start)
        ran.append((device.run(verb, *feeds)[0].tobytes(), device.save_state()))
    assert ran[0] == ran[1] and ran[0][1] != start
    assert spent(plans[1])["inputs_in_part"] == ["read.kept"]
    assert changes(plans[1], plans[0])["dw.0" if block else "dw"] == "inputs in part"


def test_an_input_that_is_read_later_is_kept_whole():
    graph = trained_layer(late=True)
    assert narrowed(graph) is graph
    whole = replace(trained_layer(), outputs=(*graph.outputs[:1], graph.producer["read"].output))
    assert narrowed(whole) is whole
