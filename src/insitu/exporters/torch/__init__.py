"""What was learned as a PyTorch state dict: of the user's own module, or of the network's layers in torch's layout.

With the module (`into`, or export(..., module=net)) all names and shapes are the module's. Without it, each layer gives
NAME.weight and NAME.bias, batch norms folded into them (a layer norm stays), and a linear layer behind an image expects
channels first.
"""

from __future__ import annotations

import io

import numpy as np
import torch

from insitu.exporters.learned import learned_graph
from insitu.exporters.real import real_graph
from insitu.exporters.torch.into import into, with_numbers, written_back
from insitu.exporters.written import Options, Written
from insitu.graph import Graph, Node
from insitu.ops.conv import conv1d, conv2d
from insitu.ops.conv_transpose import conv_transpose2d
from insitu.ops.depthwise import depthwise2d
from insitu.ops.layout import reshape, transpose
from insitu.ops.linear import linear
from insitu.ops.norm import layer_norm
from insitu.quantizer.fold import is_int8

__all__ = ["check", "into", "with_numbers", "write", "written_back"]

FOLDED = "batch norms are folded into the layers; module=net writes the state dict of your own module"
# op -> its weight in torch's layout
TURNED = {
    conv2d: lambda w: w.transpose(0, 3, 1, 2), conv1d: lambda w: w.transpose(0, 2, 1),
    depthwise2d: lambda w: w.transpose(2, 0, 1)[:, None], conv_transpose2d: lambda w: w.transpose(0, 3, 1, 2),
}  # fmt: skip


def write(learner, options: Options) -> Written:
    """The bytes of the file, and notes."""
    graph = learned_graph(learner)
    graph = real_graph(graph) if is_int8(graph) else graph
    if options.module is not None:
        return Written(saved(into(_copy(options.module), learner).state_dict()))
    return Written(saved(layers_of(graph)), (FOLDED,))


def _copy(module: torch.nn.Module) -> torch.nn.Module:
    import copy

    return copy.deepcopy(module)


def saved(state) -> bytes:
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    return buffer.getvalue()


def layers_of(graph: Graph) -> dict[str, torch.Tensor]:
    """Each layer's weight and bias, in torch's layout."""
    found = {}
    for node in graph.nodes:
        if node.op in (*TURNED, linear, layer_norm) and len(node.inputs) > 1 and node.inputs[1].name in graph.constants:
            name = node.name.removesuffix(".conv2d")
            arrays = [graph.constants[v.name] for v in node.inputs[1:]]
            arrays[0] = TURNED[node.op](arrays[0]) if node.op in TURNED else _columns(graph, node, arrays[0])
            found |= {f"{name}.{word}": torch.from_numpy(np.ascontiguousarray(a, np.float32))
                      for word, a in zip(("weight", "bias"), arrays)}  # fmt: skip
    return found


def _columns(graph: Graph, node: Node, w: np.ndarray) -> np.ndarray:
    """A linear layer on a flattened image: its columns with the channels first. Other arrays stay."""
    flat = graph.producer.get(node.inputs[0].name)
    if flat is None or flat.op is not reshape or flat.inputs[0].type.rank != 4:
        return w
    before, (_, h, width, c) = graph.producer.get(flat.inputs[0].name), flat.inputs[0].shape
    if h * width == 1 or (before is not None and before.op is transpose):
        return w
    return w.reshape(-1, h, width, c).transpose(0, 3, 1, 2).reshape(w.shape)


def check(data: bytes, learner, options: Options) -> list[str]:
    """Load the file as anyone would, without running code from it."""
    state = torch.load(io.BytesIO(data), weights_only=True)
    return [f"a state dict of {len(state)} tensors, {sum(t.numel() for t in state.values()):,} numbers"]
