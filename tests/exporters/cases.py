"""The ops' own cases as graphs of one node, with the rounding and the scales that a file has."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from insitu.graph import Case, Op
from insitu.ops.activation import lut_s8
from insitu.ops.pool import avg_pool2d_s8
from insitu.quantizer.rounding import WORDS, stored

from ..ops.case_library import Bound, bind


def cases(ops: Iterable[Op], rounding: str, without: set[str]) -> dict[str, Bound]:
    """Every case of these ops. Weights and tables are constants; other inputs are both fed and constant."""
    found = {}
    for op in ops:
        fixed_only = bool(op.facts.parameters) or op is lut_s8
        for case in op.cases:
            if not case.attrs.get("mask"):
                for fixed in (False, True) if len(case.inputs) > 1 and not fixed_only else (True,):
                    bound = bind(op, as_in_a_file(op, case, rounding), fixed)
                    found[bound.id] = bound
    return {label: bound for label, bound in found.items() if label not in without}


def as_in_a_file(op: Op, case: Case, rounding: str) -> Case:
    inputs = tuple(v if isinstance(v, np.ndarray) else stored(v) for v in case.inputs)
    rounds = op.defaults.get("rounding") in WORDS
    attrs = {**case.attrs, "rounding": rounding} if rounds else case.attrs
    out = stored(case.out) if case.out else None
    if op is avg_pool2d_s8 and rounding == "litert":
        out = inputs[0]  # LiteRT's average keeps the scale
    return Case(case.name, inputs, attrs, out)
