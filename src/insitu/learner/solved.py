"""The last layer of a network that learns quantities, solved in closed form: a ridge regression on the features that
it sees.

A linear layer with the loss mse needs no steps: its best weights follow from the samples, and with them the scale and
the offset of every output, whatever the unit of the targets. How strongly the weights are held, and to what (to zero,
to what they were, or to a multiple of it), is chosen for each output by the error on samples left out one at a time.
Whether the result is better than what was there is decided by others (settle.py), on samples held out. Nothing here
trains; the features come from the network as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from insitu.devices.host import HostDevice, open_host
from insitu.graph import Graph, Node, Value, drop_unused
from insitu.learner.feed import Feed, Source, predict_all
from insitu.ops.layout import reshape
from insitu.ops.linear import linear

HOLDS = 10.0 ** np.array([12, *range(4, -8, -1)])  # of the features' mean square; with the first, nothing moves
ALIKE, OTHER = 0.99, 0.95  # of an error: what less hold must reach, and what weights held to the old ones must
LEAST = 4  # samples
MOST = 10_000  # samples: more do not change the result by much, and take long
SURELY = 1e-9  # of its own error that a sample must leave: below, rounding is all that its error left out would show

State = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Layer:
    """A last layer y = w f + b that can be solved: float, linear, and all of it trained."""

    features: Value
    weight: Value
    bias: Value | None

    @property
    def values(self) -> tuple[Value, ...]:
        return (self.weight,) if self.bias is None else (self.weight, self.bias)


@dataclass(frozen=True, eq=False)
class Solver:
    """The last layer, the layers before it, and samples with their targets."""

    layer: Layer
    source: Source
    targets: np.ndarray  # [samples, rows, outputs]; several rows if the layer is used at several places of a sample
    body: HostDevice | None  # None: the samples are features

    def features(self, state: State) -> np.ndarray:
        """The last layer's input for each sample, [samples, rows, width], in this state of the layers before it."""
        if self.body is not None and self.body.program.state:
            known = self.body.state()
            self.body.load_arrays({name: a for name, a in state.items() if name in known})
        found = predict_all(self.body, self.source)[0] if self.body else self.source.rows[0]
        return found.reshape(*self.targets.shape[:2], -1)

    def on(self, features: np.ndarray, chosen: np.ndarray, state: State) -> dict[str, np.ndarray]:
        """The layer's weights from these samples; those of the state are what they may be held to."""
        chosen = np.random.default_rng(len(chosen)).permutation(chosen)[:MOST]
        f, y = (a[chosen].reshape(-1, a.shape[-1]).astype(np.float64) for a in (features, self.targets))
        if not np.isfinite(f).all():
            return {v.name: state[v.name] for v in self.layer.values}
        bias = self.layer.bias
        found = solve(f, y, state[self.layer.weight.name], None if bias is None else state[bias.name])
        return {v.name: a.astype(np.float32).reshape(v.shape) for v, a in zip(self.layer.values, found)}

    def left_out(self, state: State, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The outputs for samples whose layer was solved from others: (those to solve from, those to predict)."""
        features, found = self.features(state), []
        for learn, held in parts:
            weight, *bias = self.on(features, learn, state).values()
            found.append(features[held] @ weight.reshape(self.targets.shape[-1], -1).T + (bias[0] if bias else 0))
        return np.concatenate(found)

    def again(self, state: State, chosen: np.ndarray) -> dict[str, np.ndarray]:
        """The state with its last layer solved from these samples."""
        return {**state, **self.on(self.features(state), chosen, state)}


def solver_of(graph: Graph, parameters: Iterable[Value], loss: str, feed: Feed) -> Solver | None:
    """How to solve the last layer of this program (its `predict`) for these samples; None if that is impossible."""
    layer = solvable(graph, parameters) if loss == "mse" and len(feed.source) >= LEAST else None
    if layer is None or not np.isfinite(feed.labels).all():
        return None
    rows = {v.name: r[:, :1] for v, r in zip(graph.inputs, feed.source.rows)}
    stored = layer.features.name in rows
    source = Source((rows[layer.features.name],) if stored else tuple(rows.values()))
    body = None if stored else open_host(drop_unused(replace(graph, outputs=(layer.features,))))
    return Solver(layer, source, feed.labels.reshape(len(source), -1, layer.weight.shape[0]), body)


def solvable(graph: Graph, parameters: Iterable[Value]) -> Layer | None:
    """The last layer, if it is linear and in float, and nothing else uses its weights."""
    node, trained = _last(graph), {v.name for v in parameters}
    if node is None or node.op is not linear or any(v.dtype != "f32" for v in node.inputs):
        return None
    own = node.inputs[1:]
    if not {v.name for v in own} <= trained or any(len(graph.users.get(v.name, ())) > 1 for v in own):
        return None
    return Layer(node.inputs[0], own[0], own[1] if len(own) > 1 else None)


def _last(graph: Graph) -> Node | None:
    node = graph.producer.get(graph.outputs[0].name)
    while node is not None and node.op is reshape:
        node = graph.producer.get(node.inputs[0].name)
    return node


# solving ----------------------------------------------------------------------------------------


def solve(f: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> list[np.ndarray]:
    """Weights [outputs, width], and biases if there are any, for features f [n, width] and targets y [n, outputs]."""
    centre = f.mean(0) if bias is not None else np.zeros(f.shape[1])
    mean = y.mean(0) if bias is not None else np.zeros(y.shape[1])
    f, y, old = f - centre, y - mean, weight.reshape(y.shape[1], -1).astype(np.float64)
    svd = np.linalg.svd(f, full_matrices=False)
    found, best = np.zeros_like(old), np.full(len(old), np.inf)
    for times, own in _anchors(f, y, old, 1 / len(f) if bias is not None else 0.0):
        made, cost = _held(svd, y - f @ (times[:, None] * old).T, own)
        better = cost < OTHER * best
        found = np.where(better[:, None], times[:, None] * old + made, found)
        best = np.where(better, cost, best)
    return [found] if bias is None else [found, mean - found @ centre]


def _anchors(f: np.ndarray, y: np.ndarray, old: np.ndarray, own: float) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """What the weights are held to: multiples of the old ones (0, 1, and the best) for each output; with each, the
    share of its own error that every sample removes by that choice, and by the offset (`own`).
    """
    z, offset = f @ old.T, np.full_like(y, own)
    yield np.zeros(len(old)), offset
    square = np.square(z).sum(0)
    if square.any():
        yield np.ones(len(old)), offset
        yield (z * y).sum(0) / np.maximum(square, 1e-30), offset + np.square(z) / np.maximum(square, 1e-30)


def _held(svd: tuple, y: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each output the weights that fit y best when samples are left out, and the mean squared error of that.

    Of several that are about as good, those that are held most.
    """
    u, s, v = svd
    inner, squares = u.T @ y, np.square(s)
    best, share = np.full(y.shape[1], np.inf), np.zeros_like(inner)
    for hold in HOLDS * max(float(squares.mean()), 1e-30):
        part = squares / (squares + hold)
        own = known + (np.square(u) @ part)[:, None]  # the share of its own error that each sample removes
        cost = _left_out(y - u @ (part[:, None] * inner), 1 - own)
        better = cost < ALIKE * best
        share, best = np.where(better, (s / (squares + hold))[:, None], share), np.where(better, cost, best)
    return (v.T @ (share * inner)).T, best


def _left_out(error: np.ndarray, left: np.ndarray) -> np.ndarray:
    """For each output the mean squared error of samples left out, from their errors and the shares that they leave of
    them. Weights that pass through a sample leave nothing: it cannot tell them from others, so they are not chosen."""
    told = (left > SURELY).all(0)
    return np.where(told, np.square(error / np.where(left > SURELY, left, 1.0)).mean(0), np.inf)
