"""Are two graphs the same, apart from the names of their values? Says where they first differ."""

from __future__ import annotations

import numpy as np

from insitu.graph.graph import Graph, Node, Value


def same_up_to_names(a: Graph, b: Graph, tolerance: float = 1e-6) -> bool:
    return first_difference(a, b, tolerance) is None


def first_difference(a: Graph, b: Graph, tolerance: float = 1e-6) -> str | None:
    """What differs, in words, or None. Nodes are matched from the outputs up, so their order does not matter.

    Constants count as equal if max|x - y| <= tolerance * max|y|.
    """
    if [v.type for v in a.inputs] != [v.type for v in b.inputs]:
        return f"inputs {[str(v.type) for v in a.inputs]} and {[str(v.type) for v in b.inputs]}"
    if len(a.outputs) != len(b.outputs):
        return f"{len(a.outputs)} and {len(b.outputs)} outputs"
    matched = {x.name: y.name for x, y in zip(a.inputs, b.inputs)}
    left = list(zip(a.outputs, b.outputs))
    while left:
        x, y = left.pop()
        if x.name in matched and matched[x.name] == y.name:
            continue
        difference = _value_difference(a, b, x, y, matched, tolerance)
        if difference:
            return difference
        m, n = a.producer.get(x.name), b.producer.get(y.name)
        pairs = [(x, y)] if m is None or n is None else list(zip(m.outputs, n.outputs))
        matched.update({p.name: q.name for p, q in pairs})
        if m is not None and n is not None:
            left.extend(zip(m.inputs, n.inputs))
    return None


def _value_difference(a: Graph, b: Graph, x: Value, y: Value, matched: dict[str, str], tolerance: float) -> str | None:
    where = f"{x} and {y}"
    if x.name in matched:
        return f"{where}: only one of the two is used"
    if x.type != y.type:
        return f"{where}: {x.type} and {y.type}"
    c, d = a.constant(x), b.constant(y)
    if c is not None and d is not None:
        return None if _close(c, d, tolerance) else f"{where}: constants differ"
    m, n = a.producer.get(x.name), b.producer.get(y.name)
    if m is None or n is None:
        return f"{where}: not made the same way"
    return _node_difference(m, n, where)


def _node_difference(m: Node, n: Node, where: str) -> str | None:
    if m.op is not n.op or len(m.inputs) != len(n.inputs):
        return f"{where}: {m.op.name} of {len(m.inputs)} and {n.op.name} of {len(n.inputs)} inputs"
    for key in m.attrs:
        if m.attrs[key] != n.attrs[key] and not _near(m.attrs[key], n.attrs[key]):
            return f"{where}: {m.op.name} with {key}={m.attrs[key]} and {key}={n.attrs[key]}"
    return None


def _near(x, y) -> bool:
    """Numbers of which only one passed through 32 bits."""
    return isinstance(x, float) and isinstance(y, float) and bool(np.isclose(x, y, rtol=1e-6, atol=0))


def _close(x: np.ndarray, y: np.ndarray, tolerance: float) -> bool:
    if x.dtype.kind != "f":
        return bool(np.array_equal(x, y))
    return bool(np.max(np.abs(x - y), initial=0) <= tolerance * max(np.max(np.abs(y), initial=0), 1e-30))
