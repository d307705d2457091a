"""Every op that can be written for LiteRT, with all of its cases: the reference kernels give our bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import insitu.ops  # noqa: F401  fills the registry
from insitu.graph import REGISTRY, Case, Op, evaluate
from insitu.ops.activation import lut_s8
from insitu.ops.pool import avg_pool2d_s8

from ..each import each
from ..ops.case_library import Bound, bind
from ..ops.test_cases import close

pytest.importorskip("ai_edge_litert", reason="runs the files in LiteRT")

from insitu.exporters.litert.ops import OPS
from insitu.exporters.litert.runtime import Runtime
from insitu.exporters.litert.translate import translate

# LiteRT's own approximation of this function is coarser than the usual tolerance
COARSE = {"gelu": 2e-4}
DEFAULT_ONLY = {"elu"}  # there is no reference kernel
CRASHES = {"softmax_s8: many alike, constants"}  # the runtime aborts: too many equal numbers


def cases() -> dict[str, Bound]:
    """All cases with LiteRT's rounding and scales in float32, as a file has them."""
    found = {}
    for op in OPS:
        tables = bool(op.facts.parameters) or op is lut_s8
        for case in op.cases:
            if not case.attrs.get("mask"):
                for fixed in (False, True) if len(case.inputs) > 1 and not tables else (True,):
                    bound = bind(op, as_in_a_file(op, case), fixed)
                    found[bound.id] = bound
    return {label: bound for label, bound in found.items() if label not in CRASHES}


def as_in_a_file(op: Op, case: Case) -> Case:
    inputs = tuple(v if isinstance(v, np.ndarray) else stored(v) for v in case.inputs)
    attrs = {**case.attrs, "rounding": "litert"} if op.kind == "int8" and "rounding" in op.defaults else case.attrs
    out = inputs[0] if op is avg_pool2d_s8 else stored(case.out)  # LiteRT's average keeps the scale
    return Case(case.name, inputs, attrs, out)


def stored(t):
    """The type with its scales rounded to float32."""
    if t is None or t.quant is None:
        return t
    return replace(t, quant=replace(t.quant, scale=tuple(float(np.float32(s)) for s in t.quant.scale)))


BOUND = cases()


def test_the_reference_kernels_give_our_bytes():
    def claim(label: str) -> None:
        bound = BOUND[label]
        kernels = "XNNPACK" if bound.graph.name in DEFAULT_ONLY else "reference"
        got = Runtime(translate(bound.graph).file.data(), kernels).run(*bound.feeds)
        want = evaluate(bound.graph, *bound.feeds, precision=np.float64)
        for v, g, w in zip(bound.graph.outputs, got, want if isinstance(want, tuple) else (want,)):
            assert g.shape == w.shape
            if v.dtype == "f32":
                close(g, w, COARSE.get(bound.graph.name, 1e-5))
            else:
                np.testing.assert_array_equal(g, w)

    each(BOUND, claim)


def test_ops_for_inference_are_covered_or_known_to_be_missing():
    missing = {"batch_norm", "dropout", "erf", "cumsum_s8"}
    inference = {op.name for op in REGISTRY.values() if op.facts.int8 or op.facts.unary or op.facts.moves}
    assert {name for name in inference if REGISTRY[name] not in OPS} <= missing
