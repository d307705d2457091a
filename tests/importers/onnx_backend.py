"""ONNX's own node tests, run through the importer: which pass, which are refused and why.

    python -m tests.importers.onnx_backend        prints the count and writes docs/onnx-backend.json

Most of these tests feed weights and sizes as inputs; a compiler needs them at compile time, so all inputs except the
first are bound as constants. "passed" is for the graph in numpy and for the generated C; "refused" is an
`insitu.Error` with its reason; "failed" is a wrong result; "random" is a random result (dropout while training), which
cannot be compared.
"""

from __future__ import annotations

import ctypes
import json
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import onnx

from insitu.codegen import emit_program
from insitu.devices.host import HostDevice
from insitu.errors import Error
from insitu.graph import Graph, check, evaluate
from insitu.importers.onnx.read import TABLE, read_onnx
from insitu.planner import plan
from insitu.toolchain.compiler import NATIVE, build_library
from tests.ops.case_library import _joined

PAGE = Path(__file__).parents[2] / "docs" / "onnx-backend.json"
# computed at import: tests with nothing else are not counted
FOLDED = {"Cast", "Constant", "ConstantOfShape", "Greater", "Range", "Where", "Shape", "Size"}
# the ops promised for a small CNN or MLP; the table has more, and a count over all of them would flatter
PROMISED = set(
    "Conv ConvTranspose Gemm MatMul Add Sub Mul Div Relu LeakyRelu PRelu Clip Sigmoid Tanh HardSigmoid HardSwish Gelu "
    "Softmax LogSoftmax MaxPool AveragePool GlobalAveragePool GlobalMaxPool ReduceMean BatchNormalization "
    "LayerNormalization Dropout Pad Reshape Flatten Transpose Squeeze Unsqueeze Concat Slice Split Resize Upsample "
    "Identity Constant QuantizeLinear DequantizeLinear".split()
)
RANDOM = {f"test_training_dropout{kind}" for kind in ("", "_mask", "_default", "_default_mask")}


@dataclass(frozen=True)
class Result:
    name: str
    ops: str
    status: str  # passed, refused, failed, random
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Run:
    """A test as a graph, with its inputs and the expected outputs."""

    graph: Graph
    feeds: tuple[np.ndarray, ...]
    wanted: tuple[np.ndarray, ...]
    rtol: float
    atol: float

    def complaint(self, found) -> str:
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(self.wanted):
            return f"{len(found)} results, not {len(self.wanted)}"
        for got, want in zip(found, self.wanted):
            if got.shape != want.shape:
                return f"the shape is {got.shape}, not {want.shape}"
            if not np.allclose(got, want.astype(got.dtype), rtol=self.rtol, atol=self.atol, equal_nan=True):
                return f"differs by up to {np.max(np.abs(got - want)):.3g}"
        return ""


def promised(results: list[Result]) -> list[Result]:
    """Those that use only the promised ops."""
    return [r for r in results if set(r.ops.split("+")) <= PROMISED]


def run_all() -> list[Result]:
    """Every test whose ops are in the table, evaluated in numpy and as generated C."""
    results, runs = {}, {}
    for t in tests():
        results[t.name], made = _numpy(t)
        runs.update({(t.name, i): run for i, run in enumerate(made)})
    for (name, _), complaint in _compiled(runs).items():
        if complaint:
            results[name] = replace(results[name], status="failed", reason=f"generated C: {complaint}")
    return list(results.values())


def tests() -> Iterator:
    """Those whose ops are all in our table."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="node")
    for t in found:
        ops = {n.op_type for n in t.model.graph.node}
        if ops <= TABLE.keys() | FOLDED and not ops <= FOLDED:
            yield t


def _numpy(test) -> tuple[Result, list[Run]]:
    ops = "+".join(sorted({n.op_type for n in test.model.graph.node}))
    if test.name in RANDOM:
        reason = "draws a dropout mask; here dropout is the identity outside training"
        return Result(test.name, ops, "random", reason), []
    try:
        runs = [_bound(test, inputs, outputs) for inputs, outputs in test.data_sets]
    except Error as e:
        return Result(test.name, ops, "refused", e.what), []
    with np.errstate(all="ignore"):
        complaints = [c for run in runs if (c := run.complaint(evaluate(run.graph, *run.feeds)))]
    if complaints:
        return Result(test.name, ops, "failed", complaints[0]), []
    return Result(test.name, ops, "passed"), runs


def _bound(test, inputs, outputs) -> Run:
    """All inputs except the first are constants."""
    names = [v.name for v in test.model.graph.input]
    arrays = {n: np.asarray(x) for n, x in zip(names, inputs)}
    graph = check(read_onnx(test.model, bind={n: x for n, x in arrays.items() if n != names[0]}))
    feeds = tuple(arrays[n] for n in names[:1])
    return Run(graph, feeds, tuple(outputs), test.rtol, max(test.atol, 1e-6))


def _compiled(runs: dict) -> dict:
    """The errors of the generated C: all graphs in one library."""
    programs = {key: emit_program(plan(run.graph), f"onnx_{i}") for i, (key, run) in enumerate(runs.items())}
    files = {name: text for program in programs.values() for name, text in program.files.items()}
    kernels = tuple(sorted({k for program in programs.values() for k in program.kernels}))
    library = ctypes.CDLL(str(build_library(_joined(files), kernels, (NATIVE,))))
    return {key: run.complaint(HostDevice(programs[key], library).predict(*run.feeds)) for key, run in runs.items()}


def page(results: list[Result]) -> str:
    counts = Counter(r.status for r in results)
    data = {"onnx": onnx.__version__, "counts": dict(sorted(counts.items())), "tests": [asdict(r) for r in results]}
    return json.dumps(data, indent=1) + "\n"


if __name__ == "__main__":
    found = run_all()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(found))
    for results in (promised(found), found):
        print(dict(Counter(r.status for r in results)))
