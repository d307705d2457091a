"""An independent proof that a loop inside a plan is safe: its passes are replayed on a map of its own bytes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from insitu.graph import Node, Value
from insitu.graph.loops import Loop
from insitu.planner.verify.passes import verify_passes
from insitu.planner.verify.stripes import verify_stripes


def verify_loop(loop: Loop, node: Node, over: Mapping[str, Value] = MappingProxyType({})) -> None:
    """Raise a GraphError that names the value and the turn at which something is wrong.

    over: result of the node -> the input whose bytes it reuses, from the first on
    """
    if loop.stripes:
        verify_stripes(loop, node.outputs, over)
    else:
        verify_passes(loop, node)
