"""uint8 in .tflite files: read as int8, 128 lower, with the bytes of LiteRT's reference kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from insitu.errors import Unsupported
from insitu.graph import check, evaluate
from insitu.importers.tflite.ops import up_is_exact
from insitu.importers.tflite.read import read_tflite
from tests.importers.test_tflite_ops import INT8, VALID, pool
from tests.importers.tflite_files import File, T, const, litert, one

NOT_IN_LITERT = ("matmul", "matmul adjoint", "matmul ties", "elu", "exp", "abs")  # it has no uint8 kernels for these
INEXACT = ("average pool",)  # windows of six elements at the edge: see halves() in ops.py
RNG = np.random.default_rng(3)


def unsigned(t: T | None) -> T | None:
    """The same tensor in uint8, with one scale: LiteRT has no others there."""
    if t is None or t.dtype is not np.int8:
        return t
    data = None if t.data is None else t.data.view(np.uint8) ^ 128
    return replace(t, dtype=np.uint8, zero=t.zero + 128, data=data, scale=float(np.atleast_1d(t.scale)[0]))


def raised(y: np.ndarray) -> np.ndarray:
    return y.view(np.uint8) ^ 128 if y.dtype == np.int8 else y


def run(data: bytes, inputs) -> list[tuple[np.ndarray, np.ndarray]]:
    """(ours, LiteRT's) for random bytes."""
    shapes = [t for t in inputs if t is not None and t.data is None]
    fed = [RNG.integers(0, 256, t.shape).astype(np.uint8) if t.dtype is np.uint8
           else RNG.standard_normal(t.shape).astype(t.dtype) for t in shapes]  # fmt: skip
    found = evaluate(check(read_tflite(data)), *fed)
    found = found if isinstance(found, tuple) else (found,)
    return list(zip(map(raised, found), litert(data, *fed).values(), strict=True))


@pytest.mark.parametrize("case", [name for name in INT8 if name not in (*NOT_IN_LITERT, *INEXACT)])
def test_a_uint8_operator_gives_the_bytes_of_litert(case):
    name, inputs, results, options = INT8[case]
    inputs = [unsigned(t) for t in inputs]
    for ours, theirs in run(one(name, inputs, *map(unsigned, results), **options), inputs):
        assert ours.dtype == theirs.dtype
        assert np.abs(ours.astype(np.float64) - theirs).max() <= (1e-6 if ours.dtype == np.float32 else 0)


@pytest.mark.parametrize("side", [2, 3, 4])
def test_an_average_of_bytes_rounds_halves_up(side):
    x = T((1, 8, 9, 2), np.uint8, 0.1, 100)
    y = T((1, 8 - side + 1, 9 - side + 1, 2), np.uint8, 0.1, 100)
    assert up_is_exact(side * side)
    ((ours, theirs),) = run(one("AVERAGE_POOL_2D", [x], y, **pool(side, side, padding=VALID)), [x])
    assert np.array_equal(ours, theirs)


def test_an_average_whose_halves_may_differ_says_so():
    x = T((1, 6, 6, 1), np.uint8, 0.1, 100)
    graph = read_tflite(one("AVERAGE_POOL_2D", [x], T((1, 5, 4, 1), np.uint8, 0.1, 100), **pool(2, 3, padding=VALID)))
    assert any("half" in note for note in graph.notes)


def test_bytes_around_an_int8_network_cost_one_table():
    """What converters write today: QUANTIZE uint8 to int8 in front, and back at the end."""
    file = File()
    x = file.tensor(T((1, 6), np.uint8, 0.05, 128))
    inner = file.op("QUANTIZE", [x], T((1, 6), np.int8, 0.05, 0))
    y = file.op("RELU", [inner], T((1, 6), np.int8, 0.05, 0))
    out = file.op("QUANTIZE", [y], T((1, 6), np.uint8, 0.05, 128))
    file.inputs, file.outputs = [x], [out]
    graph = read_tflite(file.bytes())
    assert [n.op.name for n in graph.nodes] == ["normalize", "lut_s8"] and graph.inputs[0].dtype == "u8"
    fed = np.array([[0, 100, 128, 129, 200, 255]], np.uint8)
    assert np.array_equal(raised(np.asarray(evaluate(graph, fed))), litert(file.bytes(), fed)[out])
    assert any("uint8" in note for note in graph.notes)


def linear(weights: np.ndarray, zero: int) -> tuple[bytes, list[T | None]]:
    inputs = [T((1, weights.shape[1]), np.uint8, 0.05, 100), const(weights, 0.01, zero), None]
    return one("FULLY_CONNECTED", inputs, T((1, len(weights)), np.uint8, 0.1, 128)), inputs


def test_weights_with_a_zero_point_are_read_if_they_are_8_bits_around_it():
    for ours, theirs in run(*linear(RNG.integers(0, 246, (5, 7)).astype(np.uint8), 118)):
        assert np.array_equal(ours, theirs)


def test_weights_that_span_more_than_8_bits_around_their_zero_point_are_refused():
    data, _ = linear(np.arange(250, 256).astype(np.uint8).reshape(2, 3), 118)
    with pytest.raises(Unsupported, match="zero point 118 span 132..137 around it, more than 8 bits"):
        read_tflite(data)
