"""The certificate of a learner: of its own program, from the state that it has reached.

proof/folder.py proves what a board will run; both take the rows about gradients from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from insitu.data import as_samples
from insitu.deploy import starting_from
from insitu.errors import DataError
from insitu.learner import Learner
from insitu.learner.rates import real, trained_values
from insitu.proof.certificate import Certificate
from insitu.proof.certify import TOOLS, arithmetic, subject_of
from insitu.proof.differences import Run
from insitu.proof.findings import Finding, Row, row
from insitu.proof.program import Subject, prove_gradients, prove_program
from insitu.proof.source import drawn
from insitu.training.head import HEAD, in_use
from insitu.training.parts import Parts
from insitu.training.train import has_targets

CLOSE = {"s16": 0.01, "s8": 0.2}  # of a step
LAST = 1 / 256 / 127  # of a weight: the fraction that is kept beside an int8


def prove_learner(learner: Learner, data: Any = None, steps: int = 5, seed: int = 0) -> Certificate:
    """Prove a learner's program as it is: its scheme, its recipe, and what it has learned."""
    parts = learner.parts
    if parts is None:
        raise DataError("only the program of this learner is here, not its model", hint="prove(FOLDER)")
    state = with_a_head(learner.device.state(), seed)
    samples = drawn(parts.forward, seed)
    if data is not None:
        samples = as_samples(data, parts.forward, targets=has_targets(parts.recipe))
    subject = subject_of(parts, starting_from(parts.graphs(), state), samples, steps, seed)
    rows = prove_program(subject, TOOLS, seed, gradients=gradients_of(parts, subject, state, seed))
    return Certificate(parts.forward.name, parts.scheme.name, arithmetic(parts), tuple(rows))


def with_a_head(state: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """The state with random weights in a head of zeros, because through zeros no gradient would reach the layers before
    it; and with rows that no class uses yet as if one did, because no gradient reaches those either."""
    weight, bias = state.get(f"{HEAD}.weight"), state.get(f"{HEAD}.bias")
    found = dict(state)
    if bias is not None and bias.dtype.kind == "f":
        found[f"{HEAD}.bias"] = np.where(in_use(bias), bias, np.float32(0))
    if weight is not None and weight.dtype.kind == "f" and not weight.any():
        limit = 1 / np.sqrt(weight.shape[-1])
        drawn = np.random.default_rng(seed).uniform(-limit, limit, weight.shape)
        found[f"{HEAD}.weight"] = drawn.astype(weight.dtype)
    return found


def gradients_of(parts: Parts, subject: Subject, state: Mapping[str, np.ndarray], seed: int) -> Iterator[Row]:
    """Rules are proved for gradients in float; integer gradients must make nearly the same steps."""
    kind = parts.recipe.grad or "f32"
    if kind == "f32":
        yield from prove_gradients(subject, seed)
        return
    exact = replace(parts, recipe=replace(parts.recipe, grad="f32", rows=False))
    twin = replace(subject, graphs=starting_from(exact.graphs(), state))
    yield from prove_gradients(twin, seed)
    what = f"each parameter's step with {kind} gradients vs with float ones"
    yield row(f"{kind} gradients", what, _steps_apart(subject, twin, state, CLOSE[kind]))


def _steps_apart(subject: Subject, twin: Subject, state: Mapping[str, np.ndarray], allowed: float) -> Iterator[Finding]:
    """How far apart the steps are, as a share of the longer one."""
    values = trained_values(subject.graphs)
    mine, other = (_after(s, state) for s in (subject, twin))
    for v in values:
        a, b = (real({**state, **after}, v) - real(state, v) for after in (mine, other))
        rest = LAST * max(float(np.abs(real(state, v)).max(initial=0.0)), 1e-30) * np.sqrt(a.size)
        yield Finding(v.name, float(np.linalg.norm(a - b)), allowed * float(np.linalg.norm(b)) + rest)


def _after(subject: Subject, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The state after the steps up to the first update, in numpy."""
    found = dict(state)
    last = subject.verbs.index("apply") + 1 if "apply" in subject.verbs else 1
    for step, verb in enumerate(subject.verbs[:last]):
        graph = subject.graphs[verb]
        run = Run.of(graph, subject.arrays(verb, step), {name: found[name] for name in graph.state})
        found |= {name: run.env[new.name] for name, new in graph.updates.items()}
    return found
