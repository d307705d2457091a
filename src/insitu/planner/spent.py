"""What a plan spends to need less memory: which steps were changed and how, for reports. Changes nothing.

The cost in instructions is counted by running both programs (deploy/cost.py), not here.
"""

from __future__ import annotations

from insitu.graph import Node
from insitu.planner.changes.change import Change
from insitu.planner.changes.kept_channels import is_kept
from insitu.planner.changes.looped import Looped, macs
from insitu.planner.changes.stripes.node import is_streamed
from insitu.planner.changes.table import CHANGES
from insitu.planner.plan import Plan


def _done(change: Change, node: Node) -> bool:
    """Was this node changed in this way? Calls inside stripes count with their part."""
    inside = node.nodes if change.kind == "call" and is_streamed(node) else (node,)
    return any(map(change.done, inside))


def spent(plan: Plan) -> dict:
    """Kind -> the names of the nodes, and the recomputed multiply-adds."""
    found: dict = {c.name: [n.name for n in plan.graph.nodes if _done(c, n)] for c in CHANGES}
    again = [inner for n in plan.graph.nodes if isinstance(n, Looped) for inner in n.again]
    return {**found, "macs_again": sum(map(macs, again))}


def spent_text(found: dict) -> str:
    """The same in one line; empty if nothing was changed."""
    named = [(c.words, len(found[c.name])) for c in CHANGES if found.get(c.name)]
    words = [f"{count} {words[count > 1]}" for words, count in named]
    again = found.get("macs_again", 0)
    return ", ".join(words) + (f" ({again:,} multiply-adds recomputed)" if again else "")


def words_of(kind: str) -> str:
    return kind.replace("_", " ")


def changes(plan: Plan, before: Plan) -> dict[str, str]:
    """Layer -> what was done to it, in words; `before` is the plan without changes.

    Layers inside a loop are changed with it. A layer that no longer exists counts with the changed layer that read it.
    """
    found = {}
    for node in plan.graph.nodes:
        kinds = [words_of(change.name) for change in CHANGES if _done(change, node)]
        inside = (node, *node.nodes, *node.split) if isinstance(node, Looped) else (node,)
        readers = plan.graph.users.get(node.name, ()) if is_kept(node) else ()  # they no longer have channels to pick
        found |= {n.name: " and ".join(kinds) for n in (*inside, *readers) if kinds}
    kept = {n.name for n in plan.nodes}
    for node in before.graph.nodes:
        readers = [found[u.name] for v in node.outputs for u in before.graph.users.get(v.name, ()) if u.name in found]
        if node.name not in kept and readers:
            found.setdefault(node.name, readers[0])
    return found
