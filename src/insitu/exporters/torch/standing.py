"""Batch norms, products and sums per channel that the learned network has as a scale and a shift of their own.

A float network that was folded has a product and a sum for a batch norm that no layer took up; an int8 one has a 1x1
depthwise convolution for any chain of them.
"""

from __future__ import annotations

import numpy as np

from insitu.exporters.torch.affines import (
    Affine,
    Arrays,
    affine_at,
    folded_above,
    safe,
    theirs,
    with_scale,
    with_shift,
)
from insitu.exporters.torch.places import Places
from insitu.graph import Graph, Node
from insitu.ops.arith import add, mul, sub
from insitu.ops.depthwise import depthwise2d
from insitu.ops.norm import batch_norm


def standing(places: Places, learned: Graph, node: Node) -> Arrays:
    """The module's constants for the chain that ends in this node."""
    found, last = _scale_and_shift(learned, theirs(node.name, learned)), affine_at(places, node)
    if found is None or last is None or last.a.size != found[0].size:
        return {}
    return _shared(places, [*reversed(folded_above(places, learned, last.x)), last], *found)


def _scale_and_shift(learned: Graph, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    made = learned.producer.get(f"{name}.depthwise") or learned.producer.get(name)
    names = [f"{name}.scale", f"{name}.shift"]
    if made is not None and made.op is depthwise2d:
        names = [v.name for v in made.inputs[1:]]
    arrays = [learned.constants[n].reshape(-1).astype(np.float64) for n in names if n in learned.constants]
    return (arrays[0], arrays[1]) if len(arrays) == 2 and arrays[0].size == arrays[1].size else None


def _shared(places: Places, steps: list[Affine], scale: np.ndarray, shift: np.ndarray) -> Arrays:
    """One of the steps takes what the others leave of the scale, and one of the shift; a batch norm takes both."""
    ops = [step.node.op for step in steps]
    scaling = next((i for i, op in enumerate(ops) if op in (batch_norm, mul)), None)
    norm = scaling is not None and ops[scaling] is batch_norm
    shifting = scaling if norm else next((i for i, op in enumerate(ops) if op in (add, sub)), None)
    arrays, factors = {}, [step.a for step in steps]
    if scaling is not None:
        factors[scaling] = scale / safe(_product(factors[:scaling] + factors[scaling + 1 :]))
        arrays |= with_scale(places, steps[scaling].node, factors[scaling])
    if shifting is not None:
        others = sum(s.b * _product(factors[i + 1 :]) for i, s in enumerate(steps) if i != shifting)
        wanted = (shift - others) / safe(_product(factors[shifting + 1 :]))
        arrays |= with_shift(places, steps[shifting].node, factors[shifting], wanted)
    return arrays


def _product(arrays: list[np.ndarray]) -> np.ndarray:
    return np.prod([np.ones(1), *np.broadcast_arrays(*arrays)], axis=0) if arrays else np.ones(1)
