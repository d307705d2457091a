"""An index of the nodes already in a graph being built, by op, inputs and attributes."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from insitu.graph import Builder, Node

# builder -> (how many of its nodes are indexed, key of a node -> the node)
_INDEX: WeakKeyDictionary[Builder, tuple[int, dict[tuple, Node]]] = WeakKeyDictionary()


def computed(builder: Builder, op: str, inputs, attrs) -> Node | None:
    """The first node of this op with these inputs and attributes."""
    done, index = _INDEX.get(builder, (0, {}))
    for node in builder.nodes[done:]:
        index.setdefault(_key(node.op.name, node.inputs, node.attrs), node)
    _INDEX[builder] = (len(builder.nodes), index)
    return index.get(_key(op, inputs, attrs))


def _key(op: str, inputs, attrs) -> tuple:
    return op, tuple(v.name for v in inputs), repr(sorted(attrs.items()))
