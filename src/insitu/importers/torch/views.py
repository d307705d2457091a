"""Does a traced program write through a view? `y = x.view(..); y.add_(1)` also changes x.

An in-place op is the plain op if only its result is used from then on. If another name of the same memory is read
later, it is not, and torch's functionalisation is needed.
"""

from __future__ import annotations

import operator

from insitu.importers.torch.blocks import graphs_of, submodule

VIEWS = frozenset(
    (
        "view reshape flatten unflatten permute transpose t movedim squeeze unsqueeze expand slice select narrow split "
        "split_with_sizes chunk unbind detach alias contiguous to view_as numpy_T mT swapaxes"
    ).split()
)


def mutates_a_view(graph) -> bool:
    """Does an in-place op change memory that another value, read later, shares? In the graph, or in a block of it."""
    return any(_mutates(g, inside=g is not graph) for g in graphs_of(graph))


def _mutates(graph, inside: bool) -> bool:
    nodes = list(graph.nodes)
    position = {n: i for i, n in enumerate(nodes)}
    owner = _owners(nodes)
    for i, node in enumerate(nodes):
        if not _in_place(node):
            continue
        if _unknown(owner[node], inside):
            return True
        shared = [m for m in nodes[:i] if owner[m] is owner[node]]
        if any(position[user] > i for m in shared for user in m.users):
            return True
    return False


def _unknown(owner, inside: bool) -> bool:
    """Is this memory a block's argument or result? Who else reads that is unknown here."""
    return bool(submodule(owner)) or (inside and owner.op == "placeholder")


def _owners(nodes) -> dict:
    """For each node, the first node that may share its memory."""
    owner = {}
    for n in nodes:
        source = n.args[0] if n.args and (_in_place(n) or _is_view(n)) else None
        owner[n] = owner.get(source, n) if source is not None and source in owner else n
    return owner


def _is_view(node) -> bool:
    return node.target is operator.getitem or _name(node) in VIEWS


def _in_place(node) -> bool:
    name = _name(node)
    return name.endswith("_") and not name.endswith("__")


def _name(node) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.split("::")[1] if schema is not None else ""
