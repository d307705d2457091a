"""An image that arrives row by row gives the same bytes as the whole image, in any pieces, and is never held whole."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.codegen import emit_program
from insitu.devices.host import open_plans
from insitu.devices.rows import Arrival
from insitu.errors import DataError, GraphError
from insitu.graph import Graph, build, lookup, s8
from insitu.graph.loops import Loop
from insitu.graph.text import arrays, parse
from insitu.planner import plan, plan_all, verify
from insitu.planner.changes.stripes.arrive import with_source
from insitu.planner.changes.stripes.loop import loop_of
from insitu.planner.changes.stripes.node import HEIGHTS, fused, regions
from insitu.planner.plan import call_of, plan_ordered
from insitu.planner.verify.stripes import verify_stripes
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.head import replace_head
from insitu.training.train import Recipe, train_graphs

from ..training.small_nets import int8_net
from .test_stream import Net, lowest, step_of


def by_rows(graph: Graph) -> Graph:
    return replace(graph, by_rows=graph.inputs[0].name)


def pieces(rng, x: np.ndarray):
    """The rows of an image in random pieces: one, several or all at a time; sometimes none."""
    at, most = 0, int(rng.choice([1, 3, len(x)]))
    while at < len(x):
        count = int(rng.integers(0, most + 1))
        yield x[at : at + count]
        at += count


def in_stripes(graph: Graph, height, target: str, number: int):
    """A plan in which one of the parts that can take the rows does so, in stripes of this height; None without one."""
    source = with_source(by_rows(graph))
    found = list(regions(source, source.nodes[0]))
    if not found:
        return None
    region = found[number % len(found)]
    loop = loop_of(region, height, lambda n: call_of(n, source, target))
    return verify(plan_ordered(fused(source, region, loop), target=target))


@given(st.integers(0, 2**32 - 1), st.sampled_from(HEIGHTS), st.sampled_from(["host", "mcu"]), st.integers(0, 9))
@settings(max_examples=15, deadline=None)
def test_rows_in_any_pieces_give_the_bytes_of_the_whole_image(seed, height, target, number):
    rng = np.random.default_rng(seed)
    graph = Net(rng).graph()
    made = in_stripes(graph, height, target, number)
    if made is None:
        return
    whole, device = open_plans({"predict": plan(graph, target=target, stream=False)}), open_plans({"predict": made})
    device.poison(int(rng.integers(256)))
    image = Arrival(device)
    for _ in range(3):
        x = rng.integers(-128, 128, graph.inputs[0].shape).astype(np.int8)
        for piece in pieces(rng, x[0]):
            image.rows(piece)
        for a, b in zip(whole.run("predict", x), image.end(), strict=True):
            assert a.tobytes() == b.tobytes()
        image.begin()
    assert device.run("predict", x)[0].tobytes() == whole.run("predict", x)[0].tobytes()


# training ---------------------------------------------------------------------------------------


def training(scheme: str = "last:1", batch: int = 1, **recipe):
    graph = replace_head(int8_net(), None)
    chosen = read_scheme(scheme, [layer for layer in layers(graph) if layer.name != "head"])
    return train_graphs(graph, chosen, Recipe(**recipe), accumulate=batch > 1)


def sample(i: int):
    """An image, its label, a rate."""
    x = np.random.default_rng(i).normal(size=(1, 5, 6, 3)).astype(np.float32)
    return x, np.array([i % 3], np.int32), np.float32(0.05)


@pytest.mark.parametrize("grad", ["f32", "s16"])
@pytest.mark.parametrize("scheme", ["head", "last:1", "last:2"])
def test_training_row_by_row_gives_the_losses_outputs_and_state_of_whole_images(scheme, grad):
    whole = open_plans(plan_all(training(scheme, grad=grad), "mcu"))
    device = open_plans(plan_all(training(scheme, grad=grad, rows=True), "mcu"))
    image = Arrival(device, "train_step")
    for i in range(3):
        x, label, rate = sample(i)
        image.begin()
        for row in x[0]:
            image.rows(row[None])
        there, here = image.end(label, rate), whole.run("train_step", x, label, rate)
        assert [a.tobytes() for a in there] == [a.tobytes() for a in here]
        assert device.save_state() == whole.save_state()
        assert device.run("predict", x)[0].tobytes() == whole.run("predict", x)[0].tobytes()


def test_gradients_of_images_that_arrive_row_by_row_add_up():
    whole, device = (
        open_plans(plan_all(training(batch=2), "mcu")),
        open_plans(plan_all(training(batch=2, rows=True), "mcu")),
    )
    for i in range(4):
        x, label, rate = sample(i)
        assert device.run("accumulate", x, label)[0].tobytes() == whole.run("accumulate", x, label)[0].tobytes()
        if i % 2:
            for d in (device, whole):
                d.run("apply", rate, np.float32(0.5))
    assert device.save_state() == whole.save_state()


def test_a_published_scheme_predicts_in_little_more_than_half_the_memory(shared_models):
    graph = step_of("mcunet-5fps/49kb", shared_models)["predict"]
    made, whole = plan(by_rows(graph), target="mcu"), lowest("predict", "mcunet-5fps/49kb", shared_models)
    assert made.arena_bytes <= 35_000 < 55_000 <= whole.arena_bytes
    x = np.random.default_rng(0).integers(-128, 128, graph.inputs[0].shape).astype(np.int8)
    a, b = open_plans({"predict": whole}), open_plans({"predict": made})
    assert a.run("predict", x)[0].tobytes() == b.run("predict", x)[0].tobytes()
    (line,) = [x for c in made.calls if isinstance(c, Loop) and c.source for x in c.rooms if x.value.shape[1] == 128]
    assert line.bytes <= 6 * 384  # of 49,152


# wrong use --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def device():
    return open_plans(plan_all(training(batch=2, rows=True), "host"))


def begun(device, rows: int, verb: str = "accumulate") -> Arrival:
    image = Arrival(device, verb)
    image.rows(sample(0)[0][0][:rows])
    return image


def refused(device, call, match: str) -> None:
    """The call is an error, the image is abandoned, and the state is unchanged."""
    before = device.save_state()
    with pytest.raises(DataError, match=match):
        call()
    assert device.save_state() == before


X, LABEL, _ = sample(0)


def test_an_end_before_all_rows_have_come_is_refused_and_ends_the_image(device):
    for rows in range(5):
        image = begun(device, rows)
        refused(device, lambda image=image: image.end(LABEL), "rows are missing")
        refused(device, lambda image=image: image.end(LABEL), "no image has been begun")
        refused(device, lambda image=image: image.rows(X[0]), "no image has been begun")


def test_more_rows_than_there_are_are_refused_and_end_the_image(device):
    image = begun(device, 3)
    refused(device, lambda: image.rows(X[0][:3]), "more rows")
    refused(device, lambda: image.end(LABEL), "no image has been begun")
    image = begun(device, 5)
    refused(device, lambda: image.bytes(b"\0"), "more rows")


@pytest.mark.parametrize("count", [-1, 6, 2**31 - 1, -(2**31)])
def test_a_number_of_rows_that_no_image_has_is_refused(device, count):
    import ctypes

    image = Arrival(device, "accumulate")
    refused(device, lambda: image._call("rows", [None, ctypes.c_int32(count)]), "more rows")
    image.begin()
    refused(device, lambda: image._call("bytes", [None, ctypes.c_int32(count - 5 * 6 * 3 * 4)]), "more rows")


def test_an_image_ends_once(device):
    image = begun(device, 5)
    image.end(LABEL)
    refused(device, lambda: image.end(LABEL), "no image has been begun")


def test_another_call_in_between_ends_the_image(device):
    calls = (
        lambda: device.predict(X),
        lambda: device.run("apply", np.float32(0), np.float32(0)),
        lambda: begun(device, 2, "predict"),
    )
    for call in calls:
        image = begun(device, 2)
        call()
        refused(device, lambda image=image: image.rows(X[0][2:]), "no image has been begun")
        refused(device, lambda image=image: image.end(LABEL), "no image has been begun")


def test_rows_without_a_begin_are_refused_whatever_lies_in_the_arena(device):
    image = Arrival(device, "accumulate")
    for content in (0, 255, np.random.default_rng(1).integers(0, 256, device.program.arena_bytes)):
        device.poison(content)
        refused(device, lambda: image.rows(X[0]), "no image has been begun")


def test_begin_starts_anew(device):
    want = open_plans(plan_all(training(batch=2), "host")).run("predict", X)[0]
    image = begun(device, 3, "predict")
    image.begin()
    image.rows(X[0])
    assert image.end()[0].tobytes() == want.tobytes()


def test_pieces_may_end_anywhere_in_a_row(device):
    want, rng = device.run("predict", X)[0].tobytes(), np.random.default_rng(3)
    data = X.tobytes()
    for _ in range(5):
        image, at = Arrival(device, "predict"), 0
        while at < len(data):
            count = int(rng.integers(0, 30))
            image.bytes(data[at : at + count])
            at += count
        assert image.end()[0].tobytes() == want


def test_rows_of_another_shape_or_type_are_refused(device):
    image = Arrival(device, "predict")
    for piece in (X[0][:, :5], X[0].astype(np.int8), X):
        with pytest.raises(DataError, match="rows must be f32"):
            image.rows(piece)


def test_a_program_that_takes_whole_images_says_so():
    with pytest.raises(DataError, match="whole images"):
        Arrival(open_plans({"predict": plan(int8_net())}))


# what cannot arrive in rows ---------------------------------------------------------------------


def small(scheme: str, **recipe) -> dict[str, Graph]:
    """A trained network that takes bytes: nothing is between the input and the first layer."""
    net = Net(np.random.default_rng(2))
    with build("bytes") as net.b:
        x = net.b.input("x", s8(1, 7, 5, 2, s=0.05))
        y = lookup("conv2d_s8")(x, *net.weights("one", (3, 3, 3, 2), 3, 0), out=net.out(), name="one")
        y = lookup("conv2d_s8")(y, *net.weights("two", (4, 1, 1, 3), 4, 0), out=net.out(), name="two")
        y = lookup("mean_s8")(y, axes=(1, 2), keepdims=False, out=net.out(), name="mean")
        y = lookup("linear_s8")(y, *net.weights("fc", (3, 4), 3, 0), out=net.out(), name="fc")
    graph = replace_head(net.b.graph(y), 3)
    chosen = read_scheme(scheme, [layer for layer in layers(graph) if layer.name != "head"])
    return train_graphs(graph, chosen, Recipe(**recipe))


def test_a_trained_first_layer_needs_its_input_again():
    assert plan_all(small("last:1", rows=True), "mcu")["train_step"].graph.by_rows == "x"
    with pytest.raises(GraphError, match=r"(?s)one .*whole.*without rows"):
        plan_all(small("full", rows=True), "mcu")


def test_a_model_of_no_images_says_so():
    with build("flat") as b:
        x = b.input("x", s8(1, 8, s=0.1))
        graph = b.graph(lookup("lut_s8")(x, b.constant("t", np.zeros(256, np.int8)), out=s8(s=0.1), name="y"))
    with pytest.raises(GraphError, match="only one image at a time"):
        plan(by_rows(graph))


def test_an_input_that_somebody_else_needs_whole_says_who():
    net = Net(np.random.default_rng(1))
    with build("two") as net.b:
        x = net.b.input("x", s8(1, 9, 4, 2, s=0.05))
        y = net.conv(x)
        mean = lookup("mean_s8")(x, axes=(1, 2), keepdims=False, out=net.out(), name="mean")
    with pytest.raises(GraphError, match=r"mean \(mean_s8\) cannot run in stripes"):
        plan(by_rows(net.b.graph(y, mean)), target="mcu")
    with pytest.raises(GraphError, match="is also an output"):
        plan(by_rows(net.b.graph(y, x)), target="mcu")


# the proof --------------------------------------------------------------------------------------


def _loop() -> Loop:
    net = Net(np.random.default_rng(5))
    with build("three") as net.b:
        x = net.b.input("x", s8(1, 9, 4, 2, s=0.05))
        end = lookup("mean_s8")(net.skip(x), axes=(1, 2), keepdims=False, out=net.out(), name="mean")
    return next(c for c in plan(by_rows(net.b.graph(end)), target="mcu").calls if isinstance(c, Loop))


def _changed(loop: Loop, t: int, i: int, **fields) -> Loop:
    stripes = [list(s) for s in loop.stripes]
    stripes[t][i] = replace(stripes[t][i], **fields)
    return Loop(loop.nodes, loop.rooms, loop.places, loop.bytes, stripes=tuple(map(tuple, stripes)))


def test_a_row_that_does_not_come_in_turn_is_caught():
    loop = _loop()
    verify_stripes(loop, (loop.nodes[-1].output,))
    came = [t for t, s in enumerate(loop.stripes) if s[0].window]
    with pytest.raises(GraphError, match="after 0 arrived|after . arrived"):
        verify_stripes(_changed(loop, came[0], 0, window=None), ())
    again = loop.stripes[came[0]][0].window
    with pytest.raises(GraphError, match="reads row 0 of it in x.rows, after"):
        verify_stripes(_changed(loop, came[1], 0, window=again), ())


def test_a_row_that_two_take_is_caught():
    loop = _loop()
    t = next(t for t, s in enumerate(loop.stripes) if s[1].window)
    window = loop.stripes[t][1].window
    assert window is not None and loop.source is not None
    stolen = replace(window, read=tuple(replace(p, value=loop.source) for p in window.read))
    with pytest.raises(GraphError, match="in body1, after"):
        verify_stripes(_changed(loop, t, 1, window=stolen), ())


def test_a_plan_that_holds_what_arrives_or_reads_it_late_is_caught():
    made = plan_all(training(rows=True), "mcu")["train_step"]
    assert verify(made) is made and made.graph.by_rows not in made.offsets
    with pytest.raises(GraphError, match="a place of its own"):
        verify(replace(made, offsets={**made.offsets, made.graph.by_rows: 0}))
    order = (made.graph.nodes[1], made.graph.nodes[0], *made.graph.nodes[2:])
    late = replace(made, graph=replace(made.graph, nodes=order), calls=(made.calls[1], made.calls[0], *made.calls[2:]))
    with pytest.raises(GraphError, match="not only the first"):
        verify(late)


def test_the_text_of_a_graph_says_what_arrives_in_rows():
    graph = training(rows=True)["predict"]
    assert "rows %x" in str(graph)
    assert parse(str(graph), arrays(graph)).by_rows == "x"
    assert emit_program(plan(graph)).arena_bytes % 16 == 0
