"""What a plan spends to need less memory: which steps were changed and how, for reports. Changes nothing.

What that costs in instructions is counted by running both programs (deploy/cost.py), not here.
"""

from __future__ import annotations

from collections.abc import Callable

from insitu.graph import Node
from insitu.planner.changes.channel_groups.chain import GROUPED
from insitu.planner.changes.kept_channels import is_kept
from insitu.planner.changes.less_scratch import Tight
from insitu.planner.changes.looped import Looped, macs
from insitu.planner.changes.stripes.node import STREAM
from insitu.planner.changes.update_tiles import TILED
from insitu.planner.plan import Plan


def _inside(node: Node) -> tuple[Node, ...]:
    return node.nodes if isinstance(node, Looped) and node.op is STREAM else (node,)


# what was done -> to which nodes
KINDS: dict[str, Callable[[Node], bool]] = {
    "stripes": lambda n: n.op is STREAM,
    "less_scratch": lambda n: any(isinstance(m, Tight) for m in _inside(n)),
    "in_place": lambda n: n.op.facts.made_for == "in_place",
    "weights_in_parts": lambda n: any(m.op.facts.made_for == "weights_in_parts" for m in _inside(n)),
    "inputs_in_part": is_kept,
    "updates_in_tiles": lambda n: n.op is TILED,
    "blocks_in_groups": lambda n: n.op is GROUPED,
}
# how one is called, and several
WORDS = {
    "stripes": ("part in stripes", "parts in stripes"),
    "less_scratch": ("call with less scratch", "calls with less scratch"),
    "in_place": ("result in place", "results in place"),
    "weights_in_parts": ("weight in parts", "weights in parts"),
    "inputs_in_part": ("input kept in part", "inputs kept in part"),
    "updates_in_tiles": ("update in tiles", "updates in tiles"),
    "blocks_in_groups": ("block in groups", "blocks in groups"),
}


def spent(plan: Plan) -> dict:
    """Kind -> the names of the nodes, and the multiply-adds that are done a second time."""
    found: dict = {kind: [n.name for n in plan.graph.nodes if has(n)] for kind, has in KINDS.items()}
    again = [inner for n in plan.graph.nodes if isinstance(n, Looped) for inner in n.again]
    return {**found, "macs_again": sum(map(macs, again))}


def spent_text(found: dict) -> str:
    """The same in a line; empty where nothing was changed."""
    words = [f"{len(names)} {WORDS[kind][len(names) > 1]}" for kind, names in found.items() if kind in KINDS and names]
    again = found.get("macs_again", 0)
    return ", ".join(words) + (f" ({again:,} multiply-adds again)" if again else "")


def words_of(kind: str) -> str:
    return kind.replace("_", " ")


def changes(plan: Plan, before: Plan) -> dict[str, str]:
    """Layer -> what was done to it, in words; `before` is the plan without changes.

    Layers inside a loop are changed with it. One that is gone was read by one that is changed, and counts with that.
    """
    found = {}
    for node in plan.graph.nodes:
        kinds = [words_of(kind) for kind, has in KINDS.items() if has(node)]
        inside = (node, *node.nodes, *node.split) if isinstance(node, Looped) else (node,)
        readers = plan.graph.users.get(node.name, ()) if is_kept(node) else ()  # they have no channels to pick any more
        found |= {n.name: " and ".join(kinds) for n in (*inside, *readers) if kinds}
    kept = {n.name for n in plan.nodes}
    for node in before.graph.nodes:
        readers = [found[u.name] for v in node.outputs for u in before.graph.users.get(v.name, ()) if u.name in found]
        if node.name not in kept and readers:
            found.setdefault(node.name, readers[0])
    return found
