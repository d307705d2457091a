"""int8 ops compared with LiteRT's reference kernels, byte for byte: files of one operator, scales drawn for each seed.

Two-operand ops see all 65,536 pairs, unary ones all 256 values. Ops quantised here have rounding="litert".
"""

import numpy as np
import pytest

import insitu.ops  # noqa: F401  fills the registry
from insitu.devices.host import open_host
from insitu.errors import GraphError
from insitu.graph import Graph, Type, build, evaluate, f32, lookup, s8
from insitu.ops._tables import LITERT, litert_table, unary_table

from ..importers.tflite_files import T, litert, one

pytest.importorskip("ai_edge_litert", reason="compares with LiteRT")

EVERY = np.arange(-128, 128).astype(np.int8)
PAIRS = tuple(np.ascontiguousarray(m) for m in np.meshgrid(EVERY, EVERY))
SEEDS = range(6)


def draw(seed: int, count: int) -> list[Type]:
    """Quantised types with scales over three decades and any zero point."""
    rng = np.random.default_rng(seed)
    return [s8(s=float(np.float32(10 ** rng.uniform(-3, 0))), z=int(rng.integers(-128, 128))) for _ in range(count)]


def tensor(t: Type, shape) -> T:
    return T(shape, np.int8, t.scale, t.zero)


def reference(operator: str, arrays, types, out: T, **options) -> np.ndarray:
    inputs = [tensor(t, a.shape) if t.dtype == "s8" else T(a.shape, np.float32) for a, t in zip(arrays, types)]
    (result,) = litert(one(operator, inputs, out, **options), *arrays).values()
    return result


def graph_of(op: str, arrays, types, out=None, **attrs) -> Graph:
    with build(op) as b:
        inputs = [b.input(f"x{i}", t.with_shape(*a.shape)) for i, (a, t) in enumerate(zip(arrays, types))]
        return b.graph(lookup(op)(*inputs, out=out, **attrs))


TWO = {"ADD": "add_s8", "SUB": "sub_s8", "MUL": "mul_s8"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("operator", TWO)
def test_every_pair_of_bytes_gives_litert_byte(operator, seed):
    x, y, out = draw(seed, 3)
    want = reference(operator, PAIRS, (x, y), tensor(out, PAIRS[0].shape))
    graph = graph_of(TWO[operator], PAIRS, (x, y), out, rounding="litert")
    np.testing.assert_array_equal(evaluate(graph, *PAIRS), want)


@pytest.mark.parametrize("operator", TWO)
def test_the_c_gives_litert_byte(operator):
    x, y, out = draw(99, 3)
    want = reference(operator, PAIRS, (x, y), tensor(out, PAIRS[0].shape))
    graph = graph_of(TWO[operator], PAIRS, (x, y), out, rounding="litert")
    np.testing.assert_array_equal(open_host(graph).predict(*PAIRS), want)


@pytest.mark.parametrize("operator", TWO)
def test_single_rounding_is_at_most_one_step_from_the_real_result(operator):
    x, y = s8(s=0.03, z=-5), s8(s=0.07, z=11)
    out = s8(s=0.11, z=3)
    graph = graph_of(TWO[operator], PAIRS, (x, y), out)
    a, b = (t.scale * (q.astype(float) - t.zero) for t, q in zip((x, y), PAIRS))
    real = {"ADD": a + b, "SUB": a - b, "MUL": a * b}[operator]
    steps = np.clip(real / out.scale + out.zero, -128, 127)
    assert np.abs(evaluate(graph, *PAIRS) - steps).max() < 0.52  # half a step, plus the loss of 16-bit multipliers


@pytest.mark.parametrize("broadcast", [(1, 1, 1, 5), (1, 1, 1, 1), (1, 3, 4, 1)])
def test_sums_broadcast_as_in_litert(broadcast):
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-128, 128, s).astype(np.int8) for s in ((1, 3, 4, 5), broadcast)]
    x, y, out = draw(4, 3)
    want = reference("ADD", arrays, (x, y), tensor(out, (1, 3, 4, 5)))
    np.testing.assert_array_equal(
        open_host(graph_of("add_s8", arrays, (x, y), out, rounding="litert")).predict(*arrays), want
    )


def softmax_rows(seed: int) -> np.ndarray:
    """Rows from nearly flat to saturated; fewer than 512 equal elements, since LiteRT stops with an assertion there."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 400))
    spread = 10 ** rng.uniform(0, 2.2, (40, 1))
    return np.clip(np.round(rng.normal(0, spread, (40, n))), -128, 127).astype(np.int8)


@pytest.mark.parametrize("seed", range(12))
def test_softmax_gives_litert_bytes(seed):
    rows, (x,) = softmax_rows(seed), draw(seed, 1)
    x = s8(s=float(np.float32(x.scale * (1 + 9 * (seed % 2)))), z=x.zero)
    want = reference("SOFTMAX", [rows], [x], T(rows.shape, np.int8, 1 / 256, -128), beta=1.0)
    graph = graph_of("softmax_s8", [rows], [x], rounding="litert")
    np.testing.assert_array_equal(evaluate(graph, rows), want)
    if seed < 2:
        np.testing.assert_array_equal(open_host(graph).predict(rows), want)


def test_a_softmax_over_more_than_its_sum_holds_is_refused():
    with pytest.raises(GraphError, match="4095"):
        graph_of("softmax_s8", [np.zeros((1, 4096), np.int8)], [s8(s=0.1)])


@pytest.mark.parametrize("seed", range(40))
def test_requantize_gives_litert_bytes(seed):
    x, out = draw(seed, 2)
    if seed % 4 == 0:
        out = s8(s=x.scale, z=out.zero)  # only the zero point moves
    want = reference("QUANTIZE", [EVERY], [x], tensor(out, EVERY.shape))
    np.testing.assert_array_equal(
        evaluate(graph_of("requantize_s8", [EVERY], [x], out, rounding="litert"), EVERY), want
    )


@pytest.mark.parametrize("seed", range(20))
def test_dequantize_gives_litert_floats(seed):
    (x,) = draw(seed, 1)
    want = reference("DEQUANTIZE", [EVERY], [x], T(EVERY.shape, np.float32))
    np.testing.assert_array_equal(evaluate(graph_of("dequantize", [EVERY], [x]), EVERY), want)


def around_ties(scale: float, seed: int) -> np.ndarray:
    """Floats at, just below and just above the middle between two steps, and random ones."""
    ties = ((np.arange(-300, 300) + 0.5) * scale).astype(np.float32)
    drawn = np.random.default_rng(seed).normal(0, 80 * scale, 500).astype(np.float32)
    return np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), drawn]).astype(np.float32)


@pytest.mark.parametrize("seed", range(20))
def test_quantize_gives_litert_bytes_also_at_ties(seed):
    (out,) = draw(seed, 1)
    x = around_ties(out.scale, seed)
    want = reference("QUANTIZE", [x], [f32()], tensor(out, x.shape))
    graph = graph_of("quantize", [x], [f32()], out)
    np.testing.assert_array_equal(evaluate(graph, x, precision=np.float64), want)
    if seed < 2:
        np.testing.assert_array_equal(open_host(graph).predict(x), want)


# LiteRT has no int8 kernel for SQUARE and no reference one for ELU
TABLES = [name for name in LITERT if name not in ("SQUARE", "ELU")]
FIXED_OUTPUT = {"LOGISTIC": s8(s=1 / 256, z=-128), "TANH": s8(s=1 / 128, z=0)}


def table_types(operator: str, seed: int) -> tuple[Type, Type]:
    x, y = draw(1000 + seed, 2)
    if operator in ("LOG", "SQRT", "RSQRT"):
        x = s8(s=x.scale, z=-128)  # LiteRT refuses inputs below zero
    if operator == "HARD_SWISH":
        y = s8(s=max(y.scale, float(np.float32(x.scale / 64))), z=y.zero)  # and multipliers above one
    return x, FIXED_OUTPUT.get(operator, y)


@pytest.mark.parametrize("operator", TABLES)
def test_tables_hold_litert_bytes(operator):
    for seed in range(25):
        x, y = table_types(operator, seed)
        attrs = {"alpha": float(np.float32(0.07 * seed - 0.3))} if operator == "LEAKY_RELU" else {}
        want = reference(operator, [EVERY], [x], tensor(y, EVERY.shape), **attrs)
        np.testing.assert_array_equal(litert_table(operator, x, y, **attrs), want, f"seed {seed}")


def test_the_tables_of_both_kinds_of_gelu_differ_and_are_litert_bytes():
    x, y = s8(s=float(np.float32(0.02)), z=100), s8(s=float(np.float32(0.0014)), z=127)
    found = {}
    for approximate in (False, True):
        want = reference("GELU", [EVERY], [x], tensor(y, EVERY.shape), approximate=approximate)
        found[approximate] = litert_table("GELU", x, y, approximate="tanh" if approximate else "none")
        np.testing.assert_array_equal(found[approximate], want)
    assert (found[False] != found[True]).any()


def test_a_plain_table_rounds_to_the_nearest_and_saturates():
    x, y = s8(s=0.5, z=0), s8(s=1.0, z=10)
    table = unary_table(lookup("square"), x, y)
    assert table[128 + 2] == 11  # 1.0
    assert table[128 + 1] == 10  # 0.25
    assert table[128 + 3] == 12  # 2.25
    assert table[128 + 127] == 127
    ties = unary_table(lambda v: v, x, y)
    assert (ties[128 + 1], ties[128 - 1]) == (11, 9)  # 0.5 and -0.5, away from zero
