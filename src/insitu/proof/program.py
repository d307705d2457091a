"""The checks of a gradient certificate: the training program of one model, compared with what it should compute.

differences.py and steps.py check the gradients of the graphs; this file checks the C. The caller passes functions to
plan, verify and open a program: this stage knows neither planner nor devices.

Every value of a run is read back. Each op is then evaluated in numpy on the inputs that the C had, so that a difference
is the fault of that op: integers must be equal, floats close. The program as shipped must give the same bytes as the
one whose values were read, and again the same bytes on an arena full of garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from insitu.errors import Error
from insitu.graph import Graph, Node, check
from insitu.ops.update_int import unpack4
from insitu.proof.differences import Run, float_gradients, int8_gradients, int8_rules, surrogates
from insitu.proof.findings import Finding, Row, close, distance, failed, largest, row
from insitu.proof.rounding import FORWARD, GRADIENT, LAST_BITS, gradient_errors, other_roundings
from insitu.proof.steps import real_steps
from insitu.training.prefix import Split

FORWARD_FLOOR = 1e-6
BACKWARD, BACKWARD_FLOOR = 1e-4, 1e-3
STEPS = 1e-3  # share of a parameter's change in one step: float64 and float32 may be on different sides of a kink
NOISE = 1e-5  # share of the largest gradient: Adam makes a full step even from a smaller rest of rounding
POISON = (0xA5, 0xFF)  # 0xFF: every float is not a number
FLOATS = ("f32", "f64")


@dataclass(frozen=True)
class Tools:
    """Functions of other stages."""

    plan: Callable[[Graph], Any]
    verify: Callable[[Any], Any]
    open: Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, eq=False)
class Subject:
    """A training program and the inputs to run it on."""

    graphs: Mapping[str, Graph]
    feed: Callable[[Graph, int], tuple[np.ndarray, ...]]  # the inputs of a graph in a step
    verbs: tuple[str, ...]  # which function each step runs
    cut: Split | None = None  # the program as `fit` runs it, if some layers are frozen

    def arrays(self, verb: str, step: int = 0) -> tuple[np.ndarray, ...]:
        return self.feed(self.graphs[verb], step)

    @property
    def stepping(self) -> str:
        """The function that computes gradients."""
        return next(v for v in self.verbs if self.graphs[v].outputs)


def prove_program(subject: Subject, tools: Tools, seed: int = 0, plans: Mapping[str, Any] | None = None,
                  gradients: Iterable[Row] | None = None) -> list[Row]:  # fmt: skip
    """Every row of the certificate; the rows that need C only if the plans are sound.

    `plans` are those of a program that exists already, a board's; the C is then proved as they lay it out. `gradients`
    are the rows about its gradients, if they were proved in another way.
    """
    rows = [*(prove_gradients(subject, seed) if gradients is None else gradients)]
    try:
        plans = plans or {verb: tools.plan(g) for verb, g in subject.graphs.items()}
        kept = {f"kept_{verb}": apart(tools.plan(keep_all(g))) for verb, g in subject.graphs.items()}
        cut = {verb: tools.plan(g) for verb, g in cut_graphs(subject).items()}
        for p in (*plans.values(), *kept.values(), *cut.values()):
            tools.verify(p)
    except Error as e:
        return [*rows, failed("plan", "replay of every call on a map of the arena", str(e))]
    count = sum(len(p.calls) for p in plans.values())
    rows.append(Row("plan", "replay of every call on a map of the arena", True, count, 0, 0))
    device = tools.open({**plans, **kept, **cut})
    return [*rows, *prove_c(subject, device, seed)]


def prove_gradients(subject: Subject, seed: int = 0) -> Iterator[Row]:
    graph = subject.graphs[subject.stepping]
    run = Run.of(graph, subject.arrays(subject.stepping))
    yield row("float gradients", "gradients vs differences of the loss in float64", float_gradients(run, seed))
    yield row("int8 meaning", "integers vs their formula without rounding (in steps)", surrogates(run))
    yield row("int8 rules", "each op's gradient vs differences without rounding", int8_rules(run, seed))
    yield row("int8 gradients", "each gradient vs a direction carried to the loss", int8_gradients(run, seed))
    updating = subject.graphs[subject.verbs[-1]]
    steps = real_steps(updating, {**graph.state, **updating.state}, seed)
    yield row("updates", "each update vs the exact real step (in steps)", steps)


def prove_c(subject: Subject, device, seed: int = 0) -> Iterator[Row]:
    verbs = list(dict.fromkeys(["predict", *subject.verbs]))
    local = [f for verb in verbs for f in op_by_op(subject, device, verb)]
    integers = [f for f in local if f.allowed == 0]
    yield row("C, integers", "every value of the C vs its op in numpy", integers)
    yield row("C, floats", "every value of the C vs its op in float64", [f for f in local if f.allowed])
    yield row("C as shipped", "its bytes vs the C with all values kept", shipped(subject, device, verbs))
    yield row("poisoned arena", "its bytes vs those from a clean arena", poisoned(subject, device, verbs, seed))
    scratch = [f"kept_{verb}" for verb in verbs]
    yield row(
        "poisoned scratch", "the same, with each scratch in its own bytes", poisoned(subject, device, scratch, seed)
    )
    yield row("frozen layers", "a step from cached outputs vs from the sample", cut_steps(subject, device))
    yield row("training steps", "the state after each step vs numpy", training(subject, device))


# the C whose values are read ----------------------------------------------------------------------


def keep_all(graph: Graph) -> Graph:
    """The graph with every value as an output, except values that are written into the state."""
    homes = _homes(graph)
    names = {v.name for v in graph.outputs} | homes
    more = tuple(v for n in graph.nodes for v in n.outputs if v.name not in names)
    return replace(graph, outputs=(*graph.outputs, *more), by_rows="")


def _homes(graph: Graph) -> set[str]:
    """Values stored in the state: the new contents, and the values they were computed from in place."""
    found, todo = set(), list(graph.updates.values())
    while todo:
        value = todo.pop()
        node = graph.producer.get(value.name)
        if node is not None and value.name not in found:
            found.add(value.name)
            source = node.shared().get(value.name)
            todo += [source] if source is not None else []
    return found


def apart(plan):
    """The plan with every scratch in its own bytes, which nothing else writes."""
    at, offsets = -(-plan.arena_bytes // 16) * 16, dict(plan.offsets)
    for name, size in plan.scratch_bytes.items():
        offsets[name] = at
        at += -(-size // 16) * 16
    return replace(plan, offsets=offsets, arena_bytes=max(at, plan.arena_bytes))


def op_by_op(subject: Subject, device, verb: str) -> Iterator[Finding]:
    """Each node on the inputs that the C had; a value stored in the state is compared at the end."""
    graph, arrays = subject.graphs[verb], subject.arrays(verb)
    before = device.state()
    results = device.run(f"kept_{verb}", *arrays)
    after = device.state()
    device.load_arrays(before)
    kept = device.routines[f"kept_{verb}"].outputs
    found = {v.name: r for v, r in zip(kept, results)}
    env = {**graph.constants, **before, **{v.name: a for v, a in zip(graph.inputs, arrays)}, **found}
    judge = _Judge(graph, found)
    for node in graph.nodes:
        for v, wanted in zip(node.outputs, evaluated(node, env)):
            if v.name in found:
                yield judge(f"{verb}: {v.name} ({node.op.name})", v.name, found[v.name], wanted)
            else:
                env[v.name] = wanted.astype(v.type.numpy)
    for name, new in graph.updates.items():
        yield judge(f"{verb}: {name} after the step", name, after[name], env[new.name])


def evaluated(node: Node, env: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """A node's results for these inputs, in float64."""
    given = [
        a.astype(np.float64) if a.dtype == np.float32 else a for a in (np.asarray(env[v.name]) for v in node.inputs)
    ]
    with np.errstate(all="ignore"):
        found = node.rule("eval", *given)
    return tuple(np.asarray(f) for f in (found if isinstance(found, tuple) else (found,)))


class _Judge:
    """The tolerance of a value: zero for integers, the contract's for forward values and gradients.

    A sum of gradients may cancel to zero (the bias before a batch norm has no gradient), so the last bits of the terms
    are allowed in addition.
    """

    def __init__(self, graph: Graph, found: Mapping[str, np.ndarray]):
        self.forward, self.producer, self.found = _computed_for_outputs(graph), graph.producer, found
        names = [n for n, a in found.items() if n not in self.forward and a.dtype == np.float32]
        self.largest = max((largest(found[n]) for n in names), default=0.0)

    def __call__(self, where: str, name: str, got, wanted) -> Finding:
        if np.asarray(got).dtype.kind != "f":
            return Finding(where, distance(got, wanted), 0.0)
        if name in self.forward or name not in self.producer:
            return close(where, got, wanted, FORWARD, FORWARD_FLOOR)
        judged = close(where, got, wanted, BACKWARD, BACKWARD_FLOOR * self.largest + 1e-30)
        arrays = [self.found[v.name] for v in self.producer[name].inputs if v.name in self.found]
        summed = max((float(np.abs(a).sum()) for a in arrays if a.dtype == np.float32), default=0.0)
        return replace(judged, allowed=judged.allowed + LAST_BITS * summed / max(np.size(got), 1))


def _computed_for_outputs(graph: Graph) -> set[str]:
    """The values that outputs are computed from: everything but the backward pass and the updates."""
    wanted = {v.name for v in graph.outputs}
    for node in reversed(graph.nodes):
        if any(v.name in wanted for v in node.outputs):
            wanted.update(v.name for v in (*node.inputs, *node.outputs))
    return wanted


# the C as it ships ------------------------------------------------------------------------------


def outcome(device, verb: str, arrays, fill=0) -> dict[str, np.ndarray]:
    """Outputs and state after one call on an arena filled with `fill`; the device's own state does not change."""
    before = device.state()
    device.poison(fill)
    results = device.run(verb, *arrays)
    named = {v.name: r for v, r in zip(device.routines[verb].outputs, results)}
    named |= {f"{name} (state)": a for name, a in device.state().items()}
    if before:
        device.load_arrays(before)
    return named


def different(where: str, a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> Iterator[Finding]:
    """How many bytes differ, value by value."""
    for name, array in b.items():
        mine, other = (np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8) for x in (a[name], array))
        yield Finding(f"{where}: {name}", float(np.count_nonzero(mine != other)), 0.0)


def shipped(subject: Subject, device, verbs) -> Iterator[Finding]:
    for verb in verbs:
        arrays = subject.arrays(verb)
        yield from different(verb, outcome(device, f"kept_{verb}", arrays), outcome(device, verb, arrays))


def poisoned(subject: Subject, device, verbs, seed: int) -> Iterator[Finding]:
    random = np.random.default_rng(seed).integers(0, 256, device.program.arena_bytes).astype(np.uint8)
    for verb in verbs:
        arrays = subject.arrays(verb.removeprefix("kept_"))
        clean = outcome(device, verb, arrays)
        for fill in (*POISON, random):
            yield from different(verb, outcome(device, verb, arrays, fill), clean)


# the C as `fit` runs it ---------------------------------------------------------------------------

PREFIX, REST = "frozen_part", "rest_"


def cut_graphs(subject: Subject) -> dict[str, Graph]:
    """The functions of a program that runs its frozen layers in a separate function; empty if nothing is frozen."""
    if subject.cut is None:
        return {}
    rest = {f"{REST}{verb}": subject.cut.rest[verb] for verb in dict.fromkeys(subject.verbs)}
    return {verb: check(g) for verb, g in {PREFIX: subject.cut.prefix, **rest}.items()}


def cut_steps(subject: Subject, device) -> Iterator[Finding]:
    """Bytes after a step from the frozen layers' outputs, against those after the same step from the sample."""
    cut = subject.cut
    if cut is None:
        return
    for verb in dict.fromkeys(subject.verbs):
        graph, arrays = subject.graphs[verb], subject.arrays(verb)
        given = {v.name: a for v, a in zip(graph.inputs, arrays)}
        samples = [given[v.name] for v in cut.prefix.inputs if v.name in given]
        if samples:  # otherwise it only works on the state
            made = device.run(PREFIX, *samples)
            given |= {v.name: a for v, a in zip(cut.prefix.outputs, made)}
        rest = [given[v.name] for v in cut.rest[verb].inputs]
        yield from different(verb, outcome(device, f"{REST}{verb}", rest), outcome(device, verb, arrays))


# several steps ----------------------------------------------------------------------------------


def training(subject: Subject, device) -> Iterator[Finding]:
    """The C runs step after step; numpy computes each step from the state the C had before it.

    So a difference cannot grow from step to step, and the tolerance is that of one step. A gradient may be off by the
    error of float32 (GRADIENT), so an integer must be between the results of the update with the gradient moved up and
    moved down by that error. Except for the few integers near a rounding boundary, these two results are the same.
    Where floats were rounded to integers on the way, the tolerance is what other roundings of them make of the result.
    """
    first = device.state()
    for step, verb in enumerate(subject.verbs):
        graph, arrays = subject.graphs[verb], subject.arrays(verb, step)
        before = device.state()
        run = Run.of(graph, arrays, {name: before[name] for name in graph.state if name in before})
        results = device.run(verb, *arrays)
        where = f"step {step + 1}"
        if graph.outputs:
            yield same_loss(f"{where}: {run.loss.name}", results[0], run)
        yield from same_state(where, before, device.state(), run)
    if first:
        device.load_arrays(first)


def same_loss(where: str, got, run: Run) -> Finding:
    """The loss of a step against numpy's, or against what other roundings make of it."""
    wanted = run.env[run.loss.name]
    found = close(where, got, wanted, BACKWARD, FORWARD_FLOOR)
    if found.ok:
        return found
    gaps = [distance(env[run.loss.name], wanted) for env in other_roundings(run)]
    return replace(found, allowed=found.allowed + max(gaps, default=0.0))


def same_state(where: str, before, got, run: Run) -> Iterator[Finding]:
    """The state after a step against numpy's. Cancellation in the loss, and floats that are rounded the other
    way, are only looked into if it is needed: that takes several passes."""
    found = list(_same_state(where, before, got, run, {}))
    if not all(f.ok for f in found):
        found = list(_same_state(where, before, got, run, gradient_errors(run)))
    if not all(f.ok for f in found):
        found = _same_state(where, before, got, run, gradient_errors(run), other_roundings(run))
    yield from found


def _same_state(where: str, before, got, run: Run, errors: Mapping[str, np.ndarray], others=()) -> Iterator[Finding]:
    wanted = {name: run.env[new.name] for name, new in run.graph.updates.items()}
    mine, other = fixed_point(got), fixed_point({**got, **wanted})
    low, high = (fixed_point({**got, **wanted, **ends}) for ends in reached(run, errors))
    states = ({name: env[new.name] for name, new in run.graph.updates.items()} for env in others)
    rounded = [fixed_point({**got, **state}) for state in states]
    ties = 0
    for name, b in other.items():
        a, at = mine[name], f"{where}: {name}"
        if name == "counters":
            continue
        if b.dtype.kind == "f":
            loud = above_noise(run, name, b.shape)
            change = float(np.linalg.norm((b.astype(np.float64) - before[name])[loud]))
            error = float(np.linalg.norm((a - b)[loud]))
            ends = (low, high, *rounded) if errors else ()
            lost = max((float(np.linalg.norm((end[name] - b)[loud])) for end in ends), default=0.0)
            yield Finding(at, error, STEPS * change + FORWARD * float(np.linalg.norm(b)) + lost)
        else:
            ends = (low[name], high[name]) if run.graph.updates.get(name) and name in run.gradients else (b, b)
            outside = np.maximum(np.minimum(*ends) - a, a - np.maximum(*ends))
            ties += int(np.count_nonzero(a != b))
            yield Finding(at, float(np.max(outside, initial=0)), one_way_or_other(b, [end[name] for end in rounded]))
    if "counters" in other:
        yield Finding(f"{where}: counters", distance(mine["counters"], other["counters"]), float(ties > 0))


def one_way_or_other(wanted: np.ndarray, rounded: Sequence[np.ndarray]) -> float:
    """How far an integer may be off if floats were rounded the other way: one step, or what that made of it."""
    return max(1.0, *(distance(other, wanted) for other in rounded)) if rounded else 0.0


def reached(run: Run, errors: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The new value of each trained parameter (or of the sum of its gradients) with its gradient moved down, and moved
    up, by the tolerance and these `errors`."""
    found: tuple[dict, dict] = ({}, {})
    for name, grad in run.gradients.items():
        state = next((s for s in (name, f"{name}.sum") if s in run.graph.updates), None)
        if state is None:
            continue
        node = run.graph.producer[run.graph.updates[state].name]
        off = GRADIENT * max(largest(run.env[grad.name]), BACKWARD_FLOOR * run.largest) + errors.get(name, 0.0)
        for ends, sign in zip(found, (-1, 1)):
            results = evaluated(node, {**run.env, grad.name: run.env[grad.name] + sign * off})
            made = {v.name: r for v, r in zip(node.outputs, results)}
            ends.update({state: made[v.name] for state, v in run.graph.updates.items() if v.name in made})
    return found


def above_noise(run: Run, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Elements of a parameter (or of its optimizer state) whose gradient is more than a rest of rounding."""
    owner = next((p for p in run.gradients if name == p or name.rpartition(".")[0] == p), None)
    if owner is None or run.gradients[owner].shape != shape:
        return np.ones(shape, bool)
    return np.abs(run.gradient(owner)) > NOISE * run.largest


def fixed_point(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The state with each weight and its residual as one integer."""
    found = {}
    for name, a in state.items():
        beside = state.get(f"{name}.residual")
        if name.endswith(".residual") and name.removesuffix(".residual") in state:
            continue
        if beside is not None and beside.dtype == np.int8:
            found[name] = a.astype(np.int64) * 256 + beside
        elif beside is not None:
            found[name] = a.astype(np.int64) * 16 + unpack4(beside, a.shape)
        else:
            found[name] = a if a.dtype.kind == "f" else a.astype(np.int64)
    return found
