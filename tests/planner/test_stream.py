"""Parts in stripes give the same bytes as whole ones, at any stripe height, and need less memory."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.schemes import CLASSES
from insitu.codegen import emit_program
from insitu.devices.host import open_plans
from insitu.errors import GraphError
from insitu.graph import Graph, Type, build, lookup, s8, s32
from insitu.graph.call import Call, Table
from insitu.graph.loops import Key, Loop, Move, Turn, scratch_bytes
from insitu.importers import load
from insitu.planner import plan, verify
from insitu.planner.changes.stripes.loop import grows_over, loop_of
from insitu.planner.changes.stripes.node import HEIGHTS, fused, is_streamed, regions
from insitu.planner.plan import Plan, call_of, plan_ordered
from insitu.planner.verify.stripes import verify_stripes
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.head import HEAD, replace_head
from insitu.training.train import Recipe, train_graphs


class Net:
    """Builds a random int8 network that can run by rows: convolutions, depthwise convolutions, pools, sums, tables."""

    def __init__(self, rng):
        self.rng, self.count = rng, 0

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def name(self, word: str) -> str:
        self.count += 1
        return f"{word}{self.count}"

    def out(self):
        return s8(s=float(self.rng.uniform(0.02, 0.3)), z=self.below(60) - 30)

    def window(self, x, kernels=(1, 2, 3, 5)) -> dict:
        """A kernel that fits, a stride, padding that may differ above and below."""
        k = [min(kernels[self.below(len(kernels))], side) for side in x.shape[1:3]]
        pads = [self.below(min(kk, 3)) for kk in (k[0], k[0], k[1], k[1])]
        return {"k": k, "stride": (1 + self.below(3), 1 + self.below(2)), "padding": tuple(pads)}

    def weights(self, word: str, shape, outputs: int, axis: int):
        w = self.rng.integers(-127, 128, shape).astype(np.int8)
        scales = self.rng.uniform(0.001, 0.02, outputs)
        weight = self.b.constant(f"{word}.weight", w, s8(*shape, s=scales, axis=axis))
        return weight, self.b.constant(
            f"{word}.bias", self.rng.integers(-500, 500, outputs).astype(np.int32), s32(outputs)
        )

    def conv(self, x):
        name, o, at = self.name("conv"), 1 + self.below(9), self.window(x)
        w = self.weights(name, (o, *at["k"], x.shape[3]), o, 0)
        return lookup("conv2d_s8")(x, *w, stride=at["stride"], padding=at["padding"], out=self.out(), name=name)

    def depthwise(self, x):
        name, c, at = self.name("depthwise"), x.shape[3], self.window(x)
        w = self.weights(name, (*at["k"], c), c, 2)
        return lookup("depthwise2d_s8")(x, *w, stride=at["stride"], padding=at["padding"], out=self.out(), name=name)

    def pool(self, x):
        at = self.window(x, kernels=(2, 3))
        pads = tuple(min(p, 1) for p in at["padding"]) if min(at["k"]) > 1 else (0, 0, 0, 0)
        where = {"kernel": at["k"], "stride": at["stride"], "padding": pads, "name": self.name("pool")}
        if self.below(2):
            return lookup("max_pool2d")(x, **where)
        return lookup("avg_pool2d_s8")(x, **where, out=self.out())

    def skip(self, x):
        """x + a 3x3 convolution of x: rows of x must wait for those of the convolution."""
        name, c = self.name("body"), x.shape[3]
        k = 3 if self.below(2) else 5
        w = self.weights(name, (c, k, k, c), c, 0)
        y = lookup("conv2d_s8")(x, *w, padding=(k // 2,) * 4, out=self.out(), name=name)
        pair = (x, y) if self.below(2) else (y, x)
        return lookup("add_s8")(*pair, out=self.out(), name=self.name("sum"))

    def table(self, x):
        name = self.name("lut")
        table = self.b.constant(f"{name}.table", self.rng.integers(-128, 128, 256).astype(np.int8))
        return lookup("lut_s8")(x, table, out=self.out(), name=name)

    def gate(self, x):
        """Squeeze and excite: every row of the product needs a whole map of one pixel."""
        name, c = self.name("gate"), x.shape[3]
        mean = lookup("mean_s8")(x, axes=(1, 2), keepdims=True, out=self.out(), name=f"{name}.mean")
        y = lookup("conv2d_s8")(mean, *self.weights(name, (c, 1, 1, c), c, 0), out=self.out(), name=name)
        pair = (x, y) if self.below(2) else (y, x)
        return lookup("mul_s8")(*pair, out=self.out(), name=self.name("product"))

    def crop(self, x):
        """Some rows and columns, perhaps not all of them: rows at both ends are needed by nobody."""
        (_, h, w, c), steps = x.shape, (1, 1 + self.below(3), 1 + self.below(2), 1)
        top, left = self.below(h), self.below(w)
        stops = (1, top + 1 + self.below(h - top), left + 1 + self.below(w - left), c)
        return lookup("slice")(x, starts=(0, top, left, 0), stops=stops, steps=steps, name=self.name("crop"))

    def resize(self, x):
        """Fewer rows or more: the distance from one to the next is not always the same."""
        size = tuple(1 + self.below(side + side // 2 + 1) for side in x.shape[1:3])
        how = [("half_pixel", "floor"), ("align_corners", "round_prefer_floor")][self.below(2)]
        return lookup("resize")(x, size=size, coordinates=how[0], rounding=how[1], name=self.name("resize"))

    def graph(self) -> Graph:
        layers = (self.conv, self.conv, self.depthwise, self.depthwise, self.pool, self.skip, self.table, self.gate)
        layers += (self.crop, self.resize)
        with build("random") as self.b:
            x = self.b.input(
                "x", s8(1, 6 + self.below(20), 1 + self.below(9), 1 + self.below(4), s=0.05, z=self.below(9))
            )
            values = [x]
            for _ in range(2 + self.below(6)):
                try:
                    values.append(layers[self.below(len(layers))](values[-1]))
                except GraphError:  # a pool's window that is entirely padding
                    continue
            end = lookup("mean_s8")(values[-1], axes=(1, 2), keepdims=False, out=self.out(), name="mean")
        extra = [values[self.below(len(values))]] if self.below(3) == 0 else []  # sometimes an inner value is an output
        return self.b.graph(end, *(v for v in extra if v is not x))


def in_stripes(graph: Graph, height: Fraction, target: str):
    """A plan of the graph with the longest possible part in stripes, or None."""
    found = list(regions(graph))
    if not found:
        return None
    loop = loop_of(found[-1], height, lambda n: call_of(n, graph, target))
    return verify(plan_ordered(fused(graph, found[-1], loop), target=target))


@given(st.integers(0, 2**32 - 1), st.sampled_from(HEIGHTS), st.sampled_from(["host", "mcu"]))
@settings(max_examples=25, deadline=None)
def test_stripes_of_any_height_give_the_same_bytes(seed, height, target):
    rng = np.random.default_rng(seed)
    graph = Net(rng).graph()
    made = in_stripes(graph, height, target)
    if made is None:
        return
    whole, striped = open_plans({"predict": plan(graph, target=target, stream=False)}), open_plans({"predict": made})
    v = graph.inputs[0]
    for _ in range(2):
        x = rng.integers(-128, 128, v.shape).astype(np.int8)
        striped.poison(int(rng.integers(256)))
        for a, b in zip(whole.run("predict", x), striped.run("predict", x), strict=True):
            assert a.tobytes() == b.tobytes()


@given(st.integers(0, 2**32 - 1), st.sampled_from(HEIGHTS))
@settings(max_examples=150, deadline=None)
def test_every_loop_is_proven_and_computes_nothing_twice(seed, height):
    graph = Net(np.random.default_rng(seed)).graph()
    for region in regions(graph):
        loop = loop_of(region, height, lambda n: call_of(n, graph, "mcu"))
        verify_stripes(loop, region.outputs)
        rows = {node.name: 0 for node in loop.nodes}
        for w in loop.windows:
            rows[w.made.value.name] += w.made.count
        assert all(rows[node.name] <= node.output.shape[1] for node in loop.nodes)


def test_what_is_read_whole_is_complete_before_the_loop_that_reads_it():
    net = Net(np.random.default_rng(5))
    with build("gated") as net.b:
        x = net.b.input("x", s8(1, 12, 12, 8, s=0.05))
        product = net.gate(x)
        y = lookup("depthwise2d_s8")(product, *net.weights("after", (3, 3, 8), 8, 2), stride=(2, 2),
                                     padding=(1, 1, 1, 1), out=net.out(), name="after")  # fmt: skip
        end = lookup("mean_s8")(y, axes=(1, 2), keepdims=False, out=net.out(), name="mean")
    graph = net.b.graph(end)
    made = verify(plan(graph, target="mcu"))
    loops = [n for n in made.graph.nodes if is_streamed(n)]
    assert [[n.name for n in loop.nodes] for loop in loops] == [[product.name, "after"]]
    x = np.random.default_rng(1).integers(-128, 128, (1, 12, 12, 8)).astype(np.int8)
    whole, striped = open_plans({"predict": plan(graph)}), open_plans({"predict": made})
    assert whole.run("predict", x)[0].tobytes() == striped.run("predict", x)[0].tobytes()


def _loop(wide: bool = False) -> tuple[Graph, Loop]:
    net = Net(np.random.default_rng(5))
    with build("three") as net.b:
        x = net.b.input("x", s8(1, 9, 4, 2, s=0.05))
        y = net.skip(net.skip(x))
        if wide:
            y = lookup("conv2d_s8")(y, *net.weights("wide", (9, 1, 1, 2), 9, 0), out=net.out(), name="wide")
        end = lookup("mean_s8")(y, axes=(1, 2), keepdims=False, out=net.out(), name="mean")
    graph = net.b.graph(end)
    region = list(regions(graph))[-1]
    return graph, loop_of(region, Fraction(2), lambda n: call_of(n, graph, "mcu"))


def _changed(loop: Loop, t: int, i: int, **fields) -> Loop:
    """The loop with one turn changed."""
    stripes = [list(s) for s in loop.stripes]
    stripes[t][i] = replace(stripes[t][i], **fields)
    return Loop(loop.nodes, loop.rooms, loop.places, loop.bytes, stripes=tuple(map(tuple, stripes)))


def _first(loop: Loop, what: str) -> tuple[int, int, Turn]:
    return next(
        (t, i, turn) for t, s in enumerate(loop.stripes) for i, turn in enumerate(s) if getattr(turn, what) and t
    )


def test_rows_that_were_not_moved_are_missed():
    _, loop = _loop()
    t, i, _ = _first(loop, "moves")
    with pytest.raises(GraphError, match=rf"reads rows .* where|stripe {t}"):
        verify_stripes(_changed(loop, t, i, moves=()), ())


def test_rows_that_were_moved_too_far_are_missed():
    _, loop = _loop()
    t, i, turn = _first(loop, "moves")
    move, *others = turn.moves
    wrong = Move(move.value, move.slot + 1, move.count - 1)
    with pytest.raises(GraphError, match="reads rows|not in its buffer"):
        verify_stripes(_changed(loop, t, i, moves=(wrong, *others)), ())


def test_a_stripe_that_makes_nothing_is_missed():
    _, loop = _loop()
    t, i, _ = _first(loop, "window")
    with pytest.raises(GraphError):
        verify_stripes(_changed(loop, t, i, window=None), (loop.nodes[-1].output,))


def _sounds() -> Loop:
    """Rows that are picked, rows that are made from the row above, and a sum of both."""
    with build("sounds") as b:
        x = b.input("x", Type("s32", (1, 20, 3, 1)))
        x = lookup("resize")(x, size=(13, 3), name="picked")
        past = lookup("smooth")(x, share=0.25, name="past")
        graph = b.graph(lookup("pcen")(x, past, unit=1e-6, name="ratio"))
    (region,) = (r for r in regions(graph) if len(r.nodes) == 3)
    return loop_of(region, Fraction(4), lambda n: call_of(n, graph, "mcu"))


def test_a_row_made_without_the_row_above_is_caught():
    loop = _sounds()
    verify_stripes(loop, (loop.nodes[-1].output,))
    assert next(room for room in loop.rooms if room.value.name == "past").kept == 12  # one row
    t, i, turn = next((t, i, turn) for t, s in enumerate(loop.stripes) for i, turn in enumerate(s)
                      if any(m.value.name == "past" for m in turn.moves))  # fmt: skip
    kept = tuple(m for m in turn.moves if m.value.name != "past")
    with pytest.raises(GraphError, match="past"):
        verify_stripes(_changed(loop, t, i, moves=kept), (loop.nodes[-1].output,))


def test_other_rows_than_those_picked_are_caught():
    loop = _sounds()
    t, window = next((t, s[0].window) for t, s in enumerate(loop.stripes) if s[0].window and s[0].window.made.count > 2)
    args = [Table(a.array[::-1].copy()) if isinstance(a, Table) else a for a in window.call.args]
    wrong = replace(window, call=Call(window.call.function, *args))
    with pytest.raises(GraphError, match="copies other rows"):
        verify_stripes(_changed(loop, t, 0, window=wrong), (loop.nodes[-1].output,))


def test_a_line_too_short_is_caught():
    _, loop = _loop()
    short = tuple(replace(room, bytes=room.bytes - room.bytes // room.rows) for room in loop.rooms)
    with pytest.raises(GraphError):
        verify_stripes(Loop(loop.nodes, short, loop.places, loop.bytes, stripes=loop.stripes), (loop.nodes[-1].output,))


def _sizes(loop: Loop) -> dict[Key, list[int]]:
    """Bytes that each room and each scratch needs in each turn of a stripe."""
    turns, found = range(len(loop.nodes)), {}
    for room in loop.rooms:
        used = [i for i, n in enumerate(loop.nodes) if room.value in (n.output, *n.inputs)]
        found[0, room.value.name] = [room.bytes if min(used) <= i <= max(used) else room.kept for i in turns]
    for i in turns:
        windows = (stripe[i].window for stripe in loop.stripes)
        scratch = max(scratch_bytes(window.call) for window in windows if window)
        found[0, i] = [scratch if i == turn else 0 for turn in turns]
    return {key: sizes for key, sizes in found.items() if key in loop.places}


def _collides(loop: Loop, moved: Key) -> bool:
    """Does this one overlap another that is needed at the same time, or the end?"""
    sizes, at = _sizes(loop), loop.places
    for key, turns in sizes.items():
        for mine, other in zip(sizes[moved], turns):
            if at[moved] + mine > loop.bytes or (
                key != moved and mine and other and at[moved] < at[key] + other and at[key] < at[moved] + mine
            ):
                return True
    return False


def test_lines_that_lie_where_others_are_needed_are_caught():
    _, loop = _loop()
    caught = 0
    for name in loop.places:
        others = [at for other, at in loop.places.items() if other != name and at != loop.places[name]]
        for at in others:  # the start of another one: shared at some times, but hardly ever at all times
            wrong = Loop(loop.nodes, loop.rooms, {**loop.places, name: at}, loop.bytes, stripes=loop.stripes)
            if not _collides(wrong, name):
                verify_stripes(wrong, (loop.nodes[-1].output,))
                continue
            caught += 1
            with pytest.raises(GraphError, match="the same bytes twice|where|do not fit"):
                verify_stripes(wrong, (loop.nodes[-1].output,))
    assert caught > 15


@cache
def step_of(scheme: str, models, grad: str = "f32") -> dict[str, Graph]:
    graph = replace_head(load(models / f"{scheme.partition('/')[0]}.pkl"), CLASSES)
    return train_graphs(graph, read_scheme(scheme, [x for x in layers(graph) if x.name != HEAD]), Recipe(grad=grad))


@cache
def lowest(verb: str, scheme: str, models, grad: str = "f32") -> Plan:
    """The plan with the least memory; several tests look at the same ones."""
    return plan(step_of(scheme, models, grad)[verb], target="mcu")


# arena of train_step held whole, and its limit with the frozen part in stripes: the rest is the backward pass, except
# for the last one, where it is the input and a few rows
ARENAS = {
    ("mcunet-5fps/49kb", "f32"): (167_000, 104_000),
    ("mcunet-5fps/49kb", "s16"): (167_000, 56_000),
    ("mbv2-w0.35/49kb", "s16"): (249_000, 56_000),
    ("proxyless-w0.3/49kb", "s16"): (136_000, 56_000),
}


@pytest.mark.parametrize("scheme, grad", ARENAS)
def test_published_schemes_take_less_memory_and_learn_the_same(scheme, grad, shared_models):
    graphs = step_of(scheme, shared_models, grad)
    whole = {verb: plan(g, target="mcu", stream=False) for verb, g in graphs.items()}
    step = lowest("train_step", scheme, shared_models, grad)
    striped = {"predict": plan(graphs["predict"], target="mcu", enough=step.arena_bytes), "train_step": step}
    assert list(striped) == list(graphs)
    before, most = ARENAS[scheme, grad]
    assert striped["train_step"].arena_bytes <= most < before <= whole["train_step"].arena_bytes
    assert any(is_streamed(n) for n in striped["train_step"].graph.nodes)
    a, b = open_plans(whole), open_plans(striped)
    rng = np.random.default_rng(3)
    for label in (3, 7):
        x = rng.integers(-128, 128, graphs["predict"].inputs[0].shape).astype(np.int8)
        feeds = (x, np.array([label], np.int32), np.array(0.05, np.float32))
        b.poison(label)
        assert [y.tobytes() for y in a.run("train_step", *feeds)] == [y.tobytes() for y in b.run("train_step", *feeds)]
        assert a.save_state() == b.save_state()
        assert a.run("predict", x)[0].tobytes() == b.run("predict", x)[0].tobytes()


def test_inference_needs_little_more_than_its_input(shared_models):
    graph = step_of("mcunet-5fps/49kb", shared_models)["predict"]
    assert graph.inputs[0].type.bytes == 49_152
    assert lowest("predict", "mcunet-5fps/49kb", shared_models).arena_bytes <= 56_000


def test_what_is_low_enough_is_left_alone(shared_models):
    graph = step_of("mcunet-5fps/49kb", shared_models)["predict"]
    least, enough = lowest("predict", "mcunet-5fps/49kb", shared_models), plan(graph, target="mcu", enough=120_000)
    calls = [sum(len(c.windows) for c in p.calls if isinstance(c, Loop)) for p in (least, enough)]
    assert calls[0] > 3 * calls[1] and enough.arena_bytes <= 120_000


def test_a_result_that_grows_over_what_is_still_read_is_caught():
    graph, loop = _loop(wide=True)
    source, result = graph.inputs[0], loop.nodes[-1].output
    verify_stripes(loop, (result,))
    assert not grows_over(loop, result, source)
    with pytest.raises(GraphError, match="where it is overwritten"):
        verify_stripes(loop, (result,), {result.name: source})


def test_an_emulated_board_gives_the_same_bytes_and_counts_by_layer():
    pytest.importorskip("unicorn")
    from insitu.devices.emulator import open_emulator

    graph, loop = _loop()
    made = verify(plan_ordered(fused(graph, list(regions(graph))[-1], loop), target="mcu"))
    x = np.random.default_rng(1).integers(-128, 128, graph.inputs[0].shape).astype(np.int8)
    device = open_emulator(emit_program(made), "stm32f746")
    outputs, layers = device.measure("predict", x)
    assert outputs[0].tobytes() == open_plans({"predict": plan(graph)}).run("predict", x)[0].tobytes()
    assert all(layers[n.name] > 100 for n in graph.nodes)
    assert set(layers) - {"(in and out)"} == {n.name for n in made.nodes} == {n.name for n in graph.nodes}


def test_the_host_runs_whole(shared_models):
    graphs = step_of("mcunet-5fps/49kb", shared_models)
    assert not any(is_streamed(n) for n in plan(graphs["predict"]).graph.nodes)
