"""A learned network's arrays under the names and in the shapes of a torch state dict, without the module at hand.

A scale behind a group or instance norm has one axis, as in torch. Of a bare parameter only insitu's own shape is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from insitu.exporters.torch.unfolded import turned_back
from insitu.graph import Graph, Node
from insitu.ops.activation import prelu
from insitu.ops.arith import add, div, mul, sub
from insitu.ops.conv import conv1d, conv2d
from insitu.ops.conv_transpose import conv_transpose2d
from insitu.ops.depthwise import depthwise2d
from insitu.ops.layout import pad, reshape, transpose
from insitu.ops.layout import slice as slice_of
from insitu.ops.linear import linear
from insitu.ops.norm import batch_norm, layer_norm
from insitu.training.head import HEAD

# op -> its weight in torch's layout
TURNED = {
    conv2d: lambda w: w.transpose(0, 3, 1, 2), conv1d: lambda w: w.transpose(0, 2, 1),
    depthwise2d: lambda w: w.transpose(2, 0, 1)[:, None], conv_transpose2d: lambda w: w.transpose(0, 3, 1, 2),
}  # fmt: skip
# op -> the words of its constants
WORDS = {
    **dict.fromkeys((*TURNED, linear, layer_norm), ("weight", "bias")),
    batch_norm: ("weight", "bias", "running_mean", "running_var"),
}
BARE = {prelu, mul, add, sub, div}  # their constants have names of their own


def arrays_of(graph: Graph, parameters: Iterable[str] = ()) -> dict[str, np.ndarray]:
    """Every layer's arrays, and the other parameters; without `parameters`, every constant of more than one number."""
    layers = dict(pair for node in graph.nodes if node.op in WORDS for pair in _layer(graph, node))
    others = {_own(name): _vector(graph, name, array) for name, array, _ in _bare(graph, set(parameters))}
    return {name: np.ascontiguousarray(array, np.float32) for name, array in {**layers, **others}.items()}


def uncertain(graph: Graph, parameters: Iterable[str] = ()) -> list[str]:
    """Bare parameters of images and sequences, whose axes of one may have been elsewhere in the module."""
    found = _bare(graph, set(parameters))
    return sorted({_own(name) for name, _, rank in found if rank > 2 and not _in_norm(graph, name)})


def _bare(graph: Graph, known: set[str]) -> Iterator[tuple[str, np.ndarray, int]]:
    """Name and array of the constants that belong to no layer, and how many axes the result has."""
    for node in graph.nodes:
        for v in node.inputs if node.op in BARE else ():
            array = graph.constants.get(v.name)
            if array is not None and (v.name in known or (not known and array.size > 1)):
                yield v.name, array, node.output.type.rank


def _layer(graph: Graph, node: Node) -> Iterator[tuple[str, np.ndarray]]:
    if any(v.name not in graph.constants for v in node.inputs[1:]):
        return
    arrays = [graph.constants[v.name] for v in node.inputs[1:]]
    if node.op in TURNED:
        was_transposed = f"{node.name}.spread" in graph.producer
        w = turned_back(arrays[0], node.attrs["groups"]) if was_transposed else arrays[0]
        turned = TURNED[node.op](w)
        arrays[0] = turned.squeeze(2) if node.op is not conv1d and _was_1d(graph, node) else turned
    elif node.op is linear:
        arrays[0] = _columns(graph, node, arrays[0])
    name = _own(node.name.removesuffix(".conv2d"))
    yield from ((f"{name}.{word}", a) for word, a in zip(WORDS[node.op], arrays))


def _own(name: str) -> str:
    """The module's own `head.0` made room for the learner's classifier of that name."""
    return name.removeprefix("body.") if name.startswith(f"body.{HEAD}") else name


def _was_1d(graph: Graph, node: Node) -> bool:
    """Is it a 1-D layer, written as one over an image of one row?"""
    value = node.inputs[0]
    if 1 not in value.shape[1:3]:
        return False
    while value.type.rank != 3:
        above = graph.producer.get(value.name)
        if above is None or above.op not in (reshape, transpose, pad, slice_of):
            return False
        value = above.inputs[0]
    return True


def _vector(graph: Graph, name: str, array: np.ndarray) -> np.ndarray:
    return array.reshape(-1) if _in_norm(graph, name) else array


def _in_norm(graph: Graph, name: str) -> bool:
    """Does it scale a norm's channels, or is it the slope of a PReLU of that name? Torch has these as vectors."""
    layer = graph.producer.get(name.rpartition(".")[0])
    return layer is not None and layer.op in (layer_norm, prelu)


def _columns(graph: Graph, node: Node, w: np.ndarray) -> np.ndarray:
    """A linear layer on a flattened image or sequence: its columns with the channels first. Other arrays stay."""
    flat = graph.producer.get(node.inputs[0].name)
    if flat is None or flat.op is not reshape or flat.inputs[0].type.rank < 3 or not _channels_last(graph, flat):
        return w
    *places, channels = flat.inputs[0].shape[1:]
    return w.reshape(len(w), -1, channels).swapaxes(1, 2).reshape(w.shape) if np.prod(places) > 1 else w


def _channels_last(graph: Graph, node: Node) -> bool:
    """Are the channels of its input the last axis? So layers leave them; a module has them first."""
    above = graph.producer.get(node.inputs[0].name)
    if above is None or above.op is linear:
        return False
    if above.op is transpose:
        channels = above.inputs[0].type.rank - 1 if _channels_last(graph, above) else 1
        return above.attrs["perm"][-1] == channels
    return above.op in TURNED or _channels_last(graph, above)
