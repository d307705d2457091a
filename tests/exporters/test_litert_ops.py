"""Every op that can be written for LiteRT, with all of its cases: the reference kernels give our bytes."""

from __future__ import annotations

import numpy as np
import pytest

import insitu.ops  # noqa: F401  fills the registry
from insitu.graph import REGISTRY, evaluate

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


def test_ops_for_inference_are_covered_or_known_to_be_missing():
    missing = {"batch_norm", "dropout", "erf", "cumsum_s8"}
    inference = {op.name for op in REGISTRY.values() if op.facts.int8 or op.facts.unary or op.facts.moves}
    assert {name for name in inference if REGISTRY[name] not in OPS} <= missing
