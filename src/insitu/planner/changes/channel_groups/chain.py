"""The gradient inside an inverted-residual block in groups of channels: expanded, it never exists whole.

Backwards through the block, each channel of the expanded gradient is made, masked and sent through the depthwise
convolution independently of the others; only the gradient that leaves the block adds them up. So a chain

    conv2d_dx -> mask_grad -> bias_grad, depthwise2d_dx -> mask_grad -> bias_grad, conv2d_dw and its update, conv2d_dx

runs group by group, in whole blocks of exponents. The last dx is split in two: sums, to which each group adds, and the
blocks made from them (ops/block_sums.py). The sums need the largest exponent of all groups, and the update needs the
norm of the whole gradient. A first pass finds both, and a second pass recomputes the gradients. Anything that must
happen in between, such as the updates of biases, runs between the passes. The bytes stay the same. To the rest of the
planner this is one node with scratch; lower.py decides where it pays, calls.py makes its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeGuard

from insitu.errors import GraphError
from insitu.graph import Graph, Node, Value
from insitu.graph.call import Call
from insitu.graph.loops import Loop
from insitu.graph.types import GROUP
from insitu.ops._windows import conv_shape, is_pointwise
from insitu.ops.block_conv import conv2d_dw_block, conv2d_dx_block
from insitu.ops.block_depthwise import depthwise2d_dx_block
from insitu.ops.block_sums import dx_sums_block, in_two
from insitu.ops.channels import merge_channels
from insitu.planner.changes.change import Change, Graphs, Tools
from insitu.planner.changes.channel_groups.calls import group_loops, groups_of
from insitu.planner.changes.less_scratch import swapped
from insitu.planner.changes.looped import Looped, loop_op, over_old_content
from insitu.planner.changes.update_tiles import is_tiled, untiled, update_of
from insitu.planner.lifetimes import state_homes
from insitu.planner.order import dependencies, settled


@dataclass(frozen=True, eq=False)
class Chain:
    """The nodes that run as one, in a legal order."""

    first: Node
    inside: tuple[Node, ...]  # in each group: the first node, then ends directly after their inputs
    between: tuple[Node, ...]  # once, after the first pass
    update: Node | None = None  # of the weight whose gradient is made inside
    sums: Node | None = None  # adds up the groups
    dx: tuple[Node, ...] = ()  # what `sums` and its reader replace: assembling the weight, and the gradient

    @cached_property
    def dw(self) -> Node | None:
        read = {v.name for v in self.update.inputs} if self.update else set()
        return next((n for n in self.inside if any(v.name in read for v in n.outputs)), None)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        some = (self.sums, self.update)  # in this order: `sums` reads the weight before it changes
        return (*self.inside, *self.between, *(n for n in some if n is not None))

    @cached_property
    def again(self) -> tuple[Node, ...]:
        """The nodes that the second pass recomputes."""
        if self.update is None and self.sums is None:
            return ()
        return tuple(n for n in self.inside if not groups_of(n).ends or n is self.dw)


GROUPED = loop_op("grouped", "The backward pass of an inverted-residual block in groups of channels")
GROUPED.may(in_place=over_old_content)


def is_grouped(node: Node) -> TypeGuard[Looped]:
    return node.op is GROUPED


Known = dict[tuple, list[tuple[Loop, int]]]  # ways to run a chain: its calls, and the channels of a group


def do(graph: Graph, node: Node, tools: Tools) -> Graphs:
    yield from grouped(graph, node, tools.call, tools.known)


def _undo(graph: Graph, node: Node, tools: Tools) -> Graphs:
    """Without groups; then with less and less memory for them, starting from the most."""
    whole = ungrouped(graph, node)
    if whole and is_grouped(node):
        yield whole
        yield from do(whole, node.nodes[0], tools)


CHANGE = Change(
    "blocks_in_groups", ("block in groups", "blocks in groups"), "loop",
    "most of the block's backward pass is computed twice", done=lambda n: n.op is GROUPED, undo=_undo, dear=True,
)  # fmt: skip


def grouped(graph: Graph, node: Node, emit: Callable[[Node], Call], known: Known | None = None) -> Iterator[Graph]:
    """The graph with this node's chain in groups, with less and less memory for them; with less than now if it is
    already in groups. `known`: results about chains, for later calls."""
    whole = ungrouped(graph, node) or graph
    found = _chain(whole, node.nodes[0] if is_grouped(node) else node)
    if found is None:
        return
    whole, chain = found
    outputs = _outputs(whole, chain)
    last = node.loop.bytes if is_grouped(node) else 1 << 31
    for loop, channels in _ways(chain, outputs, emit, {} if known is None else known):
        made = _fused(whole, chain, channels, outputs, loop) if loop.bytes < last else None
        if made:
            last = loop.bytes
            yield made


def _ways(chain: Chain, outputs: tuple[Value, ...], emit: Callable[[Node], Call], known: Known) -> list:
    """Sorted by memory, the least last; of equals, the most channels first."""
    key = (outputs, *((n.name, n.op, *(v.name for v in n.inputs)) for n in chain.nodes))
    if key not in known:
        ways = ((loop, n) for n in _sizes(chain) for loop in group_loops(chain, outputs, n, emit))
        known[key] = sorted(ways, key=lambda way: (-way[0].bytes, -way[1]))
    return known[key]


def ungrouped(graph: Graph, node: Node) -> Graph | None:
    """The graph with the nodes of the chain again."""
    if not is_grouped(node):
        return None
    sums = next((n for n in node.nodes if n.op is dx_sums_block), None)
    graph = swapped(graph, node, *(n for n in node.nodes if n is not sums))
    if sums:
        (store,) = graph.users[sums.name]
        graph = swapped(graph, store, *node.split)
    return settled(graph)


def _sizes(chain: Chain) -> list[int]:
    """Channels of a group: all groups have the same size, in whole blocks."""
    c = chain.first.output.shape[-1]
    return [c // count for count in range(2, c // GROUP + 1) if c % count == 0 and c // count % GROUP == 0]


def _fused(graph: Graph, chain: Chain, channels: int, outputs: tuple[Value, ...], loop: Loop) -> Graph | None:
    inside = {n.name for n in chain.nodes}
    made = {v.name for n in chain.nodes for v in n.outputs}
    inputs = {v.name: v for n in chain.nodes for v in n.inputs if v.name not in made}
    attrs = {"channels": channels, "of": [n.name for n in chain.nodes]}
    node = Looped(GROUPED, tuple(inputs.values()), outputs, attrs, loop, chain.again, chain.dx)
    at = max(i for i, n in enumerate(graph.nodes) if n.name in inside)
    kept = (node if i == at else n for i, n in enumerate(graph.nodes) if i == at or n.name not in inside)
    try:
        return settled(replace(graph, nodes=tuple(kept)))
    except GraphError:
        return None  # a node outside must come before one inside, and after another


def _outputs(graph: Graph, chain: Chain) -> tuple[Value, ...]:
    """Values that others read, or that persist; the gradient that leads on comes first."""
    inside = {n.name for n in chain.nodes}
    wanted = {v.name for v in graph.results} | {v.name for n in graph.nodes if n.name not in inside for v in n.inputs}
    nodes = (*([chain.sums] if chain.sums else []), *(n for n in chain.nodes if n is not chain.sums))
    return tuple(v for n in nodes for v in n.outputs if v.name in wanted)


# finding a chain --------------------------------------------------------------------------------


def _chain(graph: Graph, node: Node) -> tuple[Graph, Chain] | None:
    """The chain of this node, in a graph without the tiles along it; None if there is none."""
    first = _first(graph, node)
    if first is None:
        return None
    for user in _touched(graph, first):
        if is_tiled(user):
            graph = untiled(graph, user) or graph
    inside = _inside(graph, first)
    if inside is None:
        return None
    dx = next((n for n in inside if groups_of(n).sums and n is not first), None)
    dw = next((n for n in inside if n.op is conv2d_dw_block), None)
    chain = Chain(first, tuple(n for n in inside if n is not dx), (), update_of(graph, dw) if dw else None)
    if dx:
        graph, chain = _in_two(graph, chain, dx)
    return _closed(graph, chain)


def _in_two(graph: Graph, chain: Chain, dx: Node) -> tuple[Graph, Chain]:
    """The chain with the gradient that leads on as sums and blocks."""
    merge = graph.producer.get(dx.inputs[-1].name)
    if merge and (merge.op is not merge_channels or len(graph.users[merge.name]) > 1):
        merge = None
    sums, store = in_two(dx, merge)
    graph = swapped(graph, dx, sums, store)
    graph = swapped(graph, merge) if merge else graph
    return graph, replace(chain, sums=sums, dx=(*([merge] if merge else []), dx))


def _first(graph: Graph, node: Node) -> Node | None:
    """Back to the node that makes the expanded gradient."""
    if is_tiled(node):
        node = node.nodes[0]
    if node.op.facts.groups is None:
        return None
    back: Node | None = node
    while back is not None and _by_channels(back):
        back = graph.producer.get(back.inputs[0].name)
    if back is node and groups_of(node).sums:  # the first of its chain, or the last of another
        before = graph.producer.get(node.inputs[0].name)
        ahead = before and groups_of(before).inside and _first(graph, before)
        if ahead and _through_depthwise(graph, ahead):
            return ahead
    return back if back is not None and back.op is conv2d_dx_block and _through_depthwise(graph, back) else None


def _by_channels(node: Node) -> bool:
    """Does it treat each channel of the gradient independently?"""
    return groups_of(node).inside or groups_of(node).ends


def _through_depthwise(graph: Graph, first: Node) -> bool:
    """Does its result go through a depthwise convolution, with whole blocks and no padding or stride of its own?"""
    c = first.output.shape[-1]
    users = _touched(graph, first)
    return c % GROUP == 0 and c > GROUP and _is_pointwise(first) and any(n.op is depthwise2d_dx_block for n in users)


def _is_pointwise(node: Node) -> bool:
    if node.op is not conv2d_dx_block:
        return True
    window = (node.attrs[name] for name in ("stride", "padding", "dilation", "groups"))
    shape = conv_shape(node.inputs[0], node.output, node.inputs[2], *window)
    return node.attrs["groups"] == 1 and is_pointwise(**shape.fields)


def _touched(graph: Graph, first: Node) -> list[Node]:
    """The node, everything it leads to through nodes that work channel by channel, and the readers of that."""
    found = {first.name: first}
    todo = [first]
    while todo:
        for v in todo.pop().outputs:
            for user in graph.users.get(v.name, ()):
                if user.name not in found:
                    found[user.name] = user
                    todo += [user] if groups_of(user).inside else []
    return list(found.values())


def _inside(graph: Graph, first: Node) -> tuple[Node, ...] | None:
    """The nodes of each group in a legal order, ends directly after their inputs; None if another node, or the caller,
    needs a whole gradient."""
    nodes = _touched(graph, first)
    sums = [n for n in nodes if groups_of(n).sums and n is not first]
    known = all(_by_channels(n) or n in sums or n is first for n in nodes)
    wide = {v.name for n in nodes if groups_of(n).inside or n is first for v in n.outputs}
    if not known or len(sums) > 1 or not all(map(_is_pointwise, sums)) or wide & {v.name for v in graph.results}:
        return None
    if sum(n.op is conv2d_dw_block for n in nodes) > 1 or not all(_reads_wide(n, wide, first) for n in nodes):
        return None
    return tuple(_early_ends(nodes))


def _reads_wide(node: Node, wide: set[str], first: Node) -> bool:
    """It reads the gradient only where a gradient is expected."""
    pair = groups_of(node).gradient
    read = [v.name in wide for v in node.inputs]
    return node is first or (all(read[:pair]) and not any(read[pair:]))


def _early_ends(nodes: list[Node]) -> Iterator[Node]:
    """In a legal order; among the nodes that could run next, ends come first: their inputs may then be overwritten."""
    made = {v.name for n in nodes for v in n.outputs}
    left, done = list(nodes), set()
    while left:
        ready = [n for n in left if all(v.name in done or v.name not in made for v in n.inputs)]
        chosen = next((n for n in ready if groups_of(n).ends), ready[0])
        yield chosen
        left.remove(chosen)
        done |= {v.name for v in chosen.outputs}


def _closed(graph: Graph, chain: Chain) -> tuple[Graph, Chain] | None:
    """The chain with the updates that use its results, and everything else that must run between two of its nodes; None
    if that cannot run between the passes."""
    ends = {v.name for n in chain.inside if groups_of(n).ends for v in n.outputs}
    users = {n.name for name in ends for n in graph.users.get(name, ()) if n.op.overwrites}
    inside = {n.name for n in chain.nodes} | users
    before = dependencies(graph, state_homes(graph))
    names = [n.name for n in graph.nodes]
    start = {i for i, name in enumerate(names) if name in inside}
    between = _reached(before, start) & _reached(_turned(before), start)
    kept = {n.name for n in chain.nodes}
    found = tuple(graph.nodes[i] for i in sorted(between) if names[i] not in kept)
    late = {v.name for n in (chain.sums, chain.update) if n for v in n.outputs}
    if any(not n.op.overwrites or late & {v.name for v in n.inputs} for n in found) or _too_early(chain, found):
        return None
    return graph, replace(chain, between=found)


def _too_early(chain: Chain, between: Iterable[Node]) -> bool:
    """Do these change what the second pass reads again, such as the weight of the first node?"""
    again = (*chain.again, *(n for n in (chain.sums, chain.update) if n))
    changed = {v.name for n in between for v in n.shared().values()}
    return bool(changed & {v.name for n in again for v in n.inputs})


def _turned(before: list[set[int]]) -> list[set[int]]:
    """For each node, the nodes that need it."""
    found: list[set[int]] = [set() for _ in before]
    for i, needed in enumerate(before):
        for j in needed:
            found[j].add(i)
    return found


def _reached(before: list[set[int]], start: set[int]) -> set[int]:
    """All nodes that come after some of these; `before` says what each node needs."""
    found, stable = set(start), False
    while not stable:
        more = {i for i, needed in enumerate(before) if i not in found and needed & found}
        found |= more
        stable = not more
    return found
