"""Every row of the table of LiteRT operators, on every float case of its op: LiteRT gives what the op means.

LiteRT's own kernels are held to every case. XNNPACK, which runs by default, is held to those with inputs of ordinary
size: with AVX-512 its sigmoid of 1e30 is not a number.
"""

from collections.abc import Iterable

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT runs the exported operators")

from ai_edge_litert.interpreter import Interpreter, OpResolverType

import insitu.exporters.litert_train.export  # noqa: F401  fills the table
from insitu.exporters.litert_train.sheet import File
from insitu.exporters.litert_train.table import TABLE, written
from insitu.exporters.litert_train.tensor import Tensor
from insitu.graph import evaluate

from ..ops.case_library import Bound, bind

FLOAT = {"f32", "s32", "b1", "u8"}
OPS = {op.name: op for op in TABLE}


def cases_of(name: str) -> list[Bound]:
    """The cases without int8, with all inputs given at run time and with constants."""
    op, found = OPS[name], []
    for case in op.cases:
        for fixed in (False, True)[: len(case.inputs)]:
            bound = bind(op, case, fixed)
            types = [v.type for v in bound.graph.values.values()]
            found += [bound] if all(t.dtype in FLOAT and t.quant is None for t in types) else []
    return found


def close(got: np.ndarray, want: np.ndarray) -> None:
    if want.dtype.kind in "bi":
        np.testing.assert_array_equal(got, want)
        return
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    got, want = np.nan_to_num(got, posinf=9e9, neginf=-9e9), np.nan_to_num(want, posinf=9e9, neginf=-9e9)
    assert np.abs(got - want).max(initial=0) <= 1e-5 * max(1.0, np.abs(want).max(initial=0))


@pytest.mark.parametrize("name", sorted(OPS))
def test_litert_computes_what_the_op_means(name):
    file, cases = File(), cases_of(name)
    assert cases, "no float case"
    for i, bound in enumerate(cases):
        sheet = file.sheet(f"case{i}", signature=True)
        known = {v.name: Tensor(sheet.input(v.name, v.dtype, v.shape)) for v in bound.graph.inputs}
        env = written(sheet, bound.graph, known)
        for k, v in enumerate(bound.graph.outputs):
            sheet.output(f"y{k}", env[v.name].place)
    content = file.written("cases")
    own = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    compare(Interpreter(model_content=content, experimental_op_resolver_type=own), cases, range(len(cases)))
    compare(Interpreter(model_content=content), cases, [i for i, bound in enumerate(cases) if ordinary(bound)])


def ordinary(bound: Bound) -> bool:
    """Could these inputs be a network's values?"""
    given = [x for x in (*bound.feeds, *bound.graph.constants.values()) if x.dtype.kind == "f"]
    return all(np.abs(x, dtype=np.float64).max(initial=0) <= 1e9 for x in given)


def compare(interpreter: Interpreter, cases: list[Bound], chosen: Iterable[int]) -> None:
    for i in chosen:
        feeds = {v.name: x for v, x in zip(cases[i].graph.inputs, cases[i].feeds)}
        got = interpreter.get_signature_runner(f"case{i}")(**feeds)
        with np.errstate(all="ignore"):
            want = evaluate(cases[i].graph, *cases[i].feeds)
        for k, w in enumerate(want if isinstance(want, tuple) else (want,)):
            close(got[f"y{k}"], w)
