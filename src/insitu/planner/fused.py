"""What several nodes as one mean: a part in stripes (stream.py), a gradient and its update in tiles (tiles.py)."""

from __future__ import annotations

import numpy as np

from insitu.graph import Node


def one_by_one(*arrays, node: Node):
    """The meaning: node after node of `node.nodes`, on whole values."""
    known = {v.name: a for v, a in zip(node.inputs, arrays)}
    for inner in node.nodes:  # type: ignore[attr-defined]  # whoever is fused has them
        results = inner.rule("eval", *(known[v.name] for v in inner.inputs))
        known |= zip((v.name for v in inner.outputs), results if isinstance(results, tuple) else (results,))
    found = [np.asarray(known[v.name]) for v in node.outputs]
    return tuple(found) if len(found) > 1 else found[0]
