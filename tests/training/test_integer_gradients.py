"""Integer gradients: close to f32 gradients, and the same bytes from numpy, vectors, plain C and emulated cores."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from insitu.codegen import emit_program
from insitu.devices.host import open_plans
from insitu.errors import DataError, GraphError
from insitu.graph import Graph, drop_unused, evaluate
from insitu.graph.eval import run_step
from insitu.graph.text import arrays, parse
from insitu.importers.checkpoint.read import read_checkpoint
from insitu.ops.block import spread_groups
from insitu.ops.block_update import scale_of
from insitu.planner import Plan, plan
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.toolchain.compiler import NATIVE, SCALAR
from insitu.training.head import replace_head
from insitu.training.integer_gradients import integer_gradients
from insitu.training.train import Recipe, train_graphs

from .programs import int8_programs, samples

KINDS = ("s16", "s8")
RATE = np.float32(0.05)
STEPS = 10
# cosine with the f32 gradient that a network of forty layers must keep
LIKE = {"s16": 0.9999, "s8": 0.99}


@cache
def graphs(kind: str) -> dict[str, Graph]:
    return int8_programs(Recipe(grad=kind))


def step(kind: str) -> Graph:
    return graphs(kind)["train_step"]


def plans(graph: Graph, target: str = "host") -> dict[str, Plan]:
    return {"predict": plan(graphs("f32")["predict"], target=target), "train_step": plan(graph, target=target)}


def without_head(graph: Graph) -> Graph:
    """The step with the gradient of the features as an input: head and loss are float, the rest is exact."""
    first = next(n.inputs[0] for n in graph.nodes if n.op.name == "to_block")
    nodes = tuple(n for n in graph.nodes if n.output != first)
    return drop_unused(replace(graph, inputs=(*graph.inputs, first), nodes=nodes, outputs=()))


def feeds(graph: Graph) -> list[tuple]:
    """The inputs of some steps."""
    xs, labels = samples("cnn", STEPS)
    more = np.random.default_rng(0).normal(size=(STEPS, *graph.inputs[-1].shape)).astype(np.float32)
    fed = [(x[None], label[None], RATE, g) for x, label, g in zip(xs, labels, more)]
    return [f[: len(graph.inputs)] for f in fed]


def meant(graph: Graph) -> list[tuple]:
    """Outputs and state after each step, from numpy."""
    state, found = dict(graph.state), []
    for inputs in feeds(graph):
        outputs, state = run_step(graph, state, *inputs)
        found.append((outputs, state))
    return found


def ran(device, graph: Graph) -> list[tuple]:
    """The same from a device."""
    return [(device.run("train_step", *inputs), device.state()) for inputs in feeds(graph)]


def on_host(graph: Graph, flag: str = NATIVE, target: str = "host"):
    return open_plans(plans(graph, target), flags=(flag,))


def assert_same(a: list[tuple], b: list[tuple], but: str = "-") -> None:
    for (out_a, state_a), (out_b, state_b) in zip(a, b, strict=True):
        for x, y in zip(out_a, out_b, strict=True):
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
        for name in (n for n in state_b if not n.startswith(but)):
            assert state_a[name].tobytes() == state_b[name].tobytes(), name


@pytest.mark.parametrize("kind", KINDS)
def test_the_backward_pass_in_c_equals_its_meaning(kind):
    graph = without_head(step(kind))
    assert_same(meant(graph), ran(on_host(graph), graph), but="head.")


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_plain_c_and_the_kernels_of_small_machines_train_to_the_same_bytes(kind):
    graph = step(kind)
    plain = ran(on_host(graph, SCALAR), graph)
    assert_same(plain, ran(on_host(graph, NATIVE), graph))
    assert_same(plain, ran(on_host(graph, SCALAR, "mcu"), graph))


@pytest.mark.parametrize("board", ["stm32f746", "nrf52840", "rp2040"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_emulated_core_trains_to_the_bytes_of_the_host(kind, board):
    pytest.importorskip("unicorn")
    from insitu.devices.emulator import open_emulator

    graph = step(kind)
    device = open_emulator(emit_program(plans(graph, "mcu")), board)
    assert_same(ran(on_host(graph), graph), ran(device, graph))


def test_no_float_is_left_between_the_first_int8_layer_and_the_updates():
    """f32 from the loss to the start of the blocks, then only for the update of the head."""
    nodes = step("s16").nodes
    first = next(i for i, n in enumerate(nodes) if n.op.name == "to_block")
    floats = {n.op.name for n in nodes[first + 1 :] if any(v.dtype == "f32" for v in n.outputs)}
    assert floats <= {"guard", "share_rate", "sgd", "linear_dw", "bias_grad"}, floats  # rates, and the head's own


def test_block_types_print_and_parse_back():
    graph = step("s8")
    assert "s8b[1x5x5x6; block=row/16]" in str(graph) and "block=channels/16]" in str(graph)
    assert str(parse(str(graph), arrays(graph))) == str(graph)


def test_an_unknown_kind_of_gradient_is_refused():
    with pytest.raises(DataError, match="f32, s16, s8"):
        Recipe(grad="s4")
    with pytest.raises(GraphError, match="f32, s16, s8"):
        integer_gradients(parse("graph g(%x: f32[1]) -> (%x)"), "s4")


@pytest.mark.parametrize("arithmetic", ["residual4", "stochastic", "nearest", "master"])
def test_an_update_without_an_integer_twin_is_given_the_gradient_in_f32(arithmetic):
    graph = int8_programs(Recipe(grad="s16", arithmetic=arithmetic))["train_step"]
    made = {n.op.name for n in graph.nodes}
    assert {"from_block", "sgd_bias_block_s32"} <= made and any(name.startswith(f"sgd_{arithmetic}") for name in made)


@cache
def network(path, scheme: str, kind: str) -> Graph:
    graph = replace_head(read_checkpoint(path), 10, after="pool", init="uniform", seed=0)
    chosen = read_scheme(scheme, [layer for layer in layers(graph) if layer.name != "head"])
    return train_graphs(graph, chosen, Recipe(grad=kind))["train_step"]


def gradients(graph: Graph) -> dict[str, np.ndarray]:
    """Trained parameter -> its gradient for one random image, in real units."""
    x = np.random.default_rng(0).integers(-128, 128, graph.inputs[0].shape).astype(np.int8)
    known = evaluate(graph, x, np.array([3], np.int32), np.float32(0), keep=True)
    assert isinstance(known, dict)
    found = {}
    for node in (n for n in graph.nodes if n.op.name.startswith("sgd")):
        grad = next(v for v in node.inputs[1:] if v.dtype == "s32b" or (v.dtype == "f32" and v.shape))
        unit = 1.0
        if grad.dtype == "s32b":
            unit = scale_of(grad.type) * 2.0 ** spread_groups(known[node.inputs[-3].name].astype(float), grad.type)
        found[node.inputs[0].name] = (known[grad.name].astype(np.float64) * unit).ravel()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["mcunet-5fps/49kb", "mcunet-5fps/99kb"])
def test_every_trained_tensor_of_a_real_network_has_the_gradient_that_f32_gives(shared_models, scheme, kind):
    path = shared_models / "mcunet-5fps.pkl"
    want, got = (gradients(network(path, scheme, k)) for k in ("f32", kind))
    assert want.keys() == got.keys()
    for name, a in want.items():
        b = got[name]
        assert a @ b > LIKE[kind] * np.sqrt((a @ a) * (b @ b)), name
