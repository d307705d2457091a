"""Keras 3 (on its torch backend) -> graph: `read_keras(model)`, `read_keras_file(path)`.

The model runs layer by layer inside torch.export, so that values carry the names of Keras layers, and is then read like
any torch program. Keras spells out batch norm and upsampling; the rules below put them together again before clean()
folds their constants.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from insitu.errors import ModelError, needs
from insitu.graph import Graph, Node, Value, lookup, rewrite
from insitu.graph.rewrite import Rewriter
from insitu.importers.canonical.clean import clean, rename
from insitu.importers.canonical.transposes import CHANGED, make
from insitu.importers.safe.child import read_in_child
from insitu.importers.sizes import Shapes, example_at, settled
from insitu.importers.torch import conv as torch_conv
from insitu.importers.torch.read import Names, layer_of, module_of, raw_graph, torch_export

FIX = """two lines, before anything imports keras:
    import os; os.environ["KERAS_BACKEND"] = "torch"
    model = keras.saving.load_model(path)   # load the model again"""
MAIN = {
    *torch_conv.TABLE,
    "linear",
    "matmul",
    "einsum",
    "dropout",
}  # layers are named after these; the rest surrounds them


def read_keras(model, *, batch: int = 1, examples: Shapes = ()) -> Graph:
    """The graph of a built Keras model on the torch backend."""
    keras = keras_package()
    if keras.backend.backend() != "torch":
        raise ModelError(f"Keras runs on {keras.backend.backend()}; insitu needs it on torch", hint=FIX)
    inputs = _inputs(model)
    example = tuple(_zeros(v, batch, example_at(examples, i)) for i, v in enumerate(inputs))
    net = _net(model, keras)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = torch_export().export(net, example)
        except Exception as e:  # torch.export and keras raise all kinds of exceptions
            line = (str(e).strip() or type(e).__name__).splitlines()[0][:200]
            raise ModelError(f"torch.export cannot trace it: {line}", where=str(model.name)) from e
    names = Names(_variables(model), tuple(str(v.name) for v in inputs), _layer)
    graph = rewrite(raw_graph(program, batch=batch, name=str(model.name), names=names), *RULES)
    return _keep_momentum(_name_layers(clean(graph), [layer.name for layer in model.layers]), model)


def read_keras_file(path: str | Path, *, batch: int = 1, examples: Shapes = ()) -> Graph:
    """The graph of a .keras file, loaded in a child process with limits on time and memory."""
    return read_in_child(Path(path), batch=batch, examples=examples)


def keras_package() -> Any:
    try:
        import keras
    except ModuleNotFoundError:
        raise needs("keras", "keras", "reading a Keras model") from None
    return keras


# the model as a torch module whose children are the layers


def _inputs(model) -> list:
    try:
        return list(model.inputs or [])
    except (AttributeError, ValueError):
        raise ModelError(
            "was never built", where=str(model.name), hint="build it as a functional or sequential model"
        ) from None


def _zeros(tensor, batch: int, example: tuple[int, ...] | None):
    import torch

    return torch.zeros(*settled(tensor.shape, batch, example, f"input {tensor.name}"))


def _net(model, keras) -> Any:
    """Runs the layers of a functional or sequential model as modules of their own, and any other model as it is."""
    import torch

    class Step(torch.nn.Module):
        """One layer. Dropout becomes torch's own, which survives in eval mode; Keras would omit it."""

        def __init__(self, layer):
            super().__init__()
            self.call = _predicting(layer)
            self.rate = layer.rate if type(layer) is keras.layers.Dropout else None

        def forward(self, *args, **kwargs):
            if self.rate is not None:
                return torch.nn.functional.dropout(args[0], self.rate, training=False)
            return self.call(*args, **kwargs)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.keras_layers = torch.nn.ModuleDict({_key(layer.name): Step(layer) for layer in model.layers})

        def forward(self, *inputs):
            function = getattr(model, "_functional", None) or model
            if not hasattr(function, "_run_through_graph"):
                return _predicting(model)(*inputs)
            return function._run_through_graph(list(inputs), operation_fn=self.step)

        def step(self, operation):
            own = dict(self.keras_layers.named_children())
            return own.get(_key(operation.name), operation)

    return Net().eval()


def _predicting(layer) -> Callable:
    """Calls the layer as model.predict does: left to themselves, layers that augment would go on doing so."""
    given = {"training": False} if layer._call_has_training_arg else {}
    return lambda *args, **kwargs: layer(*args, **{**kwargs, **given})  # a layer itself would become a submodule


def _key(name: str) -> str:
    return str(name).replace(".", "_")


# names


def _layer(node, op: str) -> str:
    path, kind = module_of(node)
    if not kind.endswith(".Step"):
        return layer_of(node, op)
    name = path.removeprefix("keras_layers.").split("@")[0]
    return name if op in MAIN else f"{name}.{op}"


def _variables(model) -> dict[int, str]:
    """Data pointer -> `layer.kernel`."""
    found = {}
    for layer in model.layers:
        for v in layer.variables:
            parts = str(v.path).split("/")
            inside = parts[parts.index(layer.name) + 1 :] if layer.name in parts else parts[-1:]
            found[v.value.data_ptr()] = ".".join([layer.name, *inside])
    return found


def _name_layers(graph: Graph, layers: list[str]) -> Graph:
    """A layer without an op of its own (Add, Activation) gives its name to the last value made in it."""
    names = {}
    for layer in layers:
        inside = [n.name for n in graph.nodes if n.name.startswith(f"{layer}.")]
        if inside and layer not in graph.values:
            names[inside[-1]] = layer
    return rename(graph, names)


def _keep_momentum(graph: Graph, model) -> Graph:
    """Keras gives the weight of the old statistics, torch (and insitu) the weight of the new ones."""
    found = {layer.name: layer.momentum for layer in model.layers if hasattr(layer, "momentum")}

    def kept(node: Node) -> Node:
        if node.op.name != "batch_norm" or node.name not in found:
            return node
        attrs = {**node.attrs, "momentum": round(1 - found[node.name], 9)}
        return Node(node.op, node.inputs, node.outputs, attrs)

    return replace(graph, nodes=tuple(map(kept, graph.nodes)))


# what Keras spells out


def batch_norm(node: Node, rw: Rewriter):
    """(x - mean) * (rsqrt(var + epsilon) * scale): batch_norm without its bias; `bias` adds that."""
    minus = rw.producer(node.inputs[0], lookup("sub")) if node.op.name == "mul" else None
    found = _deviation(node.inputs[1], rw) if minus else None
    mean = _parameter(minus.inputs[1], rw) if minus else None
    if minus is None or found is None or mean is None:
        return None
    scale, var, epsilon = found
    axis = _axis(minus.inputs[1])
    channels = var.type.size
    if axis is None or mean.shape != (channels,):
        return None
    stem = node.name.rsplit(".", 1)[0]
    scale = scale or rw.constant(f"{stem}.gamma", np.ones(channels, np.float32))
    zero = rw.constant(f"{stem}.{NO_BIAS}", np.zeros(channels, np.float32))
    return make("batch_norm", minus.inputs[0], scale, zero, mean, var, axis=axis, epsilon=epsilon, name=node.name)


NO_BIAS = "no_bias"


def bias(node: Node, rw: Rewriter):
    """batch_norm without its bias, then + bias."""
    above = rw.producer(node.inputs[0], lookup("batch_norm")) if node.op.name == "add" else None
    beta = _parameter(node.inputs[1], rw) if above else None
    if above is None or beta is None or NO_BIAS not in above.inputs[2].name or rw.uses(above.output) != 1:
        return None
    if beta.shape != above.inputs[2].shape or _axis(node.inputs[1]) != above.attrs["axis"]:
        return None
    x, scale, _, mean, var = above.inputs
    return make("batch_norm", x, scale, beta, mean, var, **above.attrs, name=above.name + CHANGED)


def _deviation(v: Value, rw: Rewriter) -> tuple[Value | None, Value, float] | None:
    """(scale or None, var, epsilon) of rsqrt(var + epsilon) * scale."""
    node, scale = rw.producer(v), None
    if node is not None and node.op.name == "mul":
        scale = _parameter(node.inputs[1], rw)
        node = rw.producer(node.inputs[0]) if scale else None
    plus = rw.producer(node.inputs[0], lookup("add")) if node is not None and node.op.name == "rsqrt" else None
    if plus is None:
        return None
    var, epsilon = _parameter(plus.inputs[0], rw), rw.array(plus.inputs[1])
    if var is None or epsilon is None or epsilon.size != 1:
        return None
    return scale, var, float(str(np.float32(epsilon.reshape(()))))  # 0.001 in 32 bits stands for 0.001


def _parameter(v: Value, rw: Rewriter) -> Value | None:
    """The vector that a broadcast parameter is, or is a reshape of (ones and zeros stand for omitted parameters)."""
    above = rw.producer(v, lookup("reshape"))
    source = above.inputs[0] if above else v
    array = rw.array(source)
    if array is None or array.size != max(array.shape, default=0):
        return None
    return source if array.ndim == 1 else rw.constant(source.name + CHANGED, array.reshape(-1))


def _axis(v: Value) -> int | None:
    """The axis along which a parameter of shape [1,..,C,..,1] lies."""
    long = [i for i, d in enumerate(v.shape) if d > 1]
    return long[0] - v.type.rank if len(long) == 1 else -1 if not long else None


def upsample(node: Node, rw: Rewriter):
    """x[N,H,1,W,C] times ones[2], reshaped to [N,2H,W,C]: every row (or column) twice."""
    times = rw.producer(node.inputs[0], lookup("mul")) if node.op.name == "reshape" else None
    ones = rw.array(times.inputs[1]) if times else None
    above = rw.producer(times.inputs[0], lookup("reshape")) if times else None
    if times is None or above is None or ones is None or ones.ndim != 5 or not np.all(ones == 1):
        return None
    x, axis = above.inputs[0], int(np.argmax(ones.shape)) - 1
    if (
        x.type.rank != 4
        or axis not in (1, 2)
        or x.shape != (*above.output.shape[: axis + 1], *above.output.shape[axis + 2 :])
    ):
        return None
    size = [d * (ones.size if a == axis else 1) for a, d in enumerate(x.shape)]
    if tuple(size) != node.output.shape:
        return None
    return make("resize", x, size=tuple(size[1:3]), name=node.name)


def merge_upsamples(node: Node, rw: Rewriter):
    """Upsampled rows, then columns: one resize. This is exact because each factor is an integer."""
    above = rw.producer(node.inputs[0], lookup("resize")) if node.op.name == "resize" else None
    if above is None or rw.uses(above.output) != 1:
        return None
    return make("resize", above.inputs[0], size=node.attrs["size"], name=node.name)


RULES = (batch_norm, bias, upsample, merge_upsamples)
