"""Every op that can be written for LiteRT, with all of its cases: the reference kernels give our bytes."""

from __future__ import annotations

import numpy as np
import pytest

import insitu.ops  # noqa: F401  fills the registry
from insitu.graph import REGISTRY, Builder, build, evaluate, f32, s8
from insitu.ops.pool import avg_pool2d_s8
from insitu.ops.quant import quantize, requantize_s8
from insitu.ops.reduce import mean_s8
from insitu.quantizer.rounding import stored

from ..each import each
from ..ops.test_cases import close
from .cases import cases

pytest.importorskip("ai_edge_litert", reason="runs the files in LiteRT")

from insitu.exporters.litert.ops import OPS
from insitu.exporters.litert.runtime import Runtime
from insitu.exporters.litert.translate import translate

COARSE = {"gelu": 2e-4}  # LiteRT's own approximation of this function is coarser than the usual tolerance
DEFAULT_ONLY = {"elu"}  # there is no reference kernel
CRASHES = {"softmax_s8: many alike, constants"}  # the runtime aborts: too many equal numbers


def test_the_reference_kernels_give_our_bytes():
    bound_cases = cases(OPS, "litert", CRASHES)

    def claim(label: str) -> None:
        bound = bound_cases[label]
        kernels = "XNNPACK" if bound.graph.name in DEFAULT_ONLY else "reference"
        got = Runtime(translate(bound.graph).file.data(), kernels).run(*bound.feeds)
        want = evaluate(bound.graph, *bound.feeds, precision=np.float64)
        for v, g, w in zip(bound.graph.outputs, got, want if isinstance(want, tuple) else (want,)):
            assert g.shape == w.shape
            if v.dtype == "f32":
                close(g, w, COARSE.get(bound.graph.name, 1e-5))
            else:
                np.testing.assert_array_equal(g, w)

    each(bound_cases, claim)


ALONE = s8(1, 256, 1, 1, s=0.05, z=-3)
HALVES = s8(1, 6, 7, 8, s=0.05, z=-3)
# ops whose scales the quantiser cannot choose: exact halves, and ratios that XNNPACK's own operator rounds to 8 bits
ALIKE = {
    "requantised": (ALONE, requantize_s8, {}, s8(s=0.0371, z=9)),
    "requantised, halves": (ALONE, requantize_s8, {}, s8(s=0.1, z=9)),
    "requantised, far": (ALONE, requantize_s8, {}, s8(s=0.0001, z=9)),
    "average, halves": (HALVES, avg_pool2d_s8, {"kernel": (2, 2), "stride": (2, 2)}, HALVES),
    "average, edges": (HALVES, avg_pool2d_s8, {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1),
                                               "count_include_pad": False}, HALVES),
    "average, other scale": (HALVES, avg_pool2d_s8, {"kernel": (2, 2), "stride": (1, 1)}, s8(s=0.025, z=9)),
    "mean, halves": (HALVES, mean_s8, {"axes": (1, 2)}, HALVES),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_xnnpack_gives_our_bytes_where_its_own_operator_does_not(name: str):
    x, op, attrs, out = ALIKE[name]
    builder = Builder(name)
    with build(builder):
        y = op(builder.input("x", stored(x)), out=stored(out), **attrs)
    graph = builder.graph(y)
    runtime = Runtime(translate(graph).file.data(), "XNNPACK")
    for seed in range(20):
        drawn = np.random.default_rng(seed).integers(-128, 128, x.shape).astype(np.int8)
        feed = np.arange(-128, 128, dtype=np.int8).reshape(x.shape) if x is ALONE else drawn
        np.testing.assert_array_equal(runtime.run(feed)[0], evaluate(graph, feed))


@pytest.mark.parametrize("scale, zero", [(1.0, 1), (0.1, 3), (0.0371, -5), (1 / 255, -128), (0.7, 9), (1 / 3, 0)])
def test_both_kinds_of_kernels_quantise_halves_as_we_do(scale: float, zero: int):
    """Half of the floats lie exactly between two integers; pixels that were averaged often do."""
    drawn = np.random.default_rng(0)
    halves, others = (drawn.integers(-300, 300, 4096) + 0.5) * np.float32(scale), drawn.normal(0, 60 * scale, 4096)
    x = np.where(drawn.random(4096) < 0.5, halves, others).astype(np.float32)
    bytes_of = {}
    for kernels, rounding in (("XNNPACK", "single"), ("reference", "litert")):
        builder = Builder("quantise")
        with build(builder):
            y = quantize(builder.input("x", f32(4096)), rounding=rounding, out=stored(s8(s=scale, z=zero)))
        graph = builder.graph(y)
        bytes_of[kernels] = Runtime(translate(graph).file.data(), kernels).run(x)[0]
        np.testing.assert_array_equal(bytes_of[kernels], evaluate(graph, x))
    assert (bytes_of["XNNPACK"] != bytes_of["reference"]).any()  # so each needs a meaning of its own


def test_ops_for_inference_are_covered_or_known_to_be_missing():
    missing = {"batch_norm", "dropout", "cumsum_s8"}
    inference = {op.name for op in REGISTRY.values() if op.facts.int8 or op.facts.unary or op.facts.moves}
    assert {name for name in inference if REGISTRY[name] not in OPS} <= missing
