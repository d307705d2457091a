"""Properties of training graphs: pruning, order, placement and old arena contents change no result."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.devices.host import open_plans
from insitu.errors import GraphError
from insitu.graph import Builder, Graph, build, evaluate, lookup
from insitu.graph.eval import run_step
from insitu.planner import Plan, plan, verify
from insitu.planner.lifetimes import state_homes
from insitu.planner.order import dependencies
from insitu.planner.plan import ALIGN, _ordered, _placed, call_of
from insitu.schemes.layers import layers
from insitu.schemes.scheme import Scheme, Update, fit, read_scheme
from insitu.training import train
from insitu.training.autodiff import differentiate
from insitu.training.head import replace_head
from insitu.training.train import Recipe, train_graphs

from ..graph.random_graphs import graphs
from .arena_runs import run_plan, spans
from .small_nets import SHAPE, float_net, int8_net

X = np.random.default_rng(5).normal(size=SHAPE).astype(np.float32)
FEEDS = (X, np.array([1], np.int32), np.float32(0.05))


def forward(kind: str) -> Graph:
    return replace_head(int8_net() if kind == "int8" else float_net(), 3, init="uniform")


def bodies(graph: Graph) -> list:
    return [layer for layer in layers(graph) if layer.name != "head"]


@st.composite
def schemes(draw, graph: Graph) -> Scheme:
    """Random layers, each with or without its bias, none, some or all of its input channels."""
    rows = []
    for layer in bodies(graph):
        if draw(st.booleans()):
            some = st.sets(st.integers(0, (layer.channels or 1) - 1), min_size=1)
            channels = tuple(sorted(draw(some))) if layer.channels and draw(st.booleans()) else ()
            share = Fraction(0 if channels else draw(st.integers(0, 1)))
            rows.append(Update(layer.name, draw(st.booleans()), share, channels))
    return fit(Scheme("random", tuple(rows)), bodies(graph))


@cache
def step_graph(kind: str, scheme: str, optimizer: str = "sgd") -> Graph:
    graph = forward(kind)
    recipe = Recipe(optimizer=optimizer)
    return train_graphs(graph, read_scheme(scheme, bodies(graph)), recipe)["train_step"]


STEPS = [("int8", "full"), ("int8", "bias:2"), ("float", "full"), ("float", "last:2")]
step_graphs = st.sampled_from(STEPS).map(lambda pair: step_graph(*pair))


@cache
def step_plan(kind: str, scheme: str) -> Plan:
    return plan(step_graph(kind, scheme))


step_plans = st.sampled_from(STEPS).map(lambda pair: step_plan(*pair))


# pruning ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["int8", "float"])
def test_a_pruned_graph_gives_the_updates_of_the_whole_one(kind):
    graph = forward(kind)

    @given(schemes(graph))
    @settings(max_examples=15, deadline=None)
    def equal(scheme):
        pruned = train_graphs(graph, scheme, Recipe())["train_step"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(train, "prune", lambda g: g)
            patch.setattr(train, "remerge", lambda g: g)
            whole = train_graphs(graph, scheme, Recipe())["train_step"]
        assert len(pruned.nodes) <= len(whole.nodes) + 4  # weights that are put together once more
        a, b = (run_step(g, dict(g.state), *FEEDS) for g in (pruned, whole))
        for name, array in b[1].items():
            np.testing.assert_allclose(a[1][name], array, rtol=1e-6, atol=1e-7, err_msg=name)

    equal()


@given(graphs(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_gradient_does_not_depend_on_which_others_are_wanted(graph, data):
    names = [*(v.name for v in graph.inputs), *(n for n in graph.constants if n in graph.values)]
    few = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    all_of_them, some = gradients(graph, names), gradients(graph, few)
    assert some.keys() == all_of_them.keys() & set(few)
    for name, g in some.items():
        np.testing.assert_array_equal(g, all_of_them[name])


def gradients(graph: Graph, names: list[str]) -> dict[str, np.ndarray]:
    builder = Builder.of(graph)
    with build(builder):
        out = graph.outputs[-1]
        loss = lookup("sum")(lookup("square")(out), axes=tuple(range(out.type.rank)), name="loss")
        grads = differentiate(builder, loss, [graph.values[n] for n in names])
    x = [np.linspace(-1, 1, v.type.size).reshape(v.shape) for v in graph.inputs]
    values: dict = evaluate(builder.graph(*grads.values()), *x, precision=np.float64, keep=True)  # type: ignore[assignment]
    return {name: values[g.name] for name, g in grads.items()}


# order ------------------------------------------------------------------------------------------


def shuffled(graph: Graph, rng) -> Graph:
    """The graph in a random legal order."""
    before = dependencies(graph, state_homes(graph))
    done: set[int] = set()
    order: list[int] = []
    while len(order) < len(before):
        ready = [i for i, p in enumerate(before) if i not in done and p <= done]
        order.append(int(rng.choice(ready)))
        done.add(order[-1])
    return replace(graph, nodes=tuple(graph.nodes[i] for i in order))


def placed(graph: Graph) -> Plan:
    """The plan of exactly this order, proven."""
    return verify(_placed(_ordered(graph, "this one", lambda n: call_of(n, graph), "host"), ALIGN))


@given(step_graphs, st.integers(0, 2**16))
@settings(max_examples=40, deadline=None)
def test_any_legal_order_gives_the_same_bytes(graph, seed):
    given_order = run_plan(placed(graph), FEEDS, graph.state)
    other = placed(shuffled(graph, np.random.default_rng(seed)))
    assert run_plan(other, FEEDS, graph.state) == given_order


def test_legal_orders_of_the_c_give_the_same_bytes():
    graph = step_graph("int8", "full")
    predict = plan(forward("int8"))
    outcomes = set()
    for seed in (1, 2):
        device = open_plans({"predict": predict, "train_step": placed(shuffled(graph, np.random.default_rng(seed)))})
        results = device.run("train_step", *FEEDS)
        outcomes.add(b"".join(r.tobytes() for r in results) + device.save_state())
    assert len(outcomes) == 1


@given(step_graphs, st.integers(0, 2**16))
@settings(max_examples=40, deadline=None)
def test_an_order_that_reads_a_parameter_after_its_update_is_refused(graph, seed):
    """Move an update before a node that reads what it overwrites."""
    rng = np.random.default_rng(seed)
    homes = state_homes(graph)
    before = dependencies(graph, homes)
    made = {v.name: i for i, n in enumerate(graph.nodes) for v in n.outputs}
    pairs = [
        (i, j) for i, node in enumerate(graph.nodes) for j in before[i]
        if any(o in homes for o in node.shared()) and not any(made.get(v.name) == j for v in node.inputs)
    ]  # fmt: skip
    if not pairs:
        return
    update, reader = pairs[int(rng.integers(len(pairs)))]
    order = [i for i in range(len(graph.nodes)) if i != reader]
    order.insert(order.index(update) + 1, reader)
    late = replace(graph, nodes=tuple(graph.nodes[i] for i in order))
    with pytest.raises(GraphError):
        placed(late)


# arena ------------------------------------------------------------------------------------------


@given(step_plans, st.integers(1, 2**16))
@settings(max_examples=30, deadline=None)
def test_a_poisoned_arena_gives_the_same_bytes(made, seed):
    assert run_plan(made, FEEDS, made.graph.state, seed) == run_plan(made, FEEDS, made.graph.state, 0)


@given(step_plans, st.data())
@settings(max_examples=150, deadline=None)
def test_every_injected_overlap_is_caught(made, data):
    """A value that is made while another waits to be read, moved onto any byte of it."""
    life = {name: s for name, s in spans(made.graph).items() if name in made.offsets}
    names = sorted(life)
    writer = data.draw(st.sampled_from([n for n in names if life[n][0] >= 0]))
    at = life[writer][0]
    waiting = [n for n in names if life[n][0] < at < life[n][1]]
    if not waiting:
        return
    victim = data.draw(st.sampled_from(waiting))
    size = {n: made.graph.values[n].type.bytes for n in (writer, victim)}
    shift = data.draw(st.integers(1 - size[writer], size[victim] - 1))
    start = max(0, made.offsets[victim] + shift)
    moved = replace(
        made, offsets={**made.offsets, writer: start}, arena_bytes=max(made.arena_bytes, start + size[writer])
    )
    with pytest.raises(GraphError):
        verify(moved)


@given(step_plans, st.data())
@settings(max_examples=100, deadline=None)
def test_a_scratch_on_a_live_value_is_caught(made, data):
    life = {name: s for name, s in spans(made.graph).items() if name in made.offsets}
    name = data.draw(st.sampled_from(sorted(made.scratch_bytes)))
    step = int(name.removeprefix("scratch ").split(".")[0])
    alive = [n for n in sorted(life) if life[n][0] < step <= life[n][1]]
    if not alive:
        return
    victim = data.draw(st.sampled_from(alive))
    start = made.offsets[victim]
    size = max(made.arena_bytes, start + made.scratch_bytes[name])
    with pytest.raises(GraphError):
        verify(replace(made, offsets={**made.offsets, name: start}, arena_bytes=size))


@given(step_plans, st.data())
@settings(max_examples=150, deadline=None)
def test_a_plan_that_verify_accepts_gives_the_right_bytes(made, data):
    """Whatever offset is changed: it is refused, or it does no harm."""
    name = data.draw(st.sampled_from(sorted(n for n in made.offsets if not n.startswith("scratch"))))
    start = data.draw(st.integers(0, made.arena_bytes // 16)) * 16
    end = max(made.arena_bytes, start + made.graph.values[name].type.bytes)
    moved = replace(made, offsets={**made.offsets, name: start}, arena_bytes=end)
    try:
        verify(moved)
    except GraphError:
        return
    assert run_plan(moved, FEEDS, made.graph.state) == run_plan(made, FEEDS, made.graph.state)
