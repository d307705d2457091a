"""Probabilities at the end of a file: the softmax or sigmoid that a loss contains, and that `predict` leaves out.

Apps that show scores, and libraries for phones, want probabilities: MediaPipe drops scores below zero.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from insitu.graph import Builder, Graph, Op, build, check
from insitu.ops.activation import sigmoid
from insitu.ops.norm import softmax
from insitu.ops.quant import dequantize

if TYPE_CHECKING:
    from insitu.learner import Learner

# what the losses contain
CONTAINED: dict[str, Op] = {"cross_entropy": softmax, "soft_cross_entropy": softmax, "binary_cross_entropy": sigmoid}


def left_out(learner: Learner) -> Op | None:
    """What makes probabilities of the learner's outputs; None if these are probabilities, or no scores of classes."""
    from insitu.learner.classify import last_op

    end = CONTAINED.get(learner.recipe.loss)
    return end if end is not None and last_op(learner.graphs["predict"]) is None else None


def with_chances(graph: Graph, end: Op) -> Graph:
    """The graph with this function of its first output as its first output."""
    out, builder = graph.outputs[0], Builder(graph.name)
    with build(builder):
        x = builder.input(out.name, out.type)
        x = dequantize(x, name=f"{out.name}.real") if out.dtype == "s8" else x
        y = end(x, name=f"{out.name}.probabilities")
    return check(replace(graph, nodes=(*graph.nodes, *builder.nodes), outputs=(y, *graph.outputs[1:])))
