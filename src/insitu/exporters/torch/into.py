"""What was learned, written back into the user's own torch module; the names of its state dict stay.

The module is imported again, once as it is and once with numbered parameters: where a number arrives in the graph says
which element of which tensor it was, whatever layout the importer chose. int8 weights are written as the real numbers
they stand for. A batch norm that was folded into its convolution keeps its statistics and its scale; the convolution is
divided by them, and the norm's bias takes up the rest, so the module in eval mode computes what the learner computes.
That is checked; a module that cannot express it stays as it was.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from insitu.errors import DataError
from insitu.exporters.compared import FAR, distance
from insitu.exporters.learned import learned_graph
from insitu.exporters.real import real_graph
from insitu.exporters.samples import compared
from insitu.graph import Graph, Node, Value, drop_unused, evaluate
from insitu.importers import load
from insitu.ops.norm import batch_norm, layer_norm
from insitu.quantizer.columns import absorbed, usual
from insitu.quantizer.fold import is_int8
from insitu.quantizer.weights import SCALED
from insitu.training.head import HEAD, find_head

CLOSE = 1e-3  # of the largest output, for a float learner
SMALL = np.float32(0.25)  # of the input's range: near its ends int8 values saturate, which the module's do not


@dataclass(frozen=True)
class Layer:
    """A layer of the module's graph, and its weight and bias as learned, its batch norm folded in."""

    node: Node
    weight: np.ndarray
    bias: np.ndarray


def into(module: torch.nn.Module, learner) -> torch.nn.Module:
    """The same module with what was learned in its parameters. If it cannot hold that, it is an error and unchanged."""
    graph = learned_graph(learner)
    before = copy.deepcopy(module.state_dict())
    module.load_state_dict(written_back(module, absorbed(real_graph(graph)) if is_int8(graph) else graph))
    allowed = FAR if is_int8(graph) else CLOSE
    off = worst_output(module, graph)
    if off > allowed:
        module.load_state_dict(before)
        what = f"the module cannot hold what was learned: its outputs would be off by {off:.0%} of the largest"
        raise DataError(what, where=type(module).__name__, hint='learner.export("net.onnx") writes the network itself')
    return module


def written_back(module: torch.nn.Module, learned: Graph) -> dict[str, torch.Tensor]:
    """The module's state dict with what was learned."""
    example = _example(learned)
    own, numbered = load(module, example), load(with_numbers(module), example)
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    arrays = dict(learned_norms(own, learned))
    for layer in learned_layers(own, learned):
        arrays |= unfolded(own, layer)
    for name, array in arrays.items():
        place = numbered.constants[name].astype(np.int64) - 1
        target = state[own.parameters.get(name, name)]
        target.view(-1)[torch.from_numpy(place.reshape(-1))] = torch.from_numpy(
            np.ascontiguousarray(array, np.float32).reshape(-1)
        ).to(target.dtype)
    return state


def learned_norms(own: Graph, learned: Graph) -> Iterator[tuple[str, np.ndarray]]:
    """Scale and bias of the layer norms that both networks have."""
    for node in own.nodes:
        found = learned.producer.get(node.name) if node.op is layer_norm else None
        for mine, theirs in zip(node.inputs[1:], found.inputs[1:] if found and found.op is layer_norm else ()):
            if mine.name in own.constants and theirs.name in learned.constants and mine.shape == theirs.shape:
                yield mine.name, learned.constants[theirs.name]


def _example(learned: Graph) -> tuple[torch.Tensor, ...]:
    if any(v.dtype != "f32" for v in learned.inputs):
        what = f"the learner takes {learned.inputs[0].type}, not what the module takes"
        raise DataError(what, hint="compile the module without a transform, from floats")
    return tuple(torch.zeros(v.shape) for v in learned.inputs)


def with_numbers(module: torch.nn.Module) -> torch.nn.Module:
    """A copy whose every float tensor counts its elements from one."""
    made = copy.deepcopy(module).eval()
    with torch.no_grad():
        for tensor in made.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.arange(1, tensor.numel() + 1, dtype=torch.float64).reshape(tensor.shape))
    return made


def learned_layers(own: Graph, learned: Graph) -> Iterator[Layer]:
    """The layers of the module that the learned network has, under the names of the module's graph."""
    head = find_head(own).name if HEAD in learned.producer else ""
    for node in own.nodes:
        if node.op in SCALED:
            name = HEAD if node.name == head else node.name
            found = learned.producer.get(f"{name}.conv2d") or learned.producer.get(name)  # a 1-D one is lowered
            if found is not None and found.inputs[1].name in learned.constants:
                yield _layer(node, found, learned.constants)


def _layer(node: Node, found: Node, constants: Mapping[str, np.ndarray]) -> Layer:
    """Weight and bias in the shapes of the module's graph."""
    w, shape = constants[found.inputs[1].name], node.inputs[1].shape
    outputs = node.output.shape[-1]
    bias = constants[found.inputs[2].name] if len(found.inputs) > 2 else np.zeros(outputs)
    if w.size != np.prod(shape) or bias.size != outputs:
        what = f"the learner has {bias.size} outputs here, the module {outputs}"
        raise DataError(what, where=node.name, hint=f"a module with {bias.size} classes")
    if w.ndim == 3 and len(shape) == 3 and w.shape != shape:  # a depthwise convolution over an image of one row
        w = w[0].T
    return Layer(node, w.reshape(shape).astype(np.float64), bias.astype(np.float64))


def unfolded(own: Graph, layer: Layer) -> dict[str, np.ndarray]:
    """The module's constants for this layer and the batch norm behind it."""
    node, users = layer.node, own.users.get(layer.node.name, ())
    weight, *bias = (v.name for v in node.inputs[1:])
    if len(users) != 1 or users[0].op is not batch_norm:
        return {weight: layer.weight, **({bias[0]: layer.bias} if bias else {})}
    scale, _, mean, var = (own.constants[v.name].astype(np.float64) for v in users[0].inputs[1:])
    factor = scale / np.sqrt(var + users[0].attrs["epsilon"])
    factor = np.where(factor == 0, 1.0, factor)  # a dead channel: whatever its weights, the norm gives its bias alone
    first = own.constants[bias[0]] if bias else 0.0
    return {weight: SCALED[node.op](layer.weight, 1 / factor, node.attrs),
            users[0].inputs[2].name: layer.bias - (first - mean) * factor}  # fmt: skip


def worst_output(module: torch.nn.Module, graph: Graph) -> float:
    """How far the module's outputs are from the learner's, on a few drawn samples."""
    tail = behind_head(load(module, _example(graph)), graph) if HEAD in graph.producer else None
    training, worst = module.training, 0.0
    module.eval()
    for drawn in compared(graph):
        sample = [usual(graph, SMALL * x) for x in drawn]
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
