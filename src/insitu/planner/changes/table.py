"""The table of changes, and the order in which they are tried. Each change has its own file."""

from __future__ import annotations

from insitu.planner.changes import in_place, kept_channels, less_scratch, update_tiles, weight_parts
from insitu.planner.changes.change import Change, Do
from insitu.planner.changes.channel_groups import chain
from insitu.planner.changes.stripes import node

CHANGES: tuple[Change, ...] = (
    node.CHANGE,
    less_scratch.CHANGE,
    in_place.CHANGE,
    weight_parts.CHANGE,
    kept_channels.CHANGE,
    update_tiles.CHANGE,
    chain.CHANGE,
)

# tried at a node, the cheapest first; a change may have a cheap way and a dear one
TRIED: tuple[Do, ...] = (
    in_place.do,
    weight_parts.do_layer,
    less_scratch.do_less,
    weight_parts.do_any,
    less_scratch.do_least,
    update_tiles.do,
)
DEAREST: tuple[Do, ...] = (chain.do,)  # if none of these helps at any node: most is recomputed
