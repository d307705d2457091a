"""From a forward graph and a scheme to the graphs a training program runs.

    predict       forward, as trained so far
    train_step    forward, loss, backward, updates; for one whole batch
    accumulate    forward, loss, backward; gradients added up in state
    apply         updates from the sum, then clears it

`train_step` is the device's default: batch 1, no momentum, no accumulation buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from zlib import crc32

import numpy as np

from insitu.data.arguments import flag, number, one_of, whole
from insitu.errors import DataError, GraphError
from insitu.graph import Builder, Graph, Node, Op, Type, Value, build, check, drop_unused, quant
from insitu.graph.types import s32
from insitu.ops._random import first_count
from insitu.ops.dropout import count_up
from insitu.ops.loss import binary_cross_entropy, mean_squared_error, soft_cross_entropy, softmax_cross_entropy
from insitu.ops.update import accumulate, adam, guard, limit, sgd, sgd_momentum, share_rate, take_sum
from insitu.ops.update_int import (
    sgd_bias_s32,
    sgd_master_s8,
    sgd_nearest_s8,
    sgd_residual4_s8,
    sgd_residual_s8,
    sgd_stochastic_s8,
)
from insitu.schemes.scheme import Scheme
from insitu.terminal.misspelled import all_spelled
from insitu.terminal.wording import option
from insitu.training.autodiff import depend_on, differentiate
from insitu.training.integer_gradients import GRADIENTS, integer_gradients
from insitu.training.passes.mode import hold_statistics, train_mode
from insitu.training.passes.names import free_names
from insitu.training.passes.prune import prune
from insitu.training.passes.rebatch import rebatch
from insitu.training.passes.recompute import recompute
from insitu.training.trainable import Trained, make_trainable, remerge

SCALAR = Type("f32", ())
MOST_SMOOTHING = 0.9  # beyond, nothing is left of a label
SHARE = 0.1  # of the norm of the weights before training: the longest step
CLIP = 64.0  # of a classifier's gradients where that norm is zero: at batch 1, gradients of 8 to 28 are usual
CLIPS = {"mse": 0.0}  # its gradients have the unit of the targets, or its square: no number fits all of them
BODY_RATE = "body_rate"  # persistent: the share of the rate at which all layers but the head learn
LOSSES = {
    "cross_entropy": (softmax_cross_entropy, "labels"),
    "soft_cross_entropy": (soft_cross_entropy, "targets"),
    "binary_cross_entropy": (binary_cross_entropy, "targets"),
    "mse": (mean_squared_error, "targets"),
}


SHARE_OF_1 = partial(number, most=1.0)
CHECKS = {  # fields of a recipe -> what checks them
    **dict.fromkeys(("clip", "decay", "epsilon", "rate"), number),
    **dict.fromkeys(("momentum", "beta1", "beta2"), SHARE_OF_1), "smoothing": partial(number, most=MOST_SMOOTHING),
    **dict.fromkeys(("nesterov", "epsilon_early", "qas", "rows"), flag), "seed": whole,
}  # fmt: skip
SAID = {"rate": "the learning rate"}


@all_spelled
@dataclass(frozen=True)
class Recipe:
    """How parameters are updated. Rates are given at run time."""

    loss: str = "cross_entropy"
    optimizer: str = "sgd"  # sgd, momentum, adam (the last two only for float parameters)
    arithmetic: str = "residual"  # of s8 weights: residual, residual4, stochastic, nearest, master
    clip: float | None = None  # a limit of the kind below; 0: none; None: the usual one
    # "step": the longest step of a parameter, as a share of the norm of its layer's weights before training
    # "parameter": the largest norm of each parameter's gradient, in real units
    # "head": the same, but of the last weight's gradient alone, which limits the whole step
    clip_kind: str | None = None  # None: "parameter" if a clip is given, otherwise as usual_clip says
    decay: float = 0.0  # of weights, not of biases
    smoothing: float = 0.0  # of class labels: this share of each goes to all classes alike
    momentum: float = 0.9
    nesterov: bool = False
    beta1: float = 0.9  # of adam, as the next two
    beta2: float = 0.999
    epsilon: float = 1e-8
    epsilon_early: bool = False  # added before the bias correction, as Keras does; else after it, as PyTorch does
    rate: float | None = None  # that fit uses, constantly, unless it is given another one; None: it finds one
    qas: bool = True  # quantisation-aware scaling
    seed: int = 0
    grad: str | None = None  # of int8 layers: f32, or block floating s16 or s8; None: f32, on a board s16
    rows: bool = False  # the image arrives row by row and is never held as a whole (docs/streaming.md)

    def __post_init__(self) -> None:
        if self.clip_kind is None and self.clip is not None:
            object.__setattr__(self, "clip_kind", "parameter")
        for name, known in CHOICES.items():
            object.__setattr__(self, name, one_of(getattr(self, name), name, known))
        if self.clip is None and self.clip_kind is not None:
            object.__setattr__(self, "clip", SHARE if self.clip_kind == "step" else absolute_clip(self.loss))
        for name, checked in CHECKS.items():  # plain numbers of Python: others could not be saved
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checked(getattr(self, name), SAID.get(name, name)))
        _check_betas(self)
        _check_smoothing(self)


def absolute_clip(loss: str) -> float:
    """The usual limit on the norm of a gradient."""
    return CLIPS.get(loss, CLIP)


def usual_clip(recipe: Recipe, untrained: bool) -> Recipe:
    """With steps bounded by the weights, unless the user says otherwise: longer ones cost what a network knows. Random
    weights have further to go."""
    if recipe.clip_kind is not None or untrained:
        return recipe
    return replace(recipe, clip=None, clip_kind="step")


def _check_betas(recipe: Recipe) -> None:
    for name in ("beta1", "beta2"):
        if np.float32(getattr(recipe, name)) >= 1:
            raise DataError(f"{name} must be below 1, or no gradient counts", hint=f"{getattr(Recipe, name)}")


def _check_smoothing(recipe: Recipe) -> None:
    if recipe.smoothing and recipe.loss != "cross_entropy":
        raise DataError(
            f"label smoothing is for classes, and {recipe.loss} has none", hint=option(loss="cross_entropy")
        )


def has_targets(recipe: Recipe) -> bool:
    """Does the loss compare with an output to learn, and not with a class number?"""
    return recipe.loss in LOSSES and LOSSES[recipe.loss][1] == "targets"


def train_graphs(graph: Graph, scheme: Scheme, recipe: Recipe | None = None, *, accumulate: bool = False,
                 samples: int = 1, **options):  # fmt: skip
    """verb -> graph. The graphs share their state. A train_step takes `samples` at once; predict always one.

    With `accumulate`, the gradients of single samples add up. If `samples` is more than one, there is a train_step as
    well: it does the same as `accumulate` for each of its samples and `apply`, except for rounding, and that a loss
    that is not finite leaves out the whole batch.
    """
    recipe = recipe or Recipe()
    if scheme.lower and (accumulate or samples > 1):
        raise GraphError(
            "several schemes in one program take one sample per update", where=scheme.name, hint=option(batch=1)
        )
    forward, trained = make_trainable(*free_names(graph, scheme), **options)
    forward = hold_statistics(forward)
    if not trained:
        raise GraphError("nothing to train: the scheme names no layer and the model has no head", where=graph.name)
    graphs = {"predict": drop_unused(forward)}
    if accumulate:
        graphs["accumulate"] = _accumulate_graph(train_mode(forward, recipe.seed), trained, recipe)
        graphs["apply"] = _apply_graph(trained, recipe, graphs["accumulate"])
    if samples > 1 or not accumulate:
        forward = train_mode(rebatch(forward, samples) if samples > 1 else forward, recipe.seed)
        graphs["train_step"] = _step_graph(forward, trained, recipe)
        for low in scheme.lower:
            some = [t for t in trained if t.head or low.trains(t.layer, t.kind)]
            graphs[low.verb] = _step_graph(forward, some, recipe)
    return {verb: check(_arriving(g, graph.inputs[0]) if recipe.rows else g) for verb, g in graphs.items()}


def _arriving(graph: Graph, sample: Value) -> Graph:
    """The graph whose samples arrive row by row; a graph without samples stays as it is."""
    return replace(graph, by_rows=sample.name) if sample.name in {v.name for v in graph.inputs} else graph


def _step_graph(forward: Graph, trained: list[Trained], recipe: Recipe) -> Graph:
    builder, loss, logits, grads = _backward(forward, trained, recipe)
    with build(builder):
        rate, count = guard(loss, builder.input("rate", SCALAR), _counters(builder), name="guard")
        _updates(builder, [(t, grads[t.value.name]) for t in _backward_order(trained)], rate, count, recipe)
    return _finished(builder.graph(loss, logits), loss, recipe)


def _finished(graph: Graph, loss: Value, recipe: Recipe) -> Graph:
    """The graph after all clean-up: nothing is kept or computed in vain."""
    return remerge(recompute(integer_gradients(prune(graph), recipe.grad or "f32"), loss))


def _backward_order(trained: list[Trained]) -> list[Trained]:
    """The order of updates: the last layer's gradient is ready first, so its update comes first."""
    return trained[::-1]


def _backward(forward: Graph, trained: list[Trained], recipe: Recipe):
    values = [t.value for t in trained]
    builder = Builder.of(with_masks(forward, {v.name for v in values}))
    logits = forward.outputs[0]
    with build(builder):
        op, target = LOSSES[recipe.loss]
        kind = s32(logits.shape[0]) if target == "labels" else logits.type
        options = {"smoothing": recipe.smoothing} if recipe.smoothing else {}
        loss = op(logits, builder.input(target, kind), name="loss", **options)
    grads = differentiate(builder, loss, values)
    missing = [v.name for v in values if v.name not in grads]
    if missing:
        hint = f"the loss is computed from the first output, {logits.name}: name only layers that lead to it"
        raise GraphError("has no path to the loss, so it cannot be trained", where=f"%{missing[0]}", hint=hint)
    return builder, loss, logits, grads


def with_masks(graph: Graph, names: set[str]) -> Graph:
    """Make the int8 ops on the way back record where they clamped."""
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


def _counters(builder: Builder) -> Value:
    return builder.lasting("counters", np.zeros(3, np.int32))


def _updates(builder: Builder, pairs: list[tuple[Trained, Value]], rate: Value, count: Value, recipe: Recipe) -> None:
    if recipe.clip and recipe.clip_kind == "head":
        head = next((grad for t, grad in pairs if t.kind == "weight"), pairs[0][1])
        rate, count = limit(rate, head, count, clip=recipe.clip, name="limit")
    body = _body_rate(builder, [t for t, _ in pairs], rate)
    for t, grad in pairs:
        count = _rule(t.value, recipe)(builder, t, grad, rate if t.head else body, count, recipe)
    builder.update(Value("counters", count.type), count)


def _body_rate(builder: Builder, trained: list[Trained], rate: Value) -> Value:
    """The rate of all but the head: a persistent share of the rate where both are trained, at first all of it."""
    if len({t.head for t in trained}) == 1:
        return rate
    share = builder.lasting(BODY_RATE, np.ones(1, np.float32))
    return share_rate(rate, share, name="body.rate")


def _rule(value: Value, recipe: Recipe) -> Callable:
    if value.dtype == "s8":
        return ARITHMETICS[recipe.arithmetic]
    return _bias if value.dtype == "s32" else OPTIMIZERS[recipe.optimizer]


def _common(t: Trained, recipe: Recipe) -> dict:
    """The options that every update takes."""
    return {"clip": _clip(t, recipe), "decay": recipe.decay if t.kind == "weight" else 0.0}


def _clip(t: Trained, recipe: Recipe) -> float:
    """The clip of an update; negative if it bounds the step. Layers that begin with zeros have no size to compare with,
    and Adam's steps do not grow with the gradient: both have an absolute one."""
    clip = absolute_clip(recipe.loss) if recipe.clip is None else recipe.clip
    if recipe.clip_kind == "step" and clip:
        adam = recipe.optimizer == "adam" and t.value.dtype == "f32"
        return -float(np.float32(clip * t.size)) if t.size and not adam else absolute_clip(recipe.loss)
    return 0.0 if recipe.clip_kind == "head" else clip


def _changed(builder: Builder, op: Op, states: tuple[Value, ...], *inputs: Value, **options) -> Value:
    """Add an update whose first inputs and outputs are `states`; returns the counters, its last output."""
    *new, count = op(*states, *inputs, **options, name=f"{states[0].name}.new")
    for old, changed in zip(states, new):
        builder.update(old, changed)
    return count


def _sgd(builder, t: Trained, grad, rate, count, recipe: Recipe):
    return _changed(builder, sgd, (t.value,), grad, rate, count, **_common(t, recipe))


def _momentum(builder, t: Trained, grad, rate, count, recipe: Recipe):
    m = builder.lasting(f"{t.value.name}.momentum", np.zeros(t.value.shape, np.float32))
    options = {"momentum": recipe.momentum, "nesterov": recipe.nesterov, **_common(t, recipe)}
    return _changed(builder, sgd_momentum, (t.value, m), grad, rate, count, **options)


def _adam(builder, t: Trained, grad, rate, count, recipe: Recipe):
    shape, name = t.value.shape, t.value.name
    m = builder.lasting(f"{name}.m", np.zeros(shape, np.float32))
    v = builder.lasting(f"{name}.v", np.zeros(shape, np.float32))
    bias = builder.lasting(f"{name}.correction", np.zeros(2, np.float32))
    added = (0.0, recipe.epsilon) if recipe.epsilon_early else (recipe.epsilon, 0.0)
    options = {"beta1": recipe.beta1, "beta2": recipe.beta2, **dict(zip(("epsilon", "early"), added))}
    options |= _common(t, recipe)
    return _changed(builder, adam, (t.value, m, v, bias), grad, rate, count, **options)


def _bias(builder, t: Trained, grad, rate, count, recipe: Recipe):
    options = {"clip": _common(t, recipe)["clip"], "qas": recipe.qas}
    return _changed(builder, sgd_bias_s32, (t.value,), grad, rate, count, **options)


def _nearest(builder, t: Trained, grad, rate, count, recipe: Recipe):
    return _changed(builder, sgd_nearest_s8, (t.value,), grad, rate, count, qas=recipe.qas, **_common(t, recipe))


def _residual(builder, t: Trained, grad, rate, count, recipe: Recipe):
    q = t.value.type.quant
    assert q is not None  # s8 weights always have a scale
    fine = replace(t.value.type, quant=quant(np.array(q.scale) / 256, 0, q.axis))
    r = builder.lasting(f"{t.value.name}.residual", np.zeros(t.value.shape, np.int8), fine)
    options = {"qas": recipe.qas, **_common(t, recipe)}
    return _changed(builder, sgd_residual_s8, (t.value, r), grad, rate, count, **options)


def _residual4(builder, t: Trained, grad, rate, count, recipe: Recipe):
    r = builder.lasting(f"{t.value.name}.residual", np.zeros(-(-t.value.type.size // 2), np.uint8))
    options = _random_options(t, recipe)
    return _changed(
        builder, sgd_residual4_s8, (t.value, r), grad, rate, count, step_number(builder, recipe.seed), **options
    )


def _stochastic(builder, t: Trained, grad, rate, count, recipe: Recipe):
    options = _random_options(t, recipe)
    return _changed(
        builder, sgd_stochastic_s8, (t.value,), grad, rate, count, step_number(builder, recipe.seed), **options
    )


def _master(builder, t: Trained, grad, rate, count, recipe: Recipe):
    m = builder.lasting(f"{t.value.name}.master", builder.state[t.value.name].astype(np.float32))
    options = {"qas": recipe.qas, **_common(t, recipe)}
    return _changed(builder, sgd_master_s8, (t.value, m), grad, rate, count, **options)


def _random_options(t: Trained, recipe: Recipe) -> dict:
    """A parameter's random numbers depend on its name, so that another scheme draws the same ones for it."""
    stream = crc32(t.value.name.encode()) & 0x7FFFFFFF
    return {"stream": stream, "qas": recipe.qas, **_common(t, recipe)}


def step_number(builder: Builder, seed: int) -> Value:
    """The number of this step, which seeds random numbers: a persistent counter, advanced by the first caller."""
    if "step" not in builder.updates:
        step = builder.lasting("step", first_count(seed))
        builder.update(step, count_up(step, name="step.new"))
    return builder.updates["step"]


# of float parameters, and of s8 weights
OPTIMIZERS: dict[str, Callable] = {"sgd": _sgd, "momentum": _momentum, "adam": _adam}
ARITHMETICS: dict[str, Callable] = {
    "residual": _residual,
    "residual4": _residual4,
    "stochastic": _stochastic,
    "nearest": _nearest,
    "master": _master,
}
# field of a recipe -> what it may say
CHOICES = {
    "loss": tuple(LOSSES),
    "optimizer": tuple(OPTIMIZERS),
    "arithmetic": tuple(ARITHMETICS),
    "clip_kind": (None, "step", "parameter", "head"),
    "grad": (None, *GRADIENTS),
}


# accumulation -----------------------------------------------------------------------------------


def _sum_name(t: Trained) -> str:
    return f"{t.value.name}.sum"


def _accumulate_graph(forward: Graph, trained: list[Trained], recipe: Recipe) -> Graph:
    """A sample whose loss is not finite is left out of the sums, and counted."""
    builder, loss, logits, grads = _backward(forward, trained, recipe)
    with build(builder):
        counters = _counters(builder)
        gate, count = guard(loss, builder.constant("one", np.float32(1)), counters, name="guard")
        builder.update(counters, count)
        for t in _backward_order(trained):
            total = builder.lasting(_sum_name(t), np.zeros(t.value.shape, np.float32))
            new = accumulate(total, grads[t.value.name], gate, name=f"{total.name}.new")
            builder.update(total, new)
    return _finished(builder.graph(loss, logits), loss, recipe)


def _apply_graph(trained: list[Trained], recipe: Recipe, source: Graph) -> Graph:
    """The inputs are the rate, and one over the number of samples that were added up."""
    builder = Builder(f"{source.name}.apply")
    with build(builder):
        rate, share = builder.input("rate", SCALAR), builder.input("share", SCALAR)
        pairs = []
        for t in _backward_order(trained):
            value = builder.lasting(t.value.name, source.state[t.value.name], t.value.type)
            total = builder.lasting(_sum_name(t), source.state[_sum_name(t)])
            mean, cleared = take_sum(total, share, name=f"{t.value.name}.grad")
            builder.update(total, cleared)
            pairs.append((replace(t, value=value), mean))
        _updates(builder, pairs, rate, _counters(builder), recipe)
    return builder.graph()
