"""The backward pass of an inverted-residual block in groups of channels gives the same bytes as in one piece."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.codegen import emit_program
from insitu.devices.host import open_plans
from insitu.errors import GraphError
from insitu.graph import Graph, Type, build, f32, lookup, s8, s32
from insitu.graph.call import Call, Table
from insitu.graph.eval import run_step
from insitu.graph.loops import Entries, Loop
from insitu.ops._block import exponents
from insitu.ops.block_conv import conv2d_dw_block
from insitu.ops.block_sums import dx_sums_block, in_two
from insitu.ops.mask import mask_type
from insitu.planner import plan, verify
from insitu.planner.changes.channel_groups import chain as chains
from insitu.planner.changes.channel_groups.chain import grouped, is_grouped, ungrouped
from insitu.planner.changes.looped import Looped
from insitu.planner.changes.rooms import arranged
from insitu.planner.changes.update_tiles import tiled
from insitu.planner.plan import call_of, plan_ordered
from insitu.planner.spent import changes, spent, spent_text
from insitu.planner.verify.passes import verify_passes

from .test_stream import step_of


class Block:
    """The backward pass of a random block: expanded, depthwise, projected; the trained parameters are random, too."""

    def __init__(self, seed: int, **chosen):
        self.seed, self.chosen, self.expanded = seed, chosen, 48

    def draw(self, name: str, *options):
        found = options[int(self.rng.integers(len(options)))]
        return self.chosen.get(name, found)

    def graph(self) -> Graph:
        self.rng = np.random.default_rng(self.seed)
        self.kind = self.draw("kind", "s16b", "s8b")
        self.stride, k = self.draw("stride", 1, 2), self.draw("kernel", 3, 5)
        self.size = self.draw("size", (4, 4), (2, 3), (6, 4))
        out = int(self.rng.integers(3, 30))
        self.high = tuple(self.stride * n for n in self.size)
        pads = (k // 2, k // 2 - (self.stride > 1)) * 2
        with build("block") as b:
            self.b = b
            m = Type(self.kind, (1, *self.size, out))
            g = b.input("g", m), b.input("e", exponents(m))
            self.rate, self.count = b.input("rate", f32()), b.lasting("count", np.zeros(3, np.int32))
            self.counts = self.count
            projected = self.weights("projected", s8(out, 1, 1, self.expanded, **self.scales(out, 0)))
            wide = lookup("conv2d_dx_block")(*g, projected, size=self.size, name="wide")
            wide = self.inside("wide", wide)
            taps = self.weights("taps", s8(k, k, self.expanded, **self.scales(self.expanded, 2)))
            if self.chosen.get("early"):
                self.trained(wide, self.size, "early")
            options = {"stride": (self.stride, self.stride), "padding": pads, "size": self.high}
            deep = lookup("depthwise2d_dx_block")(*wide, taps, **options, name="deep")
            deep = self.inside("deep", deep)
            found = self.expanding(deep)
            b.update(self.count, self.counts)
        return b.graph(*found)

    def scales(self, n: int, axis: int) -> dict:
        return self.draw("scales", {"s": self.rng.uniform(0.01, 0.1, n), "axis": axis}, {"s": 0.05})

    def weights(self, name: str, t: Type):
        return self.b.constant(name, self.rng.integers(-127, 128, t.shape).astype(np.int8), t)

    def trained(self, gradient, size, name: str) -> None:
        """A weight whose gradient is computed from this one, before others change it."""
        t = s8(self.expanded, 1, 1, 5, s=0.05)
        w, r = (
            self.b.lasting(f"{name}.{n}", np.zeros(t.shape, np.int8), t if n == "w" else s8(*t.shape)) for n in "wr"
        )
        x = self.b.input(f"{name}.x", s8(1, *size, 5, s=0.04, z=-5))
        dw = lookup("conv2d_dw_block")(*gradient, x, kernel=(1, 1), name=f"{name}.dw")
        *new, self.counts = lookup("sgd_residual_block_s8")(w, r, *dw, self.rate, self.counts, clip=0.5, name=name)
        for state, made in zip((w, r), new):
            self.b.update(state, made)

    def inside(self, name: str, value):
        """A mask, and the gradient of a bias, or neither."""
        if self.draw("masks", True, False):
            mask = self.b.input(f"{name}.mask", mask_type(value[0].type))
            value = lookup("mask_grad_block")(value[0], mask, name=f"{name}.masked"), value[1]
        if self.draw("biases", True, False):
            db = lookup("bias_grad_block")(*value, name=f"{name}.db")
            start = self.rng.integers(-99, 99, self.expanded).astype(np.int32)
            bias, update = self.b.lasting(f"{name}.bias", start, s32(len(start), s=1e-6)), lookup("sgd_bias_block_s32")
            new, self.counts = update(bias, *db, self.rate, self.counts, clip=1.0, name=f"{name}.new")
            self.b.update(bias, new)
        return value

    def expanding(self, deep) -> tuple:
        """The gradients for the first convolution of the block: of its weight and of its input."""
        c, draw = int(self.rng.integers(3, 40)), self.draw
        trained = tuple(map(int, self.rng.permutation(c)[: c // 2])) if draw("parts", True, False) else ()
        t = s8(self.expanded, 1, 1, len(trained) or c, **self.scales(self.expanded, 0))
        ends = draw("ends", ("update", "dx"), ("update",), ("dx",))
        w = whole = self.b.lasting("w", self.rng.integers(-127, 128, t.shape).astype(np.int8), t)
        if trained:
            fixed = self.weights("fixed", t.with_shape(self.expanded, 1, 1, c - len(trained)))
            whole = lookup("merge_channels")(w, fixed, channels=trained, name="merged")
        found = ()
        if "dx" in ends:
            found = lookup("conv2d_dx_block")(*deep, whole, size=self.high, name="dx")
        new = w
        if "update" in ends:
            x = self.b.input("x", s8(1, *self.high, c, s=0.04, z=-5))
            r = self.b.lasting("r", self.rng.integers(-127, 128, t.shape).astype(np.int8), s8(*t.shape))
            dw = lookup("conv2d_dw_block")(*deep, x, kernel=(1, 1), channels=trained, name="dw")
            update = lookup("sgd_residual_block_s8")
            new, residual, self.counts = update(w, r, *dw, self.rate, self.counts, clip=0.5, name="new")
            self.b.update(r, residual)
        if new is not w:
            self.b.update(w, new)
        return found

    def feeds(self, graph: Graph) -> list[np.ndarray]:
        return [self.feed(v.name, v.type) for v in graph.inputs]

    def feed(self, name: str, t: Type) -> np.ndarray:
        if name == "rate":
            return np.float32(0.03)  # type: ignore[return-value]
        if name == "e":
            return self.rng.integers(-26, -18, t.shape).astype(np.int8)
        low, high = (0, 256) if t.dtype == "u8" else (-(1 << 15), 1 << 15) if t.dtype == "s16b" else (-128, 128)
        return self.rng.integers(low, high, t.shape).astype(t.numpy)


def all_groups(graph: Graph, name: str = "deep.0", target: str = "mcu") -> list[Graph]:
    return list(grouped(graph, graph.producer[name], lambda n: call_of(n, graph, target)))


def same(graph: Graph, others: list[Graph], feeds, target: str = "mcu") -> None:
    """All of them give the bytes of the graph's numpy meaning."""
    outputs, state = run_step(graph, dict(graph.state), *feeds)
    for other in others:
        device = open_plans({"predict": verify(plan_ordered(other, target=target))})
        device.poison(171)
        ran = device.run("predict", *feeds)
        assert [y.tobytes() for y in ran] == [np.asarray(y).tobytes() for y in outputs]
        left = device.state()
        assert [n for n, a in state.items() if left[n].tobytes() != np.asarray(a).tobytes()] == []


@settings(max_examples=14, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from(["mcu", "host"]))
def test_any_groups_give_the_same_bytes(seed, target):
    block = Block(seed)
    graph = block.graph()
    made = all_groups(graph, target=target)
    assert made and all(any(is_grouped(n) for n in g.nodes) for g in made)
    same(graph, [graph, *made], block.feeds(graph), target)


FULL = {"kind": "s16b", "masks": True, "biases": True, "parts": True, "ends": ("update", "dx"), "size": (4, 4)}


def test_groups_of_a_block_whose_update_was_in_tiles_give_the_same_bytes():
    block = Block(1, **FULL)
    graph = block.graph()
    in_tiles = list(tiled(graph, graph.producer["new.0"], lambda n: call_of(n, graph, "mcu")))[-1]
    made = all_groups(in_tiles, "dx.0")
    assert made and not any(n.op.name == "tiled" for n in made[-1].nodes)
    same(graph, made, block.feeds(graph))


def test_a_gradient_that_is_read_last_is_not_overwritten_before():
    """In the second pass the gradient of a weight comes last, but the depthwise gradient could work in place."""
    block = Block(5, **{**FULL, "ends": ("dx",), "biases": False, "stride": 1, "kernel": 3, "early": True})
    graph = block.graph()
    made = all_groups(graph)
    # the gradient of the weight is recomputed for an update in the loop
    loops = [next(n for n in g.nodes if is_grouped(n)) for g in made]
    assert loops and all(any(inner.op is conv2d_dw_block for inner in node.again) for node in loops)
    same(graph, made, block.feeds(graph))


def one(**chosen) -> tuple[Block, Graph, Looped]:
    """A block in as many groups as possible."""
    block = Block(2, **{**FULL, **chosen})
    made = all_groups(block.graph())[-1]
    return block, made, next(n for n in made.nodes if is_grouped(n))


def test_the_expanded_gradient_is_in_no_buffer_and_the_arena_is_smaller():
    block, graph, node = one(size=(6, 4), kernel=3, stride=1)
    assert node.attrs["channels"] == 16
    whole, made = (plan_ordered(g, target="mcu") for g in (block.graph(), graph))
    assert "deep.0" in whole.offsets and "deep.0" not in made.offsets and made.arena_bytes < whole.arena_bytes
    _, between, _ = node.loop.passes
    update = next(n.name for n in node.nodes if n.op.facts.tiles)
    assert between.count == 1 and {s.layer for s in between.steps} - {update} == {"wide.new.0", "deep.new.0"}


def test_groups_can_be_taken_back_and_made_finer():
    block, least, node = one()
    again = ungrouped(least, node)
    assert again and {n.name for n in again.nodes} == {n.name for n in block.graph().nodes}
    assert list(grouped(least, node, lambda n: call_of(n, least, "mcu"))) == []  # nothing smaller is possible
    block.expanded = 64
    sizes, rooms, whole = [], [], block.graph()
    graph: Graph | None = all_groups(whole)[0]
    while graph:
        node = next(n for n in graph.nodes if is_grouped(n))
        sizes.append(node.attrs["channels"])
        graph = next(grouped(graph, node, lambda n: call_of(n, whole, "mcu")), None)
        rooms.append(node.loop.bytes)
    assert sizes[0] == 32 and sizes[-1] == 16 and sorted(set(rooms), reverse=True) == rooms


def test_a_gradient_that_somebody_else_reads_stays_whole():
    block = Block(2, **FULL)
    graph = block.graph()
    deep = graph.producer["deep.0"].output
    assert all_groups(replace(graph, outputs=(*graph.outputs, deep))) == []


class Projecting(Block):
    """The projection is trained, too: its update is counted before those of the biases inside."""

    def weights(self, name: str, t: Type):
        if name != "projected":
            return super().weights(name, t)
        return self.b.lasting(name, self.rng.integers(-127, 128, t.shape).astype(np.int8), t)

    def inside(self, name: str, value):
        if name == "wide":
            weight = self.b.nodes[-1].inputs[2]
            r = self.b.lasting("residual", np.zeros(weight.shape, np.int8), s8(*weight.shape))
            x = self.b.input("px", s8(1, *self.size, self.expanded, s=0.04, z=-5))
            dw = lookup("conv2d_dw_block")(*self.b.inputs[:2], x, kernel=(1, 1), name="pdw")
            update = lookup("sgd_residual_block_s8")
            new, residual, self.counts = update(weight, r, *dw, self.rate, self.counts, name="projected.new")
            self.b.update(weight, new)
            self.b.update(r, residual)
        return super().inside(name, value)


def test_a_weight_that_changes_before_it_is_read_again_keeps_the_block_whole(monkeypatch):
    """Its update would run between the passes, and the second pass would compute other gradients; verify sees it."""
    graph = Projecting(2, **FULL).graph()
    assert all_groups(graph) == []
    monkeypatch.setattr(chains, "_too_early", lambda chain, between: False)
    for made in all_groups(graph):
        with pytest.raises(GraphError, match="%projected: pass 2 reads it after its update has replaced it"):
            verify(plan_ordered(made, target="mcu"))
    assert all_groups(graph)


def test_an_end_alone_takes_one_pass():
    """Biases need no second pass: nothing is recomputed, and their updates follow the first pass."""
    _, _, node = one(ends=())
    assert node.again == () and [p.count for p in node.loop.passes] == [3, 1]


def _with(loop: Loop, **fields) -> Loop:
    names = ("nodes", "passes", "rooms", "places", "bytes", "lender")
    return Loop(**{**{name: getattr(loop, name) for name in names}, **fields})


def _passes(loop: Loop, at: int, change) -> Loop:
    return _with(loop, passes=tuple(change(p) if i == at else p for i, p in enumerate(loop.passes)))


def _forgetting(function: str):
    """The steps of this kernel write nothing."""
    return lambda p: replace(
        p, steps=tuple(replace(s, writes=()) if s.call.function.startswith(function) else s for s in p.steps)
    )


def test_a_mask_that_is_not_copied_is_missed():
    _, _, node = one()
    with pytest.raises(GraphError, match="reads it before it is written"):
        verify_passes(_passes(node.loop, 0, _forgetting("copy_box")), node)


def test_a_bias_gradient_that_is_not_made_is_missed():
    _, _, node = one()
    with pytest.raises(GraphError, match="reads it before it is written"):
        verify_passes(_passes(node.loop, 0, _forgetting("bias_grad")), node)


def test_a_group_too_few_is_missed():
    _, _, node = one()
    for at in (0, 2):
        with pytest.raises(GraphError, match="are not all of it"):
            verify_passes(_passes(node.loop, at, lambda p: replace(p, count=p.count - 1)), node)


def test_a_room_over_another_that_is_alive_is_caught():
    """Every room in turn is placed over each other room that lives at the same time."""
    _, _, node = one()
    caught = 0
    keys = [k for k in node.loop.places if isinstance(k[1], str)]
    for key in keys:
        for other in keys:
            if key[0] == other[0] and key != other and node.loop.places[key] != node.loop.places[other]:
                try:
                    verify_passes(_with(node.loop, places={**node.loop.places, key: node.loop.places[other]}), node)
                except GraphError:
                    caught += 1
    assert caught > 20


def test_scratch_over_what_its_call_uses_is_caught():
    _, _, node = one()
    at, j = next((i, j) for i, j in node.loop.places if isinstance(j, int))
    step, key = node.loop.passes[at].steps[j], (at, j)
    used = next(node.loop.places[at, v.name] for v in step.writes if (at, v.name) in node.loop.places)
    with pytest.raises(GraphError, match="lies in the scratch of a call that uses it|more scratch than"):
        verify_passes(_with(node.loop, places={**node.loop.places, key: used}), node)


def test_what_only_the_first_pass_needs_lies_in_the_sums_the_last_one_writes():
    _, _, node = one()
    loop = node.loop
    assert loop.lender == next(n.output for n in node.nodes if n.op is dx_sums_block)
    lent = {key for key, at in loop.places.items() if at >= loop.end}
    assert {i for i, _ in lent} == {0, 1}
    alone = arranged(loop.nodes, loop.rooms, loop.passes)
    assert loop.bytes < alone.bytes and all(at < alone.end for at in alone.places.values())


def test_a_room_in_sums_that_are_written_is_caught():
    _, _, node = one()
    loop = node.loop
    late = next(key for key in loop.places if key[0] == 2 and isinstance(key[1], str))
    with pytest.raises(GraphError, match="has no place of .* bytes in pass 2"):
        verify_passes(_with(loop, places={**loop.places, late: loop.end}), node)
    with pytest.raises(GraphError, match="has no place of .* bytes in pass 0"):
        verify_passes(_with(loop, lender=None), node)
    with pytest.raises(GraphError, match="is not a result with its own place"):
        verify_passes(_with(loop, lender=node.inputs[0]), node)


def test_a_table_cut_short_is_caught():
    _, _, node = one()

    def shorter(p):
        cut = lambda a: Entries(Table(a.table.array[:-1]), a.step) if isinstance(a, Entries) else a  # noqa: E731
        return replace(p, steps=tuple(replace(s, call=Call(s.call.function, *map(cut, s.call.args))) for s in p.steps))

    with pytest.raises(GraphError, match="entries are not all of it"):
        verify_passes(_passes(node.loop, 2, shorter), node)


def test_the_report_counts_what_is_made_again():
    block, graph, node = one()
    found = spent(plan_ordered(graph, target="mcu"))
    assert found["blocks_in_groups"] == ["dx.0.sums"]
    again = sum(n.rule("macs", n.output, *n.inputs) for n in node.again if n.op.has("macs"))
    assert found["macs_again"] == again > 0 and "1 block in groups" in spent_text(found)
    told = changes(plan_ordered(graph, target="mcu"), plan_ordered(block.graph(), target="mcu"))
    assert told["dx.0"] == told["deep.0"] == told["merged"] == "blocks in groups" and "wide.mask" not in told


def test_an_emulated_board_gives_the_same_bytes():
    pytest.importorskip("unicorn")
    from insitu.devices.emulator import open_emulator

    block, graph, node = one()
    feeds = block.feeds(graph)
    host = open_plans({"predict": plan(block.graph())})
    outputs = host.run("predict", *feeds)
    for name in ("stm32f746", "rp2040"):
        board = open_emulator(emit_program({"predict": verify(plan_ordered(graph, target="mcu"))}), name)
        ran, counted = board.measure("predict", *feeds)
        assert [y.tobytes() for y in ran] == [y.tobytes() for y in outputs]
        assert {n: a.tobytes() for n, a in board.state().items()} == {n: a.tobytes() for n, a in host.state().items()}
        assert {n.name for n in (*node.nodes, *node.split)} - {"dx.0.sums", "merged"} <= set(counted)


@pytest.mark.parametrize("kind", ["s16b", "s8b"])
def test_the_gradient_in_two_steps_is_the_gradient(kind):
    """dx_sums_block and dx_store_block together are conv2d_dx_block."""
    block = Block(2, **{**FULL, "kind": kind, "parts": False})
    graph = block.graph()
    dx = graph.producer["dx.0"]
    made = replace(graph, nodes=tuple(m for n in graph.nodes for m in (in_two(n, None) if n is dx else (n,))))
    same(graph, [made], block.feeds(graph))


def test_a_published_scheme_runs_its_blocks_in_groups_where_that_lowers_the_peak(shared_models):
    graph = step_of("mcunet-5fps/49kb", shared_models, "s16")["train_step"]
    made = plan(replace(graph, by_rows=graph.inputs[0].name), target="mcu")
    assert sum(is_grouped(n) for n in made.graph.nodes) > 1
    assert made.lower_bound_bytes <= 48_000 and made.arena_bytes <= 52_000
