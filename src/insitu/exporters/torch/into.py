"""What was learned, written back into the user's own torch module; the names of its state dict stay.

places.py finds where each number belongs, unfolded.py takes folded layers apart. int8 weights are written as the real
numbers they stand for. That the module in eval mode computes what the learner computes is checked; a module that cannot
hold what was learned stays as it was.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np
import torch

from insitu.errors import DataError
from insitu.exporters.compared import FAR, distance
from insitu.exporters.learned import learned_graph, unfolded_graph
from insitu.exporters.real import real_graph
from insitu.exporters.saturation import reason, samples_of, saturating, way_out
from insitu.exporters.torch.places import places_of
from insitu.exporters.torch.unfolded import learned_arrays
from insitu.graph import Graph, Value, drop_unused, evaluate
from insitu.importers import load
from insitu.quantizer.columns import absorbed
from insitu.quantizer.fold import is_int8
from insitu.training.head import HEAD, find_head

CLOSE = 1e-3  # of the largest output, for a float learner
ROUNDED = 1e-5  # of the largest number of a constant


@dataclass(frozen=True)
class Back:
    """The module's state dict with what was learned, and the constants that were learned but found no place in it."""

    state: dict[str, torch.Tensor]
    left: tuple[str, ...]


def into(module: torch.nn.Module, learner) -> torch.nn.Module:
    """The same module with what was learned in its parameters. If it cannot hold that, it is an error and unchanged."""
    graph = learned_graph(learner)
    before = copy.deepcopy(module.state_dict())
    back = written_back(module, trained_graph(learner))
    module.load_state_dict(back.state)
    allowed = FAR if is_int8(graph) else CLOSE
    off = worst_output(module, graph)
    if off > allowed or (back.left and not is_int8(graph)):
        module.load_state_dict(before)
        far = f"{off:.0%}" if off >= 0.005 else "less than 1%"
        what = f"the module cannot hold what was learned: its outputs would be off by {far} of the largest"
        left = f" ({', '.join(back.left)}: computed by the module, not a parameter of it)" if back.left else ""
        why = left or (reason(saturating(graph)) if is_int8(graph) else "")
        raise DataError(what + why, where=type(module).__name__, hint=way_out(graph))
    return module


def trained_graph(learner) -> Graph:
    """The learner's network in real numbers, with its batch norms and scales as far as it has them."""
    graph = unfolded_graph(learner)
    return absorbed(real_graph(graph) if is_int8(graph) else graph)


def written_back(module: torch.nn.Module, learned: Graph) -> Back:
    """The module's state dict with what was learned."""
    places = places_of(module, _example(learned))
    arrays = learned_arrays(places, learned)
    written = places.written(arrays)
    own = places.own.constants
    left = (n for n in set(arrays) - written if n in places.graph.parameters and _has_moved(arrays[n], own.get(n)))
    return Back(places.state, tuple(sorted(left)))


def _has_moved(learned: np.ndarray, before: np.ndarray | None) -> bool:
    """Is this more than the rounding of a layer that was folded and taken apart again?"""
    if before is None or before.size != learned.size:
        return True
    apart = np.abs(learned.reshape(-1).astype(np.float64) - before.reshape(-1)).max(initial=0)
    return bool(apart > ROUNDED * np.abs(before).max(initial=0))


def _example(learned: Graph) -> tuple[torch.Tensor, ...]:
    if any(v.dtype != "f32" for v in learned.inputs):
        what = f"the learner takes {learned.inputs[0].type}, not what the module takes"
        raise DataError(what, hint="compile the module without a transform, from floats")
    return tuple(torch.zeros(v.shape) for v in learned.inputs)


def worst_output(module: torch.nn.Module, graph: Graph) -> float:
    """How far the module's outputs are from the learner's, on a few drawn samples."""
    tail = behind_head(load(module, _example(graph)), graph) if HEAD in graph.producer else None
    training, worst = module.training, 0.0
    module.eval()
    for sample in samples_of(graph):
        want = first_output(graph, *sample)
        want = first_output(tail, want) if tail else want
        with torch.no_grad():
            got = module(*map(torch.from_numpy, sample))
        worst = max(worst, distance((got[0] if isinstance(got, tuple | list) else got).numpy(), want))
    module.train(training)
    return worst


def first_output(graph: Graph, *inputs: np.ndarray) -> np.ndarray:
    found = evaluate(replace(graph, outputs=graph.outputs[:1]), *inputs)
    assert isinstance(found, np.ndarray)  # one output gives one array
    return found


def behind_head(own: Graph, learned: Graph) -> Graph | None:
    """What the module still does to its classifier's outputs, such as a softmax; None if nothing.

    A 1x1 convolution before a mean over the image is a classifier too: ours stands behind the mean.
    """
    head = find_head(own).output
    if head.name == own.outputs[0].name or head.shape != learned.outputs[0].shape:
        return None
    logits = Value(head.name, head.type)
    return drop_unused(replace(own, inputs=(logits,), nodes=own.nodes[own.nodes.index(own.producer[head.name]) + 1 :]))
