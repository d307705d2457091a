"""How files are read for a graph: the rate of its sound, the camera of its pixels, the overlap of its windows, from
the ops that it begins with.

A board's folder has no ops; its graphs say it themselves (deploy/manifest.py).
"""

from __future__ import annotations

from insitu.graph import Graph
from insitu.graph.source import RGB, UNIT, Source
from insitu.ops.motion import OVERLAP, fir
from insitu.ops.pcen import mel
from insitu.ops.pixels import pixels, yuv420
from insitu.ops.sound import log_mel


def source_of(graph: Graph) -> Source:
    """What a graph takes; a source without a rate if it does not say."""
    if graph.source:
        return graph.source
    rate = next((n.attrs["rate"] for n in graph.nodes if n.op in (log_mel, mel)), None)
    camera = next((n.attrs["format"] for n in graph.nodes if n.op in (pixels, yuv420)), RGB)
    overlap = next((n.attrs.get("overlap", OVERLAP) for n in graph.nodes if n.op is fir), OVERLAP)
    return Source(rate, camera, overlap, graph.pixels or UNIT)
