"""Helium, the vectors of Cortex-M55, on QEMU: random shapes and a network's first layers give the bytes of plain C."""

import shutil

import numpy as np
import pytest

from insitu.codegen import emit_program
from insitu.devices.host import open_plans, open_program
from insitu.devices.qemu import WHOLE, open_qemu
from insitu.graph import Builder, Type, build, evaluate, lookup, s8, s32
from insitu.importers import load
from insitu.planner import plan
from insitu.planner.plan import plan_ordered

from ..planner.test_groups import one

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)

GCC = "arm-none-eabi-gcc"
pytestmark = pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="no qemu-system-arm")
WITHOUT = ("-mcpu=cortex_m55+fp_armv8d16",)  # the same core for the compiler, without vectors
M55 = "corstone300"


def drawn(builder, rng, name, *shape):
    """Random numbers as a constant of the graph, because the protocol allows few inputs."""
    type = s8(*shape, s=0.05, z=int(rng.integers(-128, 128)))
    return builder.constant(name, rng.integers(-128, 128, shape).astype(np.int8), type)


def constants(builder, rng, name, shape, axis):
    """Weights with one scale per channel, and a bias."""
    channels = shape[axis]
    w = s8(*shape, s=tuple(rng.uniform(0.002, 0.01, channels)), axis=axis)
    b = s32(channels)
    return (
        builder.constant(f"{name}.w", rng.integers(-127, 128, shape).astype(np.int8), w),
        builder.constant(f"{name}.b", rng.integers(-4000, 4000, channels).astype(np.int32), b),
    )


def window(rng, kernel, depthwise=False):
    """A shape of inputs that a kernel fits on, and how it moves."""
    top, left = (int(v) for v in rng.integers(0, kernel, 2))
    size = rng.integers(kernel, 14, 2)
    channels = int(rng.integers(1, 9) if depthwise else rng.integers(1, 40))
    stride = int(rng.integers(1, 3))
    return (1, *map(int, size), channels), {"stride": (stride, stride), "padding": (top, 0, left, kernel // 2)}


def random_graph(seed: int):
    """All kinds of convolutions and residual sums side by side, with and without masks; and the inputs."""
    rng, results, builder = np.random.default_rng(seed), [], Builder("random")
    fed = builder.input("fed", s8(1, 4, 4, 16, s=0.05, z=-7))
    with build(builder):
        for i, kernel in enumerate((1, 1, 1, 1, 3, 3, 5, 2)):
            shape, moves = window(rng, kernel)
            moves = {} if kernel == 1 and i else moves
            x = drawn(builder, rng, f"dense{i}", *shape)
            w, b = constants(builder, rng, f"dense{i}", (int(rng.integers(1, 12)), kernel, kernel, shape[3]), 0)
            rounding = "litert" if i in (2, 3, 5) else "single"
            results.append(
                lookup("conv2d_s8")(x, w, b, **moves, mask=bool(i % 2), rounding=rounding, out=s8(s=0.2, z=3))
            )
        for i, kernel in enumerate((3, 3, 5, 7, 7, 2)):
            shape, moves = window(rng, kernel, depthwise=True)
            x = drawn(builder, rng, f"depth{i}", *shape)
            w, b = constants(builder, rng, f"depth{i}", (kernel, kernel, shape[3]), 2)
            moves["rounding"] = "litert" if i in (1, 2) else "single"
            results.append(lookup("depthwise2d_s8")(x, w, b, **moves, mask=bool(i % 2), out=s8(s=0.1, z=-5)))
        for i, shape in enumerate(((1, 3, 5, 7), (1, 4, 4, 16))):
            a, b = fed if i else drawn(builder, rng, "left", *shape), drawn(builder, rng, f"right{i}", *shape)
            results.append(lookup("add_s8")(a, b, mask=bool(i), out=s8(s=0.07, z=11)))
    outputs = [v for r in results for v in (r if isinstance(r, tuple) else (r,))]
    return builder.graph(*outputs), rng.integers(-128, 128, fed.shape).astype(np.int8)


@pytest.mark.parametrize("seed", range(2))
def test_random_shapes_give_the_bytes_that_numpy_says(seed):
    graph, x = random_graph(seed)
    with open_qemu(emit_program(plan(graph, target="mcu")), M55) as device:
        assert any(name.startswith("helium_") for name in device.image.by_name), "not compiled for Helium"
        got = device.run("predict", x)
    wanted = evaluate(graph, x)
    for value, a, b in zip(graph.outputs, got, wanted):
        np.testing.assert_array_equal(a, np.asarray(b), err_msg=value.name)


def test_integer_gradients_give_the_same_bytes():
    """A backward block, in groups and in one piece. Rows of gradients are 16 bits wide, those of vectors are bytes."""
    block, graph, _ = one()
    feeds = block.feeds(graph)
    wanted = [y.tobytes() for y in open_plans({"predict": plan(block.graph())}).run("predict", *feeds)]
    for each in (graph, block.graph()):
        with open_qemu(emit_program({"predict": plan_ordered(each, target="mcu")}), M55) as device:
            assert [y.tobytes() for y in device.run("predict", *feeds)] == wanted


@pytest.mark.skipif(not shutil.which(GCC), reason=f"no {GCC}")
def test_what_gcc_makes_of_the_vectors_gives_the_same_bytes():
    graph, x = random_graph(3)
    with open_qemu(emit_program(plan(graph, target="mcu")), M55, compiler=GCC) as device:
        got = device.run("predict", x)
    assert all(a.tobytes() == np.asarray(b).tobytes() for a, b in zip(got, evaluate(graph, x)))


def first_layers(models, count: int, rows: int):
    """The first layers of mcunet, for the upper rows of an image: QEMU takes long for every byte of it."""
    graph = load(models / "mcunet-5fps.pkl")
    with build("first") as b:
        made = {graph.inputs[0].name: b.input("input", graph.inputs[0].type.with_shape(1, rows, 128, 3))}
        for node in graph.nodes[:count]:
            given = [made.get(v.name) or b.constant(v.name, graph.constants[v.name], v.type) for v in node.inputs]
            out = Type("s8", (), node.output.type.quant)
            made[node.output.name] = node.op(*given, name=node.name, out=out, **node.attrs)
    return b.graph(made[node.output.name])


@pytest.mark.slow
def test_the_first_layers_of_mcunet_take_a_fourth_less_with_helium(shared_models):
    graph = first_layers(shared_models, 5, rows=128)
    x = np.random.default_rng(0).integers(-128, 128, graph.inputs[0].shape).astype(np.int8)
    program, spent = emit_program(plan(graph, target="mcu")), {}
    want = open_program(emit_program(plan(graph, target="host"))).predict(x)
    for name, flags in (("helium", ()), ("pairs", WITHOUT)):
        with open_qemu(program, M55, flags=flags) as device:
            (y,), found = device.measure("predict", x)
        assert y.tobytes() == want.tobytes()
        spent[name] = found[WHOLE]
    assert spent["helium"] < 0.75 * spent["pairs"]
