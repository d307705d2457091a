"""Changes that lower the peak of the backward pass keep the bytes: less scratch, in place, weights in parts, tiles."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.codegen import emit_program
from insitu.devices.host import open_plans
from insitu.errors import GraphError
from insitu.graph import Graph, Type, build, f32, lookup, s8
from insitu.graph.eval import run_step
from insitu.graph.loops import Loop
from insitu.ops._block import exponents
from insitu.planner import plan, verify
from insitu.planner.changes.change import Tools
from insitu.planner.changes.less_scratch import Tight, loosened, tightened
from insitu.planner.changes.looped import Looped
from insitu.planner.changes.table import TRIED
from insitu.planner.changes.update_tiles import is_tiled, tiled
from insitu.planner.plan import call_of, plan_ordered
from insitu.planner.spent import spent, spent_text
from insitu.planner.verify.passes import verify_passes

from ..ops.case_library import all_bound
from .test_stream import lowest


def levels(graph: Graph) -> list[Graph]:
    """As usual, with less scratch, with the least."""
    less = tightened(graph, graph.nodes[0])
    least = less and tightened(less, less.nodes[0])
    assert less and least
    return [graph, less, least]


def scratch(graph, target: str) -> int:
    return sum(a.bytes for a in call_of(graph.nodes[0], graph, target).args if hasattr(a, "bytes"))


# cases of the ops that offer a call with less scratch
TIGHT = [name for name, b in all_bound().items() if b.graph.nodes[0].op.asks("emit", "tight") and not b.graph.constants]


@pytest.mark.parametrize("target", ["host", "mcu"])
def test_calls_with_less_scratch_give_the_same_bytes(target):
    """Every case that can have less scratch, side by side in one program."""
    plans, kinds = {}, {}
    for label in TIGHT:
        found = {scratch(g, target): g for g in levels(all_bound()[label].graph)}
        if len(found) > 1:
            kinds[label] = [f"v{len(plans) + i}" for i in range(len(found))]
            plans |= zip(kinds[label], (verify(plan_ordered(g, target=target)) for g in found.values()))
    device = open_plans({"predict": plans["v0"], **plans})
    for i, (label, verbs) in enumerate(kinds.items()):
        device.poison(i % 256)
        ran = [device.run(verb, *all_bound()[label].feeds) for verb in verbs]
        assert len({tuple(a.tobytes() for a in outputs) for outputs in ran}) == 1, label
    assert len(kinds) > 3


@pytest.mark.parametrize(
    "op", ["conv2d_dx: 1x1 s8, deep", "conv2d_dw: 1x1 s8, many pixels", "conv2d_dx_block: 1x1, deep, s16b"]
)
def test_some_calls_do_need_less(op):
    usual, _, least = levels(all_bound()[op].graph)
    assert 2 * scratch(least, "mcu") < scratch(usual, "mcu")


def test_what_was_tightened_can_be_loosened():
    graph, _, least = levels(all_bound()[TIGHT[0]].graph)
    assert tightened(least, least.nodes[0]) is None
    once = loosened(least, least.nodes[0])
    again = once and loosened(once, once.nodes[0])
    assert again and type(again.nodes[0]) is type(graph.nodes[0]) and again.nodes[0].inputs == graph.nodes[0].inputs


class Layer:
    """A random 1x1 convolution or linear layer in the backward pass: gradients of its input and of its weight, which is
    updated immediately. Some of its channels may be fixed."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def draw(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def graph(self) -> Graph:
        self.block = self.draw("", "s16b", "s8b")
        o, c = self.draw(*((32, 48) if self.block else (8, 24))), int(self.rng.integers(2, 9))
        self.rows = self.draw((1, 3, 2), (1, 5, 4), (7,))
        conv = len(self.rows) > 1
        some = (conv or not self.block) and self.draw(True, False)
        trained = tuple(map(int, self.rng.permutation(c)[: self.rng.integers(1, c)])) if some else ()
        tall = (o, 1, 1) if conv else (o,)
        scale: dict[str, Any] = self.draw({"s": self.rng.uniform(0.01, 0.1, o), "axis": 0}, {"s": 0.05})
        with build("layer") as b:
            m = Type(self.block, (*self.rows, o)) if self.block else f32(*self.rows, o)
            g = (b.input("g", m), *([b.input("e", exponents(m))] if self.block else []))
            x, rate = b.input("x", s8(*self.rows, c, s=0.04, z=-5)), b.input("rate", f32())
            count = b.lasting("count", np.zeros(3, np.int32))
            w = self.lasting(b, "w", s8(*tall, len(trained) or c, **scale))
            r = self.lasting(b, "r", s8(*w.shape))
            whole = w
            if trained:
                rest = self.rng.integers(-127, 128, (*tall, c - len(trained))).astype(np.int8)
                fixed = b.constant("fixed", rest, s8(*rest.shape, **scale))
                whole = lookup("merge_channels")(w, fixed, channels=trained, name="merged")
            dx, dw = self.gradients(g, whole, x, conv, trained)
            options = {"clip": self.draw(0.0, 0.5), "decay": self.draw(0.0, 0.1)}
            update = lookup("sgd_residual_block_s8" if self.block else "sgd_residual_s8")
            for state, new in zip((w, r, count), update(w, r, *dw, rate, count, **options, name="new")):
                b.update(state, new)
        return b.graph(*dx)

    def gradients(self, g, whole, x, conv: bool, trained) -> tuple[tuple, tuple]:
        end = "_block" if self.block else ""
        if conv:
            dx = lookup(f"conv2d_dx{end}")(*g, whole, size=self.rows[1:], name="dx")
            dw = lookup(f"conv2d_dw{end}")(*g, x, kernel=(1, 1), channels=trained, name="dw")
        else:
            dx, dw = lookup(f"linear_dx{end}")(*g, whole, name="dx"), lookup(f"linear_dw{end}")(*g, x, name="dw")
            dw = lookup("take_channels")(dw, channels=trained, name="some") if trained else dw
        return (dx if self.block else (dx,)), (dw if self.block else (dw,))

    def lasting(self, b, name, type):
        return b.lasting(name, self.rng.integers(-100, 100, type.shape).astype(np.int8), type)

    def feeds(self, graph):
        return tuple(self.feed(v.name, v.type) for v in graph.inputs)

    def feed(self, name: str, type: Type):
        if name == "rate":
            return np.float32(self.rng.choice([0.0, 0.1, 5.0]))
        if type.dtype == "f32":
            return (self.rng.normal(size=type.shape) * 3).astype(np.float32)
        low, high = (-20, -9) if name == "e" else (-127, 128)
        return self.rng.integers(low, high, type.shape).astype(type.numpy)


def changes(graph: Graph, target: str):
    """Every graph that results from one change to any node."""
    for node in graph.nodes:
        tools = Tools(lambda n: call_of(n, graph, target))
        yield from (made for do in TRIED for made in do(graph, node, tools))


@given(st.integers(0, 2**32 - 1), st.sampled_from(["host", "mcu"]))
@settings(max_examples=8, deadline=None)
def test_every_change_gives_the_same_bytes(seed, target):
    layer = Layer(seed)
    graph = layer.graph()
    found = list(changes(graph, target))
    plans = {f"v{i}": verify(plan_ordered(g, target=target)) for i, g in enumerate([graph, *found])}
    feeds = [layer.feeds(graph) for _ in range(2)]
    results = []
    device = open_plans({"predict": plans["v0"], **plans})
    start = device.save_state()
    for i, verb in enumerate(plans):
        device.load_state(start)
        device.poison(i)
        ran = [device.run(verb, *f)[0].tobytes() for f in feeds]
        results.append((ran, device.save_state()))
    assert len(found) > 1 and all(result == results[0] for result in results)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_what_the_planner_changes_means_the_same(seed):
    layer = Layer(seed)
    graph = layer.graph()
    lowered = plan(graph, target="mcu")
    usual = plan(graph, target="mcu", stream=False)
    assert lowered.arena_bytes <= usual.arena_bytes
    feeds = layer.feeds(graph)
    (dx, state), (dx2, state2) = (run_step(g, dict(g.state), *feeds) for g in (graph, lowered.graph))
    np.testing.assert_allclose(np.array(dx[0]), np.array(dx2[0]), rtol=1e-5, atol=1e-5)
    assert all((state[name] == state2[name]).all() for name in ("w", "r", "count"))


def _fused() -> tuple[Graph, Looped]:
    layer = Layer(3)
    graph = layer.graph()
    made = list(tiled(graph, graph.producer["new.0"], lambda n: call_of(n, graph, "mcu")))[-1]
    return made, next(n for n in made.nodes if is_tiled(n))


def _with(loop: Loop, **fields) -> Loop:
    names = ("nodes", "passes", "rooms", "places", "bytes", "lender")
    return Loop(**{**{name: getattr(loop, name) for name in names}, **fields})


def test_a_tile_that_is_not_copied_is_missed():
    _, node = _fused()
    first, *rest = node.loop.passes
    with pytest.raises(GraphError, match="reads it before it is written"):
        verify_passes(_with(node.loop, passes=(replace(first, steps=first.steps[1:]), *rest)), node)


def test_a_norm_that_is_not_kept_is_missed():
    _, node = _fused()
    with pytest.raises(GraphError, match="%dw.*norm: tile 0 reads it before it is written"):
        verify_passes(
            _with(
                node.loop, rooms=tuple(replace(room, kept=0) for room in node.loop.rooms), passes=node.loop.passes[2:]
            ),
            node,
        )


def test_a_tile_too_few_is_missed():
    _, node = _fused()
    *first, last = node.loop.passes
    with pytest.raises(GraphError, match="are not all of it"):
        verify_passes(_with(node.loop, passes=(*first, replace(last, count=last.count - 1))), node)


def test_an_update_that_never_happens_is_missed():
    _, node = _fused()
    with pytest.raises(GraphError, match="no pass makes it"):
        verify_passes(_with(node.loop, passes=node.loop.passes[:2]), node)


def test_a_room_over_a_value_that_is_read_is_caught():
    graph, node = _fused()
    made = verify(plan_ordered(graph, target="mcu"))
    made = replace(made, arena_bytes=2 * made.arena_bytes)
    step = made.graph.nodes.index(node)
    for name in made.scratch_of(step):
        with pytest.raises(GraphError, match="which the same call uses"):
            verify(replace(made, offsets={**made.offsets, name: made.offsets["g"]}))


def test_the_report_says_what_was_chosen():
    graph, node = _fused()
    made = plan_ordered(graph, target="mcu")
    found = spent(made)
    dw = node.nodes[0]
    assert found["updates_in_tiles"] == ["new.0"] and found["stripes"] == []
    assert found["macs_again"] == dw.output.type.size * dw.inputs[0].type.size // dw.inputs[0].shape[-1]
    assert spent_text(found) == f"1 update in tiles ({found['macs_again']:,} multiply-adds recomputed)"
    assert spent_text(spent(plan(Layer(3).graph()))) == ""


def test_an_emulated_board_gives_the_same_bytes_and_counts_by_layer():
    pytest.importorskip("unicorn")
    from insitu.devices.emulator import open_emulator

    graph, node = _fused()
    made = verify(plan_ordered(graph, target="mcu"))
    feeds = Layer(3).feeds(graph)
    board = open_emulator(emit_program({"predict": made}), "stm32f746")
    host = open_plans({"predict": plan(Layer(3).graph())})
    outputs, counted = board.measure("predict", *feeds)
    assert [y.tobytes() for y in outputs] == [y.tobytes() for y in host.run("predict", *feeds)]
    assert {name: a.tobytes() for name, a in board.state().items()} == {
        name: a.tobytes() for name, a in host.state().items()
    }
    assert set(counted) - {"(in and out)"} == {n.name for n in made.nodes} >= {n.name for n in node.nodes}


# the most that train_step may need
ARENAS = {
    ("mcunet-5fps/99kb", "f32"): 110_500,
    ("mcunet-5fps/49kb", "s16"): 65_000,
}


@pytest.mark.parametrize("scheme, grad", ARENAS)
def test_the_backward_pass_of_published_schemes_is_lowered(scheme, grad, shared_models):
    made = lowest("train_step", scheme, shared_models, grad)
    assert made.arena_bytes <= ARENAS[scheme, grad]
    assert any(is_tiled(n) for n in made.graph.nodes) and any(isinstance(n, Tight) for n in made.graph.nodes)
