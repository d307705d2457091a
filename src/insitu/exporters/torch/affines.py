"""Nodes of the module's graph that are y = a x + b per channel, and how to give them other numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.exporters.torch.places import Places
from insitu.graph import Graph, Node, Value
from insitu.ops.arith import sub
from insitu.ops.norm import batch_norm
from insitu.quantizer.fold import affine
from insitu.training.head import HEAD

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Affine:
    """y = a x + b per channel."""

    node: Node
    x: Value
    a: np.ndarray
    b: np.ndarray


def affine_at(places: Places, node: Node | None) -> Affine | None:
    found = affine(node, places) if node is not None else None
    return None if node is None or found is None else Affine(node, *found)


def folded(places: Places, learned: Graph, node: Node | None) -> Affine | None:
    """This node, if it is affine and the learned network does not have it any more."""
    if node is None or theirs(node.name, learned) in learned.producer:
        return None
    return affine_at(places, node)


def folded_above(places: Places, learned: Graph, value: Value) -> list[Affine]:
    """The folded nodes that make this value, nearest first, each with one reader."""
    found, graph = [], places.graph
    while len(graph.users.get(value.name, ())) == 1 and (
        step := folded(places, learned, graph.producer.get(value.name))
    ):
        found.append(step)
        value = step.x
    return found


def theirs(name: str, learned: Graph) -> str:
    """The learner's name for it: the module's own `head.0` made room for the learner's classifier of that name."""
    mine = name == HEAD or name.startswith(f"{HEAD}.")
    return f"body.{name}" if mine and HEAD in learned.producer else name


def safe(a: np.ndarray) -> np.ndarray:
    """A divisor. A dead channel stays: whatever its weights, what comes behind gives its shift alone."""
    return np.where(a == 0, 1.0, a)


def with_shift(places: Places, node: Node, a: np.ndarray, shift: np.ndarray) -> Arrays:
    """The constant that gives this batch norm, sum or difference another shift; its scale is a."""
    if node.op is batch_norm:
        mean = places.array(node.inputs[3])
        return {node.inputs[2].name: shift + (0.0 if mean is None else mean) * a}
    return {_constant(places, node): -shift if node.op is sub else shift}


def with_scale(places: Places, node: Node, a: np.ndarray) -> Arrays:
    """The constant that gives this batch norm or product another scale."""
    if node.op is batch_norm:
        var = places.array(node.inputs[4])
        return {node.inputs[1].name: a * np.sqrt((1.0 if var is None else var) + node.attrs["epsilon"])}
    return {_constant(places, node): a}


def _constant(places: Places, node: Node) -> str:
    return next(v.name for v in node.inputs if places.array(v) is not None)
