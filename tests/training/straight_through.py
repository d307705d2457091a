"""An int8 graph simulated in torch, in real numbers: fake quantisation, straight through `round`, stopped by `clamp`.

Knows the ops of the published checkpoints. Everything is float64; a parameter is a leaf with its real values.
"""

import numpy as np
import torch

F = torch.nn.functional


class Round(torch.autograd.Function):
    """Rounds half up; the gradient passes unchanged."""

    @staticmethod
    def forward(ctx, x):
        return torch.floor(x + 0.5)

    @staticmethod
    def backward(ctx, g):
        return g


def real(array: np.ndarray, type) -> torch.Tensor:
    x = torch.tensor(np.asarray(array, np.float64))
    return x if type.quant is None else (x - type.zero) * torch.tensor(type.quant.scales(type.rank))


def fake_quantised(y: torch.Tensor, type, lo: int = -128, hi: int = 127) -> torch.Tensor:
    q = torch.clamp(Round.apply(y / type.scale + type.zero), lo, hi)
    return (q - type.zero) * type.scale


def conv(node, x, w, b=None):
    a = node.attrs
    if b is not None and node.inputs[2].type.quant is None:  # in units of the products' scale
        tx, tw = (v.type for v in node.inputs[:2])
        b = b * tx.scale * torch.tensor(tw.quant.scale)
    top, bottom, left, right = a["padding"]
    image = F.pad(x.movedim(-1, 1), (left, right, top, bottom))
    if node.op.name == "depthwise2d_s8":
        kernel, groups = w.movedim(-1, 0)[:, None], x.shape[3]
    else:
        kernel, groups = w.movedim(-1, 1), a["groups"]
    y = F.conv2d(image, kernel, b, a["stride"], 0, a["dilation"], groups).movedim(1, -1)
    return fake_quantised(y, node.output.type, a["lo"], a["hi"])


def add(node, x, y):
    """With the 16-bit multipliers of the rounding `single`: they are data, not rounding."""
    tx, ty, tz = (v.type for v in (*node.inputs, node.output))
    largest = max(tx.scale, ty.scale) / tz.scale
    s = 15 - np.frexp(largest)[1]
    a, b = (np.floor(t.scale / tz.scale * 2.0**s + 0.5) / 2.0**s * tz.scale / t.scale for t in (tx, ty))
    return fake_quantised(x * float(a) + y * float(b), tz, node.attrs["lo"], node.attrs["hi"])


def mean(node, x):
    y = x.mean(dim=tuple(node.attrs["axes"]), keepdim=node.attrs["keepdims"])
    return fake_quantised(y, node.output.type) if node.op.name == "mean_s8" else y


def merge(node, trained, fixed):
    channels = list(node.attrs["channels"])
    total = trained.shape[-1] + fixed.shape[-1]
    others = [c for c in range(total) if c not in set(channels)]
    both = torch.cat([trained, fixed], -1)
    place = torch.tensor(np.argsort(np.array(channels + others)))
    return both.index_select(-1, place)


OPS = {
    "conv2d_s8": conv,
    "depthwise2d_s8": conv,
    "add_s8": add,
    "mean_s8": mean,
    "mean": mean,
    "merge_channels": merge,
    "dequantize": lambda node, x: x,
    "reshape": lambda node, x: x.reshape(node.output.shape),
    "linear": lambda node, x, w, b: F.linear(x, w, b),
}


def simulate(graph, state, x: np.ndarray):
    """(the output, name -> leaf of every persistent value, name -> every other value) for one input."""
    types = {name: v.type for name, v in graph.values.items()}
    leaves = {name: real(a, types[name]).requires_grad_() for name, a in state.items() if name in types}
    env = {name: real(a, types[name]) for name, a in graph.constants.items() if name in types} | leaves
    env[graph.inputs[0].name] = real(x, graph.inputs[0].type)
    for node in graph.nodes:
        env[node.name] = OPS[node.op.name](node, *(env[v.name] for v in node.inputs))
    return env[graph.outputs[0].name], leaves, env
