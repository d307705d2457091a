"""The case of an op with a loss on top and its gradients from autodiff, as evaluated by the gradient tests."""

import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import insitu.ops  # noqa: F401  fills the registry
from insitu.graph import REGISTRY, Builder, Case, Graph, Op, Value, build, evaluate, lookup, type_of
from insitu.training.autodiff import differentiate
from tests.ops.case_library import draw

FLOATS = ("f32", "f64")
# outputs after these are statistics and state: nothing is differentiated through them
OUTPUTS = {"batch_norm_train": 1}


@dataclass(frozen=True)
class Differentiated:
    """loss = sum over outputs of sum(y * r) with random r, and its gradient for each float input that has one."""

    op: Op
    case: Case
    graph: Graph  # outputs: loss, then the gradients
    wanted: tuple[Value, ...]
    feeds: tuple[np.ndarray, ...]
    weights: tuple[np.ndarray | None, ...]  # r, one per output

    @cached_property
    def gradients(self) -> dict[str, np.ndarray]:
        """In float64, by the name of the input."""
        if not self.wanted:
            return {}
        _, *found = evaluate(self.graph, *self.feeds, precision=np.float64)
        return {v.name: g for v, g in zip(self.wanted, found)}

    def loss(self, *feeds) -> float:
        """The loss alone, in float64, without a graph: it is asked for twice for every element."""
        found = self.graph.nodes[0].rule("eval", *feeds)
        found = found if isinstance(found, tuple) else (found,)
        return sum(float((y * r).sum()) for y, r in zip(found, self.weights) if r is not None)


def with_gradients() -> dict[str, tuple[Op, Case]]:
    """Every case with a random float input of every op that has a gradient rule."""
    found = {}
    for op in sorted(REGISTRY.values(), key=lambda o: o.name):
        for case in op.cases if op.has("grad") else ():
            first = case.inputs[0]
            if not isinstance(first, np.ndarray) and first.dtype in FLOATS and not _is_quantised(op, case):
                found[f"{op.name}: {case.name}"] = op, case
    return found


def _is_quantised(op: Op, case: Case) -> bool:
    return any(getattr(t, "quant", None) is not None for t in (*case.inputs, case.out))


def differentiated(label: str) -> Differentiated:
    op, case = with_gradients()[label]
    rng = np.random.default_rng(zlib.crc32(label.encode()))
    feeds = tuple(t if isinstance(t, np.ndarray) else draw(t, rng, op.domain) for t in case.inputs)
    feeds = tuple(x.astype(np.float64) if x.dtype == np.float32 else x for x in feeds)
    builder = Builder(op.name)
    with build(builder):
        inputs = [builder.input(f"x{i}", _type(t)) for i, t in enumerate(case.inputs)]
        results = op(*inputs, name="y", out=case.out, **case.attrs)
        results = results if isinstance(results, tuple) else (results,)
        counted = results[: OUTPUTS.get(op.name, len(results))]
        weights = tuple(_weights(y, rng) for y in counted)
        loss = weighted_sum(builder, results, weights)
        grads = differentiate(builder, loss, [v for v in inputs if v.dtype in FLOATS])
    wanted = tuple(v for v in inputs if v.name in grads)
    graph = builder.graph(loss, *(grads[v.name] for v in wanted))
    return Differentiated(op, case, graph, wanted, feeds, weights)


def _weights(y: Value, rng) -> np.ndarray | None:
    return rng.uniform(0.5, 1.5, y.shape).astype(np.float32) if y.dtype in FLOATS else None


def weighted_sum(builder: Builder, results, weights) -> Value:
    """sum over results of sum(y * r), for results that have weights."""
    total = None
    for i, (y, r) in enumerate(zip(results, weights)):
        if r is None:
            continue
        scaled = lookup("mul")(y, builder.constant(f"r{i}", r))
        part = lookup("sum")(scaled, axes=tuple(range(len(y.shape))))
        total = part if total is None else lookup("add")(total, part)
    assert total is not None
    return total


def _type(wanted):
    return type_of(wanted) if isinstance(wanted, np.ndarray) else wanted
