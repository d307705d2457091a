"""How far float32 may be off: in small differences of large numbers, and in integers that follow from floats.

The gradient of a loss is a difference: of a probability and one, of an output and its target. For a well-known sample
this difference is small, and float32 rounds the terms, not the difference: with p = 1 - 1e-6, the gradient p - 1 is
only right to 6 %. Every later gradient is linear in this one, so a bound on its error is carried through the backward
pass, once with all signs positive (exact for the sum of a batch) and a few times with random signs.

Integers may follow from floats: int8 values behind a layer that stays in float, such as a group norm, and the first of
the integer gradients. A float near a rounding boundary may go either way, and everything after it with it. So the step
is computed a few times with these floats moved a little.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from insitu.graph import Node
from insitu.ops import loss
from insitu.ops.block import to_block
from insitu.ops.quant import quantize
from insitu.proof.differences import Run
from insitu.proof.findings import largest
from insitu.training.autodiff import depend_on

LAST_BITS = 2.0**-21  # share of a term: eight times the rounding of one operation
FORWARD = 1e-5  # share of the largest output of a network that float32 may be off by
DRAWS = 3  # of random signs
# Of a parameter's largest gradient, how far the C's float32 may be from float64 over a whole step of an int8 network.
# Measured on MLPerf Tiny's kws_dscnn, trained in full: at most 8.1e-7, which at steps of up to 204,556 units of 1/256
# lets 13.8, 5.3 and 1.2 of 21,824 integers be expected to round the other way in the first steps; 11, 4 and 2 did.
GRADIENT = 1e-5
ROUNDED = (quantize, to_block)  # floats to integers

Terms = tuple[np.ndarray, np.ndarray]  # the sum of both terms' magnitudes; the gradient's derivative by the output


def softmax_terms(x: np.ndarray, target: np.ndarray) -> Terms:
    p = np.exp(loss.log_probabilities(x))
    if target.shape != x.shape:  # class numbers; one that is not a class has no row in the table
        target = np.eye(x.shape[1] + 1)[np.clip(target.reshape(-1), -1, x.shape[1])][:, :-1]
    return (p + np.abs(target)) / len(x), 2 * p * (1 - p) / len(x)


def sigmoid_terms(x: np.ndarray, target: np.ndarray) -> Terms:
    p = 1 / (1 + np.exp(-x))
    return (p + np.abs(target)) / x.size, p * (1 - p) / x.size


def square_terms(x: np.ndarray, target: np.ndarray) -> Terms:
    return 2 * (np.abs(x) + np.abs(target)) / x.size, np.full(x.shape, 2 / x.size)


TERMS: dict[object, Callable[[np.ndarray, np.ndarray], Terms]] = {
    loss.softmax_cross_entropy_dx: softmax_terms,
    loss.soft_cross_entropy_dx: softmax_terms,
    loss.binary_cross_entropy_dx: sigmoid_terms,
    loss.mean_squared_error_dx: square_terms,
}


def gradient_errors(run: Run, seed: int = 0) -> dict[str, np.ndarray]:
    """Trained parameter -> how far each element of its gradient may be off because of the loss's gradient."""
    first = next((n for n in run.graph.nodes if n.op in TERMS), None)
    if first is None:
        return {}
    error, rng = loss_error(run, first), np.random.default_rng(seed)
    signs = [np.ones(error.shape), *(rng.choice([-1.0, 1.0], error.shape) for _ in range(DRAWS))]
    moved = [_carried(run, first, s * error) for s in signs]
    return {name: np.max([np.abs(m[name] - run.gradient(name)) for m in moved], axis=0) for name in run.gradients}


def loss_error(run: Run, node: Node) -> np.ndarray:
    """The bound for the gradient of the loss itself."""
    g, x, target = (run.env[v.name] for v in node.inputs)
    terms, slope = TERMS[node.op](x.astype(np.float64), target)
    return np.abs(g) * (LAST_BITS * terms + FORWARD * np.max(np.abs(x)) * slope)


def _carried(run: Run, first: Node, move: np.ndarray) -> dict[str, np.ndarray]:
    """Every trained parameter's gradient if the loss's gradient were off by this."""
    wanted = {v.name for v in run.gradients.values()}
    env = {**run.env, first.name: run.env[first.name] + move}
    reached = depend_on(run.graph.nodes, {first.name})
    for node in run.graph.nodes:
        if node is first or node.op.overwrites or not any(v.name in reached for v in node.inputs):
            continue
        results = node.rule("eval", *(env[v.name] for v in node.inputs))
        env.update(zip((v.name for v in node.outputs), results if isinstance(results, tuple) else (results,)))
    return {name: env[v.name] for name, v in run.gradients.items() if v.name in wanted}


# integers that follow from floats ------------------------------------------------------------------


def other_roundings(run: Run, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Every value of the step if the floats that become integers were off by float32's error, a few times; none of a
    step whose integers follow from integers alone: without float layers before int8 ones, and without integer
    gradients, which begin as the float ones of the loss. Those must be equal."""
    given = {v.name for v in run.graph.inputs}
    if not any(node.op in ROUNDED and node.inputs[0].name not in given for node in run.graph.nodes):
        return []
    rng = np.random.default_rng(seed)
    return [_rounded_otherwise(run, rng) for _ in range(DRAWS)]


def _rounded_otherwise(run: Run, rng) -> dict[str, np.ndarray]:
    env, moved = dict(run.env), set()
    exact = {v.name for v in run.graph.inputs}
    for node in run.graph.nodes:
        given = [env[v.name] for v in node.inputs]
        if node.op in ROUNDED and node.inputs[0].name not in exact:
            given[0] = _nudged(given[0], rng)
        elif not any(v.name in moved for v in node.inputs):
            continue
        results = node.rule("eval", *given)
        env.update(zip((v.name for v in node.outputs), results if isinstance(results, tuple) else (results,)))
        moved.update(v.name for v in node.outputs)
    return env


def _nudged(x: np.ndarray, rng) -> np.ndarray:
    return x + GRADIENT * largest(x) * rng.choice([-1.0, 1.0], x.shape)
