"""Gradients against differences: are the gradients of a training graph really the slopes of its loss?

    float_gradients   parameters whose path to the loss is all float: central differences of the loss, in float64
    int8_rules        each int8 op's gradient rule, at the inputs it really sees: central differences of its surrogate
    int8_gradients    each trained tensor of an int8 graph: a random direction carried forward through the
                      surrogates of all ops, to the loss; no gradient rule is involved
    surrogates        the surrogates themselves: within one step of the integers

Everything here is numpy on graphs; program.py checks the C.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from insitu.graph import Builder, Graph, Node, Value, build, evaluate
from insitu.ops.activation import lut_s8
from insitu.ops.norm import softmax_s8
from insitu.proof.findings import Finding, largest
from insitu.proof.surrogate import edges, has_surrogate, moved, real, reals, softmax_moved, surrogate
from insitu.training.autodiff import depend_on

CLOSENESS = 1e-4  # of gradients
FLOOR = 1e-3  # of the network's largest gradient
FLOATS = ("f32", "f64")
STEP = 4e-6
POINTS = 4  # the point of the parameters, and others close to it
AWAY = 0.02  # how far away, in units of one and of a parameter's own spread
TRIES = 8  # elements or directions to try until one is away from kinks


@dataclass(frozen=True, eq=False)
class Run:
    """A training graph run on one input: every value, in float64 unless it is an integer."""

    graph: Graph
    env: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, graph: Graph, feeds, state=None) -> Run:
        env: dict = evaluate(graph, *feeds, precision=np.float64, keep=True, state=state)  # type: ignore[assignment]
        return cls(graph, env)

    @property
    def loss(self) -> Value:
        return self.graph.outputs[0]

    @cached_property
    def forward(self) -> tuple[Node, ...]:
        """The nodes that compute the loss."""
        wanted, found = {self.loss.name}, []
        for node in reversed(self.graph.nodes):
            if any(v.name in wanted for v in node.outputs):
                wanted.update(v.name for v in node.inputs)
                found.append(node)
        return tuple(found[::-1])

    @cached_property
    def gradients(self) -> dict[str, Value]:
        """Trained parameter -> its gradient: the input of its update that follows the state."""
        found = {}
        lasting = set(self.graph.state)
        for name, new in self.graph.updates.items():
            node = self.graph.producer.get(new.name)
            if node is None or not node.op.overwrites or node.inputs[0].name not in (name, f"{name}.sum"):
                continue
            grad = next((v for v in node.inputs if v.name not in lasting), None)
            target = name.removesuffix(".sum")
            if grad is not None and grad.dtype in FLOATS and grad.shape == self.graph.values[name].shape:
                found[target] = grad
        return found

    def trained(self) -> dict[str, Value]:
        """Trained parameters that the forward pass reads."""
        read = {v.name: v for node in self.forward for v in node.inputs}
        return {name: read[name] for name in self.gradients if name in read}

    def gradient(self, name: str) -> np.ndarray:
        return self.env[self.gradients[name].name]

    @cached_property
    def largest(self) -> float:
        return max((largest(self.gradient(name)) for name in self.gradients), default=0.0)

    def after(self, name: str) -> list[Node]:
        """The forward nodes that depend on this value."""
        reached = depend_on(self.forward, {name})
        return [n for n in self.forward if any(v.name in reached for v in n.inputs)]


# float ------------------------------------------------------------------------------------------


def float_gradients(run: Run, seed: int = 0) -> Iterator[Finding]:
    """For each float parameter: the largest element of its gradient, and a random direction over all elements."""
    rng, points = np.random.default_rng(seed), Points(run, seed)
    for name, value in run.trained().items():
        nodes = run.after(name)
        if value.dtype in FLOATS and not any(map(_rounds, nodes)):
            yield from (_one_way(points, name, way, nodes, rng) for way in WAYS)


def _rounds(node: Node) -> bool:
    """Does it turn real numbers into integers? Then the loss has steps, and no slope."""
    return any(v.type.quant is not None for v in node.outputs)


def _largest(gradient: np.ndarray, i: int, rng) -> np.ndarray:
    order = np.argsort(-np.abs(gradient), axis=None)[:TRIES]
    return np.eye(1, gradient.size, int(order[i % order.size])).reshape(gradient.shape)


def _direction(gradient: np.ndarray, i: int, rng) -> np.ndarray:
    return rng.normal(size=gradient.shape) / np.sqrt(gradient.size)


WAYS = {"largest": _largest, "direction": _direction}


def _one_way(points: Points, name: str, way: str, nodes: list[Node], rng) -> Finding:
    """The first try that is away from kinks: where the parameters are, else close by."""
    for run in points:
        gradient = run.gradient(name)
        for i in range(TRIES):
            d = WAYS[way](gradient, i, rng)
            slope, noise = _slope(run, name, d, nodes)
            if slope is not None:
                found = _along(f"{name}, {way}", gradient, d, slope, FLOOR * run.largest)
                return Finding(found.where, found.error, found.allowed + noise)
    return Finding(f"{name}, {way}: a kink wherever it was tried", np.nan, 0.0)


class Points:
    """The run, then runs with all float parameters moved a little.

    Parameters may lie where the loss has a kink in every direction: a ReLU of zeros (a black background, a bias of
    zero), activations that are almost zero because the network was never trained, one unit that happens to be close.
    """

    def __init__(self, run: Run, seed: int):
        self.runs, self.rng = [run], np.random.default_rng((seed, 1))

    def __iter__(self) -> Iterator[Run]:
        for i in range(POINTS):
            if i == len(self.runs):
                self.runs.append(self._moved(self.runs[0]))
            yield self.runs[i]

    def _moved(self, run: Run) -> Run:
        state = {name: run.env[name] for name in run.graph.state}
        for name, value in run.trained().items():
            if value.dtype in FLOATS:
                step = AWAY * (1 + float(np.std(state[name])))
                state[name] = (state[name] + step * self.rng.normal(size=value.shape)).astype(np.float32)
        return Run.of(run.graph, [run.env[v.name] for v in run.graph.inputs], state)


def _slope(run: Run, name: str, d: np.ndarray, nodes: list[Node]) -> tuple[float | None, float]:
    """The slope of the loss along d, and how far float64 can be off; None if there is a kink nearby.

    Steps of different length agree where the loss is smooth, and differ if one of them crosses a kink. Both see a
    kink that is exactly here, but then the slopes before and after it differ, however short the steps.
    """
    size = sum(v.type.size for n in nodes for v in n.outputs)
    h = STEP / max(1.0, size / 1e5)  # the more activations, the more of them are close to a kink
    here = float(run.env[run.loss.name])
    ahead, behind, after, before = (_loss_at(run, name, s * d, nodes) for s in (h, -h, h / 8, -h / 8))
    long, short = (ahead - behind) / (2 * h), (after - before) / (h / 4)
    noise = 1e-15 * max(1.0, abs(here)) / (h / 8)
    scale = max(abs(short), FLOOR * run.largest)
    agree = abs(long - short) <= CLOSENESS / 4 * scale + noise
    bends = [(ahead - 2 * here + behind) / h, (after - 2 * here + before) / (h / 8)]
    kink = (8 * bends[1] - bends[0]) / 7  # a curve bends an eighth as much over an eighth of the way, a kink as much
    return (short if agree and abs(kink) <= CLOSENESS / 2 * scale + 2 * noise else None), noise


def _loss_at(run: Run, name: str, move: np.ndarray, nodes: list[Node]) -> float:
    env = {**run.env, name: run.env[name] + move}
    for node in nodes:
        results = node.rule("eval", *(env[v.name] for v in node.inputs))
        env.update(zip((v.name for v in node.outputs), results if isinstance(results, tuple) else (results,)))
    return float(env[run.loss.name])


# int8, op by op ---------------------------------------------------------------------------------


def on_the_way(run: Run) -> list[Node]:
    """The int8 ops that gradients pass through."""
    reached = depend_on(run.forward, set(run.trained()))
    return [n for n in run.forward if has_surrogate(n) and any(v.name in reached for v in n.inputs)]


def surrogates(run: Run) -> Iterator[Finding]:
    """Errors in steps of the output's scale. A table is curved: half of its sharpest bend is allowed in addition."""
    for node in on_the_way(run):
        out = node.output
        if out.type.quant is None or out.type.quant.per_channel:
            continue
        found = surrogate(node, reals(node, _inputs(run, node)))[0]
        gap = np.abs(found - real(run.env[out.name], out.type)) / out.type.scale
        allowed = 1.01
        if node.op is lut_s8:
            allowed += float(np.max(np.abs(np.diff(run.env[node.inputs[1].name].astype(int), 2)))) / 2
        yield Finding(node.name, float(np.max(gap)), allowed)


def int8_rules(run: Run, seed: int = 0) -> Iterator[Finding]:
    """<gradient that the rule gives for random g, random direction> against <g, difference along the direction>."""
    rng = np.random.default_rng(seed)
    for node in on_the_way(run):
        values = reals(node, _inputs(run, node))
        outputs = [v for v in node.outputs if v.dtype != "u8"]
        g = [rng.normal(size=v.shape) for v in outputs]
        for k, v in enumerate(node.inputs):
            if v.dtype not in ("s8", "s32", *FLOATS) or (node.op is lut_s8 and k):
                continue
            moves: list = [None] * len(values)
            moves[k] = direction(v, rng)
            differences, near = _moved_in(run, node, values, moves)
            kept = [np.where(near, 0, g[0]), *g[1:]]
            gradient = rule_gradients(run, node, kept)[k]
            if gradient is None:
                continue
            slope = sum(float(np.sum(a * b)) for a, b in zip(kept, differences))
            yield _along(f"{node.name} ({node.op.name}), input {k}", gradient, moves[k], slope)


def _inputs(run: Run, node: Node) -> list[np.ndarray]:
    return [run.env[v.name] for v in node.inputs]


def direction(value: Value, rng) -> np.ndarray:
    """A random direction, each element in the scale of its own channel."""
    q = value.type.quant
    return rng.normal(size=value.shape) * (q.scales(value.type.rank) if q else 1.0)


def _along(where: str, gradient: np.ndarray, direction: np.ndarray, slope: float, floor: float = 0.0) -> Finding:
    """Compares along the direction; the tolerance is relative to the typical slope along a random direction."""
    parts = gradient * direction
    size = float(np.sqrt(np.sum(parts * parts)))
    return Finding(where, abs(float(np.sum(parts)) - slope), CLOSENESS * max(size, floor) + 1e-13)


def rule_gradients(run: Run, node: Node, g: list[np.ndarray]) -> list[np.ndarray | None]:
    """The gradient of each input by the op's own rule, evaluated in float64."""
    builder = Builder("rule")
    feeds = []
    for v in {v.name: v for v in node.inputs}.values():
        builder._define(v.name, v.type)
        if v.name in run.graph.constants:
            builder.constants[v.name] = run.graph.constants[v.name]
        else:
            builder.inputs.append(v)
            feeds.append(run.env[v.name])
    for v in node.outputs:
        builder._define(v.name, v.type)
    builder.append(node)
    with build(builder):
        outputs = [v for v in node.outputs if v.dtype != "u8"]
        given = [builder.input(f"g:{i}", Value("g", v.type.with_dtype("f32")).type) for i, v in enumerate(outputs)]
        many = len(node.outputs) > 1
        up = (*given, *(None for _ in node.outputs[len(given) :])) if many else given[0]
        results = node.rule("grad", up, node.outputs if many else node.output, *node.inputs)
    results = results if isinstance(results, tuple) else (results,)
    wanted = [r for r in results if r is not None]
    env = evaluate(builder.graph(*wanted), *feeds, *g, precision=np.float64, keep=True)
    return [None if r is None else env[r.name] for r in results] + [None] * (len(node.inputs) - len(results))


# int8, end to end -------------------------------------------------------------------------------


def int8_gradients(run: Run, seed: int = 0) -> Iterator[Finding]:
    """<gradient, random direction> against that direction carried forward to the loss."""
    rng = np.random.default_rng(seed)
    quantised = [n for n, v in run.trained().items() if v.type.quant is not None or v.dtype == "s32"]
    found = []
    for name in quantised:
        value = run.trained()[name]
        d = direction(value, rng)
        found.append((name, d, carried(run, name, d)))
    floor = FLOOR * max((float(np.linalg.norm(run.gradient(n) * d)) for n, d, _ in found), default=0.0)
    for name, d, slope in found:
        yield _along(name, run.gradient(name), d, slope, floor)


def carried(run: Run, name: str, d: np.ndarray) -> float:
    """The slope of the loss along a direction of one parameter: forward through the surrogates."""
    moving = {name: d}
    for node in run.after(name):
        moves = [moving.get(v.name) for v in node.inputs]
        values = reals(node, _inputs(run, node))
        differences, near = _moved_in(run, node, _typed(node, values), moves)
        if near.any():
            differences[0] = _as_written(run, node, values, moves, differences[0], near)
        outputs = [v for v in node.outputs if v.dtype != "u8"]
        moving.update({v.name: m for v, m in zip(outputs, differences)})
    return float(moving[run.loss.name])


def _moved_in(run: Run, node: Node, values, moves) -> tuple[list[np.ndarray], np.ndarray]:
    """`moved`, from the shares that were written where the gradient has only those."""
    if node.op is not softmax_s8 or moves[0] is None:
        return moved(node, values, moves)
    shares = real(run.env[node.output.name], node.output.type)
    return [softmax_moved(shares, moves[0])], np.zeros(node.output.shape, bool)


def _typed(node: Node, values: list[np.ndarray]) -> list[np.ndarray]:
    """The values with their types: integers that stand for themselves (labels, counters) stay integers."""
    plain = ("s32", "s64", "u8", "b1")
    return [
        x.astype(v.type.numpy) if v.dtype in plain and v.type.quant is None and not has_surrogate(node) else x
        for v, x in zip(node.inputs, values)
    ]


def _as_written(run: Run, node: Node, values, moves, found: np.ndarray, near: np.ndarray) -> np.ndarray:
    """If only rounding decides whether an element was clamped, use the mask that the op wrote."""
    if len(node.outputs) < 2:
        return found
    free = Node(node.op, node.inputs, node.outputs, {**node.attrs, "lo": -(10**6), "hi": 10**6})
    without = moved(free, values, moves)[0][0] if edges(node) else found
    rows = run.env[node.outputs[1].name]
    bits = np.unpackbits(rows, axis=1, count=node.output.shape[-1] if node.output.shape else 1, bitorder="little")
    return np.where(near, without * bits.reshape(found.shape), found)
