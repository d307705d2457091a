"""Do updates move the real parameter correctly? Each update op of a graph is run with a made-up gradient.

Whatever the arithmetic, the parameter must move by `rate * factor * gradient` in real units (`factor` from the clip),
to within the rounding of its arithmetic. Updates with memory (momentum, Adam) are run for some steps from their initial
state, and compared with sums and means over all gradients so far, computed from scratch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from insitu.graph import Graph, Node, Type
from insitu.ops.update import adam, sgd, sgd_momentum
from insitu.ops.update_int import (
    sgd_bias_s32,
    sgd_master_s8,
    sgd_nearest_s8,
    sgd_residual4_s8,
    sgd_residual_s8,
    sgd_stochastic_s8,
    unpack4,
)
from insitu.proof.findings import Finding

LONGEST = 4.0  # the longest made-up step, in integers
WALK = 4  # steps of an update with memory
# update -> how far rounding may leave the parameter from where it should be, in integers
ROUNDING = {
    sgd_nearest_s8: 1 / 2,
    sgd_stochastic_s8: 1.0,
    sgd_residual_s8: 1 / 512,
    sgd_residual4_s8: 1 / 16,
    sgd_master_s8: 1 / 2,
    sgd_bias_s32: 1 / 2,
    sgd: 0.0,
}


def real_steps(graph: Graph, state: Mapping[str, np.ndarray], seed: int = 0) -> Iterator[Finding]:
    """The error of each update in integers (of a float parameter: in quarters of its longest step)."""
    rng = np.random.default_rng(seed)
    for node in graph.nodes:
        check = _stepped if node.op in ROUNDING else _walked if node.op in REMEMBERING else None
        if check:
            clip = abs(node.attrs["clip"])
            for norm in (clip / 2, clip * 4) if clip else (1.0,):
                yield check(node, state, norm, rng)


def _stepped(node: Node, state: Mapping[str, np.ndarray], norm: float, rng) -> Finding:
    w = node.inputs[0].type
    unit = w.quant.scales(w.rank) if w.quant else np.ones(())
    g = rng.normal(size=w.shape) * unit
    g = (g * norm / np.linalg.norm(g)).astype(np.float32).astype(np.float64)
    due = _factor(node, g) * g
    due = due if node.attrs.get("qas", True) else due * unit * unit
    rate = _rate(node, due / unit)
    before, after = _run(node, state, g, rate)
    decay = node.attrs.get("decay", 0.0) * before
    wanted = before - float(rate) * (due / unit + decay)
    inside = np.abs(wanted) < 126 if w.dtype == "s8" else np.ones(w.shape, bool)
    error = float(np.max(np.abs(after - wanted)[inside], initial=0.0))
    clipped = ", clipped" if _factor(node, g) < 1 else ""
    longest = max(LONGEST, float(np.max(np.abs(wanted - before))))
    allowed = ROUNDING[node.op] + 1e-4 * longest + _last_bit(w, before)
    return Finding(f"{node.inputs[0].name} ({node.op.name}{clipped})", error, allowed)


def _factor(node: Node, g: np.ndarray) -> float:
    """What the clip leaves of a gradient; of a step, at the rate of one, if it is negative."""
    clip = abs(node.attrs["clip"])
    return min(1.0, clip / float(np.linalg.norm(g))) if clip else 1.0


def _rate(node: Node, step: np.ndarray) -> np.float32:
    """The rate at which this step is the longest one; one, if the clip bounds steps and not gradients."""
    return np.float32(1.0 if node.attrs["clip"] < 0 else LONGEST / np.max(np.abs(step)))


# updates with memory -----------------------------------------------------------------------------


def momentum_step(w: np.ndarray, gradients: list[np.ndarray], momentum: float, nesterov: bool, **_) -> np.ndarray:
    """The sum of all gradients so far, with smaller weights for older ones; with nesterov, the sum one step ahead."""
    total = np.sum([g * momentum**age for age, g in enumerate(reversed(gradients))], axis=0)
    return gradients[-1] + momentum * total if nesterov else total


def adam_step(w: np.ndarray, gradients: list[np.ndarray], beta1: float, beta2: float, epsilon: float, decay: float,
              early: float, **_) -> np.ndarray:  # fmt: skip
    """The mean of the gradients over the root of the mean of their squares, with smaller weights for older ones."""
    ages = np.arange(len(gradients))[::-1]
    mean = np.average(gradients, axis=0, weights=beta1**ages)
    square = np.average(np.square(gradients), axis=0, weights=beta2**ages)
    added = epsilon + early / np.sqrt(1 - beta2 ** len(gradients))
    return mean / (np.sqrt(square) + added) + decay * w


# update -> the expected step for a rate of one; whether weight decay is part of the gradient
REMEMBERING = {sgd_momentum: (momentum_step, True), adam: (adam_step, False)}


def _walked(node: Node, state: Mapping[str, np.ndarray], norm: float, rng) -> Finding:
    """The largest error over some steps from the initial state."""
    due, coupled = REMEMBERING[node.op]
    w, clip, decay = node.inputs[0], abs(node.attrs["clip"]), node.attrs["decay"]
    lasting = [np.zeros(v.shape, np.float32) for v in node.inputs[1 : len(node.outputs) - 1]]
    here, gradients, error = state[w.name].astype(np.float64), [], 0.0
    given = [here.astype(np.float32), *lasting]
    for _ in range(WALK):
        g = rng.normal(size=w.shape)
        g = (g * norm / np.linalg.norm(g)).astype(np.float32)
        gradients.append(_factor(node, g) * g.astype(np.float64) + (decay * here if coupled else 0.0))
        step = due(here, gradients, **node.attrs)
        rate = _rate(node, step)
        results = node.rule("eval", *given, g, rate, np.zeros(3, np.int32))
        given, here = list(results[:-1]), here - float(rate) * step
        error = max(error, float(np.max(np.abs(given[0] - here), initial=0.0)))
    clipped = ", clipped" if clip and norm > clip else ""
    longest = max(LONGEST, float(np.max(np.abs(here - state[w.name]))))
    allowed = WALK * (1e-4 * longest + _last_bit(w.type, state[w.name]))
    return Finding(f"{w.name} ({node.op.name}{clipped}, {WALK} steps)", error, allowed)


# -------------------------------------------------------------------------------------------------


def _last_bit(type: Type, w: np.ndarray) -> float:
    """What float32 rounds off the largest of these parameters, however short the step; integers have a unit of their
    own."""
    return float(np.max(np.abs(w), initial=0.0)) * 2.0**-23 if type.dtype == "f32" else 0.0


def _run(node: Node, state: Mapping[str, np.ndarray], g: np.ndarray, rate: np.float32):
    """The parameter before and after an update, in integers with their fractions."""
    given: list = [state.get(v.name) for v in node.inputs]
    at = next(i for i, v in enumerate(node.inputs) if v.name not in state)
    given[at], given[at + 1], given[at + 2] = g.astype(np.float32), rate, np.zeros(3, np.int32)
    for i, v in enumerate(node.inputs):
        if given[i] is None:
            given[i] = np.ones(v.shape, v.type.numpy)  # the number of the step: any value works
    results = node.rule("eval", *given)
    return _whole(node, given), _whole(node, results)


def _whole(node: Node, arrays) -> np.ndarray:
    w = np.asarray(arrays[0], np.float64)
    if node.op is sgd_residual_s8:
        return w + arrays[1] / 256.0
    if node.op is sgd_residual4_s8:
        return w + unpack4(arrays[1], w.shape) / 16.0
    return w
