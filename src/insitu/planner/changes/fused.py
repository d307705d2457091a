"""What several nodes as one mean: in stripes (stripes/), tiles (update_tiles.py) or groups (channel_groups/)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from insitu.graph import Node, Value


def one_by_one(*arrays, node: Node):
    """The meaning: node after node of `node.nodes`, on whole values."""
    known = {v.name: a for v, a in zip(node.inputs, arrays)}
    for inner in node.nodes:  # type: ignore[attr-defined]  # whoever is fused has them
        results = inner.rule("eval", *(known[v.name] for v in inner.inputs))
        known |= zip((v.name for v in inner.outputs), results if isinstance(results, tuple) else (results,))
    found = [np.asarray(known[v.name]) for v in node.outputs]
    return tuple(found) if len(found) > 1 else found[0]


def source_of(nodes: Iterable[Node], value: Value) -> Value:
    """The value that this one was, before updates among these nodes worked on it in place."""
    made = {v.name: n for n in nodes for v in n.outputs}
    while value.name in made and made[value.name].op.overwrites:
        value = made[value.name].shared()[value.name]
    return value
