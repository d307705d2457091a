"""Every op that can be written for ONNX, with all of its cases: onnxruntime gives our bytes, optimised or not."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.graph import Graph, evaluate

from ..each import each
from ..ops.test_cases import close
from .cases import cases

onnxruntime = pytest.importorskip("onnxruntime", reason="runs the files in onnxruntime")

from insitu.exporters.onnx.exact import halves  # noqa: E402
from insitu.exporters.onnx.ops import OPS  # noqa: E402
from insitu.exporters.onnx.translate import translate  # noqa: E402

COARSE = {"elu": 2e-5, "sum": 2e-5}  # float32 sums, in onnxruntime's own order


def run(graph: Graph, feeds, optimise: bool) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        translate(graph).model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {v.name: x for v, x in zip(graph.inputs, feeds)})


@pytest.mark.parametrize("optimise", [True, False])
def test_onnxruntime_gives_our_bytes(optimise: bool):
    bound_cases = cases(OPS, "single", set())

    def claim(label: str) -> None:
        bound = bound_cases[label]
        want = evaluate(bound.graph, *bound.feeds, precision=np.float64)
        got = run(bound.graph, bound.feeds, optimise)
        for v, g, w in zip(bound.graph.outputs, got, want if isinstance(want, tuple) else (want,)):
            assert g.shape == w.shape
            if v.dtype == "f32":
                close(g, w, COARSE.get(bound.graph.name, 1e-5))
            else:
                np.testing.assert_array_equal(g, w)

    each(bound_cases, claim)


def test_weights_whose_sums_could_exceed_float32_are_cut_in_two():
    w = np.random.default_rng(0).integers(-128, 128, (3, 2000)).astype(np.int8)
    (high, upper), (low, lower) = halves(w)
    np.testing.assert_array_equal(high * upper.astype(int) + low * lower.astype(int), w)
    assert max(np.abs(upper.astype(int)).max(), np.abs(lower.astype(int)).max()) <= 8
    assert halves(w[:, :100])[0][0] == 1
