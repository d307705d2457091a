"""ONNX's own node tests, run through the importer: which pass, which are refused and why.

    python -m tests.importers.onnx_backend        prints the count and writes docs/onnx-backend.json

Most of these tests feed weights and sizes as inputs; a compiler needs them at compile time, so all inputs
but the first are bound as constants. "refused" is an `insitu.Error` with its reason; "failed" is a wrong result;
"random" is a result drawn at random (dropout while training), which nothing can be compared with.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from insitu.errors import Error
from insitu.graph import check, evaluate
from insitu.importers.from_onnx import TABLE, read_onnx

PAGE = Path(__file__).parents[2] / "docs" / "onnx-backend.json"
# computed at import: no test is counted that has nothing else
FOLDED = {"Cast", "Constant", "ConstantOfShape", "Greater", "Range", "Where", "Shape", "Size"}
RANDOM = {f"test_training_dropout{kind}" for kind in ("", "_mask", "_default", "_default_mask")}


@dataclass(frozen=True)
class Result:
    name: str
    ops: str
    status: str  # passed, refused, failed, random
    reason: str = ""


def run_all() -> list[Result]:
    return [run(t) for t in tests()]


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


def run(test) -> Result:
    ops = "+".join(sorted({n.op_type for n in test.model.graph.node}))
    if test.name in RANDOM:
        return Result(test.name, ops, "random", "draws a dropout mask; here dropout is the identity outside training")
    try:
        for inputs, outputs in test.data_sets:
            complaint = _compare(test, inputs, outputs)
            if complaint:
                return Result(test.name, ops, "failed", complaint)
    except Error as e:
        return Result(test.name, ops, "refused", e.what)
    return Result(test.name, ops, "passed")


def _compare(test, inputs, outputs) -> str:
    names = [v.name for v in test.model.graph.input]
    arrays = {n: np.asarray(x) for n, x in zip(names, inputs)}
    first = [x for n, x in arrays.items() if n == names[0]] if names else []
    graph = check(read_onnx(test.model, bind={n: x for n, x in arrays.items() if n != names[0]}))
    found = evaluate(graph, *first)
    for got, want in zip(found if isinstance(found, tuple) else (found,), outputs):
        if got.shape != want.shape:
            return f"the shape is {got.shape}, not {want.shape}"
        if not np.allclose(got, want.astype(got.dtype), rtol=test.rtol, atol=max(test.atol, 1e-6), equal_nan=True):
            return f"differs by up to {np.max(np.abs(got - want)):.3g}"
    return ""


def page(results: list[Result]) -> str:
    counts = Counter(r.status for r in results)
    data = {"counts": dict(sorted(counts.items())), "tests": [asdict(r) for r in results]}
    return json.dumps(data, indent=1) + "\n"


if __name__ == "__main__":
    results = run_all()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(results))
    print(dict(Counter(r.status for r in results)))
