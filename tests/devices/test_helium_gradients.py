"""Integer gradients on Cortex-M55: Helium gives the results of numpy, of plain C and of the host."""

import shutil
import zlib
from functools import cache

import numpy as np
import pytest

import insitu.ops  # noqa: F401  fills the registry
from insitu.codegen import emit_program
from insitu.devices.host import open_plans
from insitu.devices.qemu import open_qemu
from insitu.graph import REGISTRY, Builder, Case, Type, build, evaluate, f32, s8, type_of
from insitu.ops._block import both
from insitu.ops.mask import mask_type
from insitu.planner import plan_all
from insitu.planner.plan import plan_ordered
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.head import replace_head
from insitu.training.train import Recipe, train_graphs

from ..ops.case_library import draw
from ..training.small_nets import int8_net
from .test_helium import GCC, M55

pytestmark = pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="no qemu-system-arm")
PLAIN = ("-DINSITU_SCALAR",)
M7 = "stm32f746"
# rows of a multiple of eight numbers, and others; of only one group of four; that begin between words; images whose
# rows are a multiple of four pixels
SIZES = ((1, 4, 4), (3, 2, 17), (3, 4, 16), (2, 12, 36))
OWN = ("bias_grad_block", "conv2d_dw_block", "depthwise2d_dx_block", "dx_sums_block", "linear_dx_parts_block")
VECTORS = ("helium_halves_sums", "helium_turned_sums", "helium_window_16")  # functions that only vector code has
TOGETHER = 18  # cases per verb


def scaled(*shape, axis=0):
    return s8(*shape, s=np.linspace(0.01, 0.2, shape[axis]), axis=axis)


def more_cases():
    """(op, case): sizes around those of vectors."""
    for h, w, c in SIZES:
        name, o, x = f"{h}x{w}x{c}", 52 - c, s8(1, h, w, 60 - c, s=0.03, z=-7)
        for op, cases in (
            ("conv2d_dx_block", both(name, (1, h, w, c), scaled(c, 1, 1, o), size=(h, w))),
            ("conv2d_dw_block", both(name, (1, h, w, c), x, kernel=(1, 1))),
            ("depthwise2d_dx_block", both(name, (1, h, w, c), scaled(3, 3, c, axis=2), size=(h, w), padding=(1,) * 4)),
            ("depthwise2d_dw_block", both(name, (1, h, w, c), s8(1, h, w, c, s=0.1), kernel=(3, 3), padding=(1,) * 4)),
            ("bias_grad_block", both(name, (1, h, w, c))),
            ("linear_dx_block", both(name, (h, c), scaled(c, o))),
        ):
            yield from ((op, case) for case in cases)
        for m in (Type(dtype, (1, h, w, c)) for dtype in ("s16b", "s8b")):
            yield "mask_grad_block", Case(f"{name}, {m.dtype}", (m, mask_type(m)))


@cache
def cases_of(dtype: str):
    """The cases of gradients of this width: the ops' own, and more."""
    own = [(op, case) for op in OWN for case in REGISTRY[op].cases]
    return [(op, case) for op, case in (*own, *more_cases()) if case.name.endswith(dtype)]


def value_of(builder, name: str, x):
    array = x if isinstance(x, np.ndarray) else draw(x, np.random.default_rng(zlib.crc32(name.encode())))
    return builder.constant(name, array, type_of(array) if isinstance(x, np.ndarray) else x)


def gradient_of(builder, name: str, t: Type):
    """Mantissas and exponents as they would be computed; rows of different magnitudes, one of zeros."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    rows = rng.normal(size=t.shape) * np.exp2(rng.integers(-9, 3, (*t.shape[:-2], 1, 1)))
    rows.reshape(-1)[: t.shape[-1]] = 0
    return REGISTRY["to_block"](builder.constant(name, rows.astype(np.float32), f32(*t.shape)), dtype=t.dtype)


@cache
def graph_of(dtype: str, first: int):
    """Some cases side by side, and their inputs: one input that every program has; the others are constants, because
    the protocol allows few."""
    builder, outputs = Builder("gradients"), []
    fed = builder.input("fed", f32(1, 2, 3, 4))
    with build(builder):
        outputs += REGISTRY["to_block"](fed, dtype=dtype)
        for i, (op, case) in enumerate(cases_of(dtype)[first : first + TOGETHER]):
            values = [value_of(builder, f"x{first + i}.{j}", x) for j, x in enumerate(case.inputs)]
            if case.inputs[0].dtype == dtype:  # a constant may have any address, a gradient is word-aligned
                made = gradient_of(builder, f"g{first + i}", case.inputs[0])
                with_exponents = isinstance(case.inputs[1], np.ndarray)
                values[: 1 + with_exponents] = made[: 1 + with_exponents]
            result = REGISTRY[op](*values, name=f"{op}: {case.name}", **case.attrs)
            outputs += result if isinstance(result, tuple) else (result,)
    return builder.graph(*outputs), np.random.default_rng(first).normal(size=fed.shape).astype(np.float32)


@cache
def graphs_of(dtype: str):
    return {f"v{first}": graph_of(dtype, first) for first in range(0, len(cases_of(dtype)), TOGETHER)}


@cache
def program_of(dtype: str):
    return emit_program({verb: plan_ordered(graph, target="mcu") for verb, (graph, _) in graphs_of(dtype).items()})


NO_GCC = pytest.mark.skipif(not shutil.which(GCC), reason=f"no {GCC}")


@pytest.mark.parametrize(
    "board, dtype, flags, compiler",
    [
        (M55, "s16b", (), "zig"), (M55, "s8b", (), "zig"), (M55, "s16b", PLAIN, "zig"),
        pytest.param(M55, "s8b", (), GCC, marks=NO_GCC), (M7, "s16b", (), "zig"), (M7, "s8b", (), "zig"),
    ],
)  # fmt: skip
def test_every_op_on_gradients_gives_the_bytes_that_numpy_says(board, dtype, flags, compiler):
    """On a Cortex-M7 too: unlike our emulator, QEMU traps like a core if a multi-word access is not word-aligned."""
    device = open_qemu(program_of(dtype), board, flags=flags, compiler=compiler)
    with device:
        assert all((name in device.image.by_name) == (board == M55 and flags != PLAIN) for name in VECTORS)
        for verb, (graph, x) in graphs_of(dtype).items():
            for value, a, b in zip(graph.outputs, device.run(verb, x), evaluate(graph, x), strict=True):
                np.testing.assert_array_equal(a, np.asarray(b).reshape(a.shape), err_msg=value.name)


@pytest.mark.parametrize("grad", ["s16", "s8"])
def test_a_network_learns_what_it_learns_on_the_host(grad):
    graph = replace_head(int8_net(), None)
    chosen = read_scheme("full", [layer for layer in layers(graph) if layer.name != "head"])
    graphs, rng = train_graphs(graph, chosen, Recipe(grad=grad)), np.random.default_rng(3)
    host = open_plans(plan_all(graphs, "mcu"))
    with open_qemu(emit_program(plan_all(graphs, "mcu")), M55) as device:
        for i in range(3):
            feeds = rng.normal(size=(1, 5, 6, 3)).astype(np.float32), np.array([i % 3], np.int32), np.float32(0.05)
            there, here = device.run("train_step", *feeds), host.run("train_step", *feeds)
            assert [a.tobytes() for a in there] == [a.tobytes() for a in here]
        assert device.save_state() == host.save_state()
