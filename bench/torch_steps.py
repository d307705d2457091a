"""Training steps in PyTorch, for comparison: one call is forward, loss, backward and a plain SGD update."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from insitu.graph import Graph, Node


def step(model: nn.Module, x: torch.Tensor, labels: torch.Tensor, *, threads: int = 1, rate: float = 0.01) -> Callable:
    """A whole step in train mode, eager, on this many threads."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    loss_of = nn.CrossEntropyLoss()

    def run():
        torch.set_num_threads(threads)
        optimizer.zero_grad()
        loss_of(model(x), labels).backward()
        optimizer.step()

    return run


def saved_bytes(model: nn.Module, x: torch.Tensor) -> int:
    """The bytes that autograd keeps from the forward pass for the backward pass, without parameters."""
    own = {p.data_ptr() for p in (*model.parameters(), *model.buffers(), x)}
    kept: dict[int, int] = {}

    def pack(t: torch.Tensor):
        if t.data_ptr() not in own:
            kept[t.data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        model.train()(x)
    return sum(kept.values())


class Twin(nn.Module):
    """The layers of an int8 graph as float layers with batch norms, as before folding and quantising."""

    def __init__(self, graph: Graph, classes: int):
        super().__init__()
        self.input = graph.inputs[0].name
        self.nodes = [n for n in graph.nodes if n.op.name in ("conv2d_s8", "depthwise2d_s8", "add_s8")]
        self.layers = nn.ModuleDict({_key(n): _layer(n) for n in self.nodes if n.op.name != "add_s8"})
        self.classifier = nn.Linear(self.nodes[-1].output.shape[3], classes)

    def forward(self, x):
        values = {self.input: x}
        for n in self.nodes:
            a = values[n.inputs[0].name]
            values[n.name] = a + values[n.inputs[1].name] if n.op.name == "add_s8" else self.layers[_key(n)](a)
        return self.classifier(values[self.nodes[-1].name].mean((2, 3)))


def _key(node: Node) -> str:
    return node.name.replace(".", "/")


def _layer(node: Node) -> nn.Module:
    x, w, y = node.inputs[0], node.inputs[1], node.output
    depthwise = node.op.name == "depthwise2d_s8"
    kernel = (w.shape[0], w.shape[1]) if depthwise else (w.shape[1], w.shape[2])
    padding = (node.attrs["padding"][0], node.attrs["padding"][2])
    groups = x.shape[3] if depthwise else 1
    conv = nn.Conv2d(x.shape[3], y.shape[3], kernel, node.attrs["stride"], padding, groups=groups, bias=False)
    clamped = [nn.ReLU6(inplace=True)] if y.type.zero == -128 else []
    return nn.Sequential(conv, nn.BatchNorm2d(y.shape[3]), *clamped)
