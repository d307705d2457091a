"""`insitu.prove(model, ...)`: the gradient certificate of the training program that `compile` would make.

The same stages as in pipeline.py, then the checks of training/prove.py. Samples are drawn at random where none are
given: the certificate is about gradients, not about accuracy. The head starts at random weights, because from zeros
no gradient would reach the layers before it.
"""

from __future__ import annotations

import numpy as np

from insitu.data import Samples, as_samples
from insitu.devices.host import open_plans
from insitu.errors import DataError
from insitu.graph import Graph, Value
from insitu.pipeline import head_of, load, new_head, to_precision, trainable
from insitu.planner import plan, verify
from insitu.reports.certificate import Certificate
from insitu.training.prove import Subject, Tools, prove_program
from insitu.training.scheme import read_scheme
from insitu.training.train import LOSSES, Recipe, train_graphs

TOOLS = Tools(plan, verify, open_plans)
DRAWN = 32  # samples, where none are given
RATE = 0.05


def prove(model, *, example=None, classes: int | None = None, data=None, scheme: str = "full",
          precision: str = "int8", batch: int = 1, head_after: str | None = None, recipe: Recipe | None = None,
          steps: int = 5, seed: int = 0) -> Certificate:  # fmt: skip
    """The certificate; `.ok` says whether everything holds, `.broken` what does not. Arguments are those of compile."""
    recipe = recipe or Recipe()
    g = load(model, example)
    samples = drawn(g, seed) if data is None else as_samples(data, g)
    name = g.name
    g = to_precision(g, precision, samples, scheme)
    g = new_head(g, classes, samples, recipe, head_after, "uniform", seed)
    s = read_scheme(scheme, trainable(g))
    graphs = train_graphs(g, s, recipe, accumulate=batch > 1, head=head_of(g))
    subject = Subject(graphs, feeds(g, samples, recipe, batch, steps, seed), verbs(batch, steps))
    arithmetic = "int8" if any(v.dtype == "s8" for n in g.nodes for v in n.outputs) else "float"
    return Certificate(name, scheme, arithmetic, tuple(prove_program(subject, TOOLS, seed)))


def verbs(batch: int, steps: int) -> tuple[str, ...]:
    """Which function each step runs: gradients of a batch are added up before they are applied."""
    return ("train_step",) * steps if batch == 1 else (*("accumulate",) * steps, "apply")


def feeds(graph: Graph, samples: Samples, recipe: Recipe, batch: int, steps: int, seed: int) -> tuple:
    """What the functions take in each step, by name."""
    if not len(samples):
        raise DataError("there are no samples")
    rng = np.random.default_rng(seed)
    found = []
    for i in range(steps + 1):
        x = {v.name: a[i % len(samples)][None] for v, a in zip(graph.inputs, samples.inputs)}
        goal = goals(graph.outputs[0], recipe, samples, i, rng)
        found.append({**x, **goal, "rate": np.float32(RATE), "share": np.float32(1 / steps)})
    return tuple(found)


def goals(output: Value, recipe: Recipe, samples: Samples, i: int, rng) -> dict[str, np.ndarray]:
    """A label of the samples where it fits, else one at random; targets at random."""
    if LOSSES[recipe.loss][1] == "labels":
        known = samples.labels is not None and 0 <= samples.labels[i % len(samples)] < output.shape[-1]
        label = samples.labels[i % len(samples)] if known else rng.integers(output.shape[-1])  # type: ignore[index]
        return {"labels": np.full(output.shape[0], label, np.int32)}
    target = rng.uniform(0.1, 1, output.shape)
    if recipe.loss == "soft_cross_entropy":
        target /= target.sum(-1, keepdims=True)
    return {"targets": target.astype(np.float32)}


def drawn(graph: Graph, seed: int) -> Samples:
    """Random samples over the whole range of every input."""
    rng = np.random.default_rng(seed)
    return Samples(tuple(_draw(graph, v, rng) for v in graph.inputs))


def _draw(graph: Graph, value: Value, rng) -> np.ndarray:
    shape = (DRAWN, *value.shape[1:])
    if value.dtype not in ("f32", "f64"):
        ends = np.iinfo(value.type.numpy)
        return rng.integers(max(ends.min, -128), min(ends.max, 255) + 1, shape).astype(value.type.numpy)
    x = rng.normal(size=shape)
    reader = next((n for n in graph.users.get(value.name, ()) if n.op.name == "quantize"), None)
    if reader is not None:
        t = reader.output.type
        x = t.scale * (127.5 / 2 * x - 0.5 - t.zero)
    return x.astype(value.type.numpy)
