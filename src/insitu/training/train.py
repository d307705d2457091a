"""From a forward graph and a scheme to the graphs a training program runs.

    predict       forward, as trained so far
    train_step    forward, loss, backward, updates; for one batch, at once
    accumulate    forward, loss, backward; gradients added up in state
    apply         updates from the sum, which is cleared

`train_step` is the device's default: batch 1, no momentum, no accumulation buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Builder, Graph, Node, Type, Value, build, check, drop_unused, lookup, quant
from insitu.graph.types import s32
from insitu.training.autodiff import depend_on, differentiate
from insitu.training.prune import prune
from insitu.training.scheme import Scheme
from insitu.training.trainable import Trained, make_trainable, remerge

SCALAR = Type("f32", ())
LOSSES = {
    "cross_entropy": ("softmax_cross_entropy", "labels"),
    "soft_cross_entropy": ("soft_cross_entropy", "targets"),
    "binary_cross_entropy": ("binary_cross_entropy", "targets"),
    "mse": ("mean_squared_error", "targets"),
}


@dataclass(frozen=True)
class Recipe:
    """How parameters are updated. Rates are given at run time."""

    loss: str = "cross_entropy"
    optimizer: str = "sgd"  # sgd, momentum, adam (the last two for float parameters)
    arithmetic: str = "residual"  # of s8 weights: residual, residual4, stochastic, nearest, master
    clip: float = 0.0  # largest norm of one parameter's gradient; 0: none
    decay: float = 0.0
    momentum: float = 0.9
    nesterov: bool = False
    qas: bool = True  # quantisation-aware scaling
    seed: int = 0


def train_graphs(graph: Graph, scheme: Scheme, recipe: Recipe | None = None, *, accumulate: bool = False, **options):
    """verb -> graph. The graphs share their state."""
    recipe = recipe or Recipe()
    forward, trained = make_trainable(graph, scheme, **options)
    if not trained:
        raise GraphError("nothing to train: the scheme names no layer and the model has no head", where=graph.name)
    graphs = {"predict": drop_unused(forward)}
    if accumulate:
        graphs["accumulate"] = _accumulate_graph(forward, trained, recipe)
        graphs["apply"] = _apply_graph(trained, recipe, graphs["accumulate"])
    else:
        graphs["train_step"] = _step_graph(forward, trained, recipe)
    return {verb: check(g) for verb, g in graphs.items()}


def _step_graph(forward: Graph, trained: list[Trained], recipe: Recipe) -> Graph:
    builder, loss, logits, grads = _backward(forward, trained, recipe)
    with build(builder):
        rate = builder.input("rate", SCALAR)
        _updates(builder, [(t, grads[t.value.name]) for t in _backward_order(trained)], rate, recipe)
    return remerge(prune(builder.graph(loss, logits)))


def _backward_order(trained: list[Trained]) -> list[Trained]:
    """The last layer's gradient is there first: its update comes first."""
    return trained[::-1]


def _backward(forward: Graph, trained: list[Trained], recipe: Recipe):
    values = [t.value for t in trained]
    builder = Builder.of(with_masks(forward, {v.name for v in values}))
    logits = forward.outputs[0]
    with build(builder):
        op, target = LOSSES[recipe.loss]
        kind = s32(logits.shape[0]) if target == "labels" else logits.type
        loss = lookup(op)(logits, builder.input(target, kind), name="loss")
    grads = differentiate(builder, loss, values)
    missing = [v.name for v in values if v.name not in grads]
    if missing:
        raise GraphError("has no path to the loss, so it cannot be trained", where=f"%{missing[0]}")
    return builder, loss, logits, grads


def with_masks(graph: Graph, names: set[str]) -> Graph:
    """Ask the int8 ops on the way back to write down where they clamped."""
    reached = depend_on(graph.nodes, names)
    nodes = []
    for node in graph.nodes:
        if "mask" in node.op.defaults and any(v.name in reached for v in node.inputs):
            attrs = {**node.attrs, "mask": True}
            types = node.op.apply("infer", tuple(v.type for v in node.inputs), attrs, out=node.output.type)
            node = Node(node.op, node.inputs, (node.output, Value(f"{node.name}.mask", types[1])), attrs)
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


# updates ----------------------------------------------------------------------------------------


def _updates(builder: Builder, pairs: list[tuple[Trained, Value]], rate: Value, recipe: Recipe) -> None:
    count = first = builder.lasting("counters", np.zeros(3, np.int32))
    for t, grad in pairs:
        rule = UPDATES[_kind(t.value, recipe)]
        count = rule(builder, t, grad, rate, count, recipe)
    builder.update(first, count)


def _kind(value: Value, recipe: Recipe) -> str:
    if value.dtype == "s8":
        return recipe.arithmetic
    return "bias" if value.dtype == "s32" else recipe.optimizer


def _sgd(builder, t: Trained, grad, rate, count, recipe: Recipe):
    options = {"decay": recipe.decay if t.kind == "weight" else 0.0, "clip": recipe.clip}
    new, count = lookup("sgd")(t.value, grad, rate, count, **options, name=f"{t.value.name}.new")
    builder.update(t.value, new)
    return count


def _momentum(builder, t: Trained, grad, rate, count, recipe: Recipe):
    m = builder.lasting(f"{t.value.name}.momentum", np.zeros(t.value.shape, np.float32))
    options = {"momentum": recipe.momentum, "nesterov": recipe.nesterov, "decay": recipe.decay, "clip": recipe.clip}
    new, m_new, count = lookup("sgd_momentum")(t.value, m, grad, rate, count, **options, name=f"{t.value.name}.new")
    builder.update(t.value, new)
    builder.update(m, m_new)
    return count


def _adam(builder, t: Trained, grad, rate, count, recipe: Recipe):
    shape, name = t.value.shape, t.value.name
    m = builder.lasting(f"{name}.m", np.zeros(shape, np.float32))
    v = builder.lasting(f"{name}.v", np.zeros(shape, np.float32))
    bias = builder.lasting(f"{name}.correction", np.zeros(2, np.float32))
    options = {"decay": recipe.decay, "clip": recipe.clip}
    new, m2, v2, b2, count = lookup("adam")(t.value, m, v, bias, grad, rate, count, **options, name=f"{name}.new")
    for old, changed in ((t.value, new), (m, m2), (v, v2), (bias, b2)):
        builder.update(old, changed)
    return count


def _residual(builder, t: Trained, grad, rate, count, recipe: Recipe):
    q = t.value.type.quant
    assert q is not None  # s8 weights always have a scale
    fine = replace(t.value.type, quant=quant(np.array(q.scale) / 256, 0, q.axis))
    r = builder.lasting(f"{t.value.name}.residual", np.zeros(t.value.shape, np.int8), fine)
    options = {"clip": recipe.clip, "qas": recipe.qas}
    new, r_new, count = lookup("sgd_residual_s8")(t.value, r, grad, rate, count, **options, name=f"{t.value.name}.new")
    builder.update(t.value, new)
    builder.update(r, r_new)
    return count


def _plain_integer(op: str):
    def rule(builder, t: Trained, grad, rate, count, recipe: Recipe):
        options = {"clip": recipe.clip, "qas": recipe.qas}
        new, count = lookup(op)(t.value, grad, rate, count, **options, name=f"{t.value.name}.new")
        builder.update(t.value, new)
        return count

    return rule


UPDATES: dict[str, Callable] = {
    "sgd": _sgd,
    "momentum": _momentum,
    "adam": _adam,
    "residual": _residual,
    "nearest": _plain_integer("sgd_nearest_s8"),
    "bias": _plain_integer("sgd_bias_s32"),
}


# accumulation -----------------------------------------------------------------------------------


def _sum_name(t: Trained) -> str:
    return f"{t.value.name}.sum"


def _accumulate_graph(forward: Graph, trained: list[Trained], recipe: Recipe) -> Graph:
    builder, loss, logits, grads = _backward(forward, trained, recipe)
    with build(builder):
        for t in _backward_order(trained):
            total = builder.lasting(_sum_name(t), np.zeros(t.value.shape, np.float32))
            new = lookup("accumulate")(total, grads[t.value.name], name=f"{total.name}.new")
            builder.update(total, new)
    return remerge(prune(builder.graph(loss, logits)))


def _apply_graph(trained: list[Trained], recipe: Recipe, source: Graph) -> Graph:
    """Inputs: the rate, and one over the number of samples that were added up."""
    builder = Builder(f"{source.name}.apply")
    with build(builder):
        rate, share = builder.input("rate", SCALAR), builder.input("share", SCALAR)
        pairs = []
        for t in _backward_order(trained):
            value = builder.lasting(t.value.name, source.state[t.value.name], t.value.type)
            total = builder.lasting(_sum_name(t), source.state[_sum_name(t)])
            mean, cleared = lookup("take_sum")(total, share, name=f"{t.value.name}.grad")
            builder.update(total, cleared)
            pairs.append((replace(t, value=value), mean))
        _updates(builder, pairs, rate, recipe)
    return builder.graph()
