"""Whether a program on this machine should take whole batches at once. It decides by the graph alone, so that every
machine decides alike. training/parts.py makes the graphs; the samples of other programs are shared by threads
(devices/crew.py).

At once, weights are read and their gradients written once per batch, not once per sample: dense layers gain several
times. Convolutions use each weight at many places of a sample, so that this is a small share of their time: one thread
needs as long either way, and only single samples can be shared by threads.
"""

from __future__ import annotations

from collections.abc import Mapping

from insitu.graph import Graph
from insitu.planner.changes.looped import macs

STEP = "train_step"
REUSE = 16  # multiply-adds per weight and sample; dense layers have 2 to 3, convolutional networks 20 to 500
WORTH_THREADS = 1 << 20  # multiply-adds per sample; below, threads cost more than they save


def faster_together(graphs: Mapping[str, Graph]) -> dict[str, Graph]:
    """The graphs; without the step for whole batches, if threads should share the samples instead."""
    step = graphs.get(STEP)
    if step is None or "accumulate" not in graphs or not _shared_by_threads(graphs["accumulate"]):
        return dict(graphs)
    return {verb: g for verb, g in graphs.items() if verb != STEP}


def _shared_by_threads(sample: Graph) -> bool:
    work = sum(map(macs, sample.nodes))
    return work > WORTH_THREADS and work > REUSE * _weights(sample)


def _weights(sample: Graph) -> int:
    """How many weights have a sum of gradients."""
    return sum(a.size for name, a in sample.state.items() if name.endswith(".sum"))
