"""How fast a network can learn, measured: learning rates that fit its features and layers, whatever their scale.

An update with the gradient g of one sample changes that sample's own outputs by about rate * K * e, where e is the
loss's slope at the outputs and K = |g|^2 / |e|^2, the gain. For a head on features f, K is |f|^2 + 1. A step is well
sized if rate * K * (the loss's curvature) is about one half, so rate = 1 / (2 K curvature). The gains of the head and
of the layers before it are measured apart, on any device: one update of one sample, and the difference of the state.
Nothing here trains for longer or compares results (trials.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from insitu.devices.device import STEP, Arrays, Device, method_of, run_step
from insitu.graph import Graph, Value
from insitu.ops.block_update import sgd_bias_block_s32, sgd_residual_block_s8
from insitu.ops.update import adam, sgd, sgd_momentum
from insitu.ops.update_int import (
    sgd_bias_s32,
    sgd_master_s8,
    sgd_nearest_s8,
    sgd_residual4_s8,
    sgd_residual_s8,
    sgd_stochastic_s8,
)
from insitu.training.head import HEAD
from insitu.training.train import BODY_RATE, Recipe

UPDATES = (
    sgd, sgd_momentum, adam, sgd_bias_s32, sgd_residual_s8, sgd_residual4_s8, sgd_stochastic_s8, sgd_nearest_s8,
    sgd_master_s8, sgd_bias_block_s32, sgd_residual_block_s8,
)  # fmt: skip
BESIDE = ("residual", "momentum", "m", "v", "correction", "master", "sum")
FINE, COARSE = 0.3, 100.0  # rate * K of a measuring step: with a fraction beside the weights, and without
BOLD = 3.0  # times the derived rate: a classifier's
ADAM = 3e-3
PROBE = 1e-3  # the rate of the first measuring step
TRIES = 6  # measuring steps to find their size
LARGER, LARGEST = 1e4, 1e4  # times the rate if nothing moved, and where to give that up


@dataclass(frozen=True)
class Gains:
    """The effect of a step with rate 1 on a sample's own outputs, through the head and through the other layers."""

    head: float  # of everything that learns at the rate itself
    body: float = 0.0  # of what learns at a share of it


@dataclass(frozen=True)
class Rates:
    """Learning rates: of the head (or of everything, if only one kind of layer is trained), and of the body."""

    head: float
    body: float | None = None

    @property
    def share(self) -> float:
        """The body's rate in the form that the program takes."""
        return 1.0 if self.body is None else self.body / self.head if self.head else 0.0

    def times(self, head: float, body: float) -> Rates:
        return Rates(self.head * head, None if self.body is None else self.body * body)

    @property
    def alone(self) -> Rates:
        """The same for the head, and nothing for the layers before it."""
        return Rates(self.head, 0.0)

    def __str__(self) -> str:
        head = _digits(self.head)
        if self.body == 0:
            return f"rate {head} of the head alone"
        return f"rate {head}" if self.body is None else f"rate {_digits(self.body)} (head {head})"


def _digits(rate: float) -> str:
    """Two digits: 0.0029, 210."""
    return f"{float(f'{rate:.2g}'):g}"


# slopes of the losses ---------------------------------------------------------------------------


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _class_slope(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    p = softmax(z.reshape(len(y), -1))
    p[np.arange(len(y)), y] -= 1
    return p / len(y)


def _smoothed(slope: np.ndarray, y: np.ndarray, smoothing: float) -> np.ndarray:
    """The slope of a classifier's loss if a share of each label goes to all classes alike."""
    label = np.eye(slope.shape[1])[y]
    return slope + smoothing * (label - 1 / slope.shape[1]) / len(y)


def _target_slope(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (softmax(z.reshape(len(y), -1)) - y.reshape(len(y), -1)) / len(y)


# loss -> (its slope at the outputs, its largest curvature there for this many samples and outputs)
SLOPES: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], Callable[[int, int], float]]] = {
    "cross_entropy": (_class_slope, lambda samples, size: 0.5 / samples),
    "soft_cross_entropy": (_target_slope, lambda samples, size: 0.5 / samples),
    "binary_cross_entropy": (lambda z, y: (1 / (1 + np.exp(-z)) - y) / z.size, lambda samples, size: 0.25 / size),
    "mse": (lambda z, y: 2 * (z - y) / z.size, lambda samples, size: 2 / size),
}


# measuring --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Probe:
    """Measures gains on a device: `parameters` are the persistent values that it trains."""

    device: Device
    parameters: tuple[Value, ...]
    loss: str
    smoothing: float = 0.0  # of labels
    deeper: bool = True  # are there other layers, which another scheme would train?

    def gains(self, state: Mapping[str, np.ndarray], samples: Iterable[tuple[np.ndarray, ...]]) -> Gains:
        """The gains from this state over some samples (inputs, then label or target); the state is restored.

        Head and body are measured at steps of their own size: their gains may differ by many orders.
        """
        base = {**state, **self._cleared(state)}
        samples, rates = list(samples), Rates(PROBE, PROBE if BODY_RATE in state else None)
        wanted = COARSE if self._coarse(state) else FINE
        for _ in range(TRIES):
            found = self._measured(base, samples, rates)
            better = Rates(_fit(rates.head, found.head, wanted), rates.body and _fit(rates.body, found.body, wanted))
            if better == rates:
                break
            rates = better
        self.device.load_arrays(state)
        return found

    def _cleared(self, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """No memory of earlier steps."""
        kept = {f"{v.name}.{word}" for v in self.parameters for word in ("momentum", "sum")}
        return {name: np.zeros_like(state[name]) for name in kept if name in state}

    def _coarse(self, state: Mapping[str, np.ndarray]) -> bool:
        """Are steps below one unit of a weight lost, or rounded at random?"""
        weights = [v for v in self.parameters if v.dtype == "s8"]
        return any(_fraction(state, v) is None and f"{v.name}.sum" not in state for v in weights)

    def _measured(self, base: Mapping[str, np.ndarray], samples: list[Arrays], rates: Rates) -> Gains:
        squares = {True: 0.0, False: 0.0}
        slopes, apart = 0.0, rates.body is not None
        base = {**base, **({BODY_RATE: np.array([rates.share], np.float32)} if apart else {})}
        was = {v.name: real(base, v) for v in self.parameters}
        for sample in samples:
            self.device.load_arrays(base)
            slopes += self._slope(sample, rates.head)
            now = self.device.state()
            for v in self.parameters:
                head = not apart or v.name.startswith(f"{HEAD}.")
                step = _step(now, v, was[v.name], rates.head if head else rates.head * np.float32(rates.share))
                squares[head] += float(np.square(step).sum())
        outputs = method_of(self.device.verbs).outputs[0]
        per = SLOPES[self.loss][1](outputs.shape[0] if outputs.shape else 1, max(outputs.type.size, 1))
        scale = 2 * per / max(slopes, 1e-30)
        return Gains(squares[True] * scale, squares[False] * scale)

    def _slope(self, sample: Arrays, rate: float) -> float:
        """Make one update with these samples; returns the square of the loss's slope just before."""
        method = method_of(self.device.verbs)
        if method.adds_up:
            _, out, *_ = self.device.run(method.verb, *sample)
        else:
            _, out, *_ = run_step(self.device, STEP, *sample, np.float32(rate))
        out = np.asarray(out, np.float64)
        slope = SLOPES[self.loss][0](out, sample[-1])
        return float(np.square(_smoothed(slope, sample[-1], self.smoothing) if self.smoothing else slope).sum())


def _fit(rate: float, gain: float, wanted: float) -> float:
    """The rate of the next measuring step: the same, if this one was neither too small nor too large."""
    if not gain:
        return rate * LARGER if rate < LARGEST else rate
    return rate if wanted / 10 <= rate * gain <= wanted * 10 else wanted / gain


def _fraction(state: Mapping[str, np.ndarray], v: Value) -> np.ndarray | None:
    """What is stored of a weight beside its integer: a copy in its unit, or its fraction."""
    if f"{v.name}.master" in state:
        return state[f"{v.name}.master"].astype(np.float64)
    kept = state.get(f"{v.name}.residual")
    return None if kept is None or kept.shape != v.shape else state[v.name] + kept / 256.0


def real(state: Mapping[str, np.ndarray], v: Value) -> np.ndarray:
    """A parameter in real units."""
    fine = _fraction(state, v)
    whole = state[v.name].astype(np.float64) if fine is None else fine
    return whole if v.type.quant is None else whole * v.type.quant.scales(v.type.rank)


def _step(now: Mapping[str, np.ndarray], v: Value, was: np.ndarray, rate: float) -> np.ndarray:
    """The gradient of a parameter, from its values before and after."""
    total = now.get(f"{v.name}.sum")
    return (real(now, v) - was) / rate if total is None else total.astype(np.float64)


def derived(gains: Gains, recipe: Recipe, head: bool) -> Rates:
    """The rates for these gains; `head`: are the first gains those of a classifier?

    Where a softmax is sure of a class, its curvature is far below the bound, so a head on fixed features can and should
    learn a few times faster. Adam divides by the gradient's size and needs no gain.
    """
    if recipe.optimizer == "adam":
        return Rates(ADAM, ADAM if gains.body else None)
    usual = 1 - recipe.momentum if recipe.optimizer == "momentum" else 1.0
    bold = BOLD if head and recipe.loss in ("cross_entropy", "soft_cross_entropy") else 1.0
    return Rates(bold * usual / max(gains.head, 1e-30), usual / gains.body if gains.body else None)


def trained_values(graphs: Mapping[str, Graph]) -> tuple[Value, ...]:
    """The persistent values that a program's updates change."""
    nodes = [node for g in graphs.values() for node in g.nodes]
    return tuple(node.inputs[0] for node in nodes if node.op in UPDATES)


def parameters_of(fields: Iterable[Value]) -> tuple[Value, ...]:
    """The trained persistent values, identified by their names: no counters, and nothing stored beside a weight."""
    values = tuple(fields)
    chosen = trained_names(v.name for v in values)
    return tuple(v for v in values if v.name in chosen)


def trained_names(names: Iterable[str]) -> set[str]:
    """The names of trained persistent values among those of a state."""
    known = set(names)
    beside = {f"{name}.{word}" for name in known for word in BESIDE}
    return known - beside - {"counters", "step", "dropout.counter", BODY_RATE}
