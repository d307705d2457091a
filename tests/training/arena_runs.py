"""Run a plan in numpy on a real arena: values lie where the plan says, and state is changed in place.

Unlike `evaluate`, which follows the dataflow, this shows the effect of a wrong order or a wrong offset.
"""

from collections.abc import Mapping

import numpy as np

from insitu.graph import Graph, Value
from insitu.planner import Plan


class Memory:
    def __init__(self, plan: Plan, state: Mapping[str, np.ndarray], rng):
        self.plan, self.rng = plan, rng
        self.state = {name: array.copy() for name, array in state.items()}
        self.arena = rng.integers(0, 256, plan.arena_bytes + 64).astype(np.uint8)  # full of poison

    def read(self, value: Value) -> np.ndarray:
        home = self.plan.homes.get(value.name, value.name)
        if home in self.state:
            return self.state[home]
        if value.name in self.plan.graph.constants:
            return self.plan.graph.constants[value.name]
        at = self.plan.offsets[value.name]
        return self.arena[at : at + value.type.bytes].view(value.type.numpy).reshape(value.shape).copy()

    def write(self, value: Value, array) -> None:
        array = np.asarray(array).astype(value.type.numpy)
        if value.name in self.plan.homes:
            self.state[self.plan.homes[value.name]] = array
            return
        at = self.plan.offsets[value.name]
        self.arena[at : at + value.type.bytes] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)

    def spoil(self, name: str) -> None:
        """Fill scratch with anything, as a kernel may leave it."""
        at, size = self.plan.offsets[name], self.plan.scratch_bytes[name]
        self.arena[at : at + size] = self.rng.integers(0, 256, size)


def run_plan(plan: Plan, feeds, state: Mapping[str, np.ndarray], seed: int = 0) -> list[bytes]:
    """The bytes of every output, and of the state after the run."""
    memory = Memory(plan, state, np.random.default_rng(seed))
    for v, array in zip(plan.graph.inputs, feeds):
        memory.write(v, array)
    for step, node in enumerate(plan.graph.nodes):
        inputs = [memory.read(v) for v in node.inputs]
        for name in plan.scratch_of(step):
            memory.spoil(name)
        with np.errstate(all="ignore"):
            results = node.rule("eval", *inputs)
        for v, r in zip(node.outputs, results if isinstance(results, tuple) else (results,)):
            memory.write(v, r)
    found = [memory.read(v).tobytes() for v in plan.graph.outputs]
    return found + [memory.state[name].tobytes() for name in sorted(memory.state)]


def spans(graph: Graph) -> dict[str, tuple[int, int]]:
    """Value in the arena -> the step that makes it (-1: an input) and the last that reads it."""
    made = {v.name: -1 for v in graph.inputs} | {v.name: i for i, n in enumerate(graph.nodes) for v in n.outputs}
    read = dict(made)
    for i, node in enumerate(graph.nodes):
        read.update({v.name: i for v in node.inputs if v.name in made})
    read.update({v.name: len(graph.nodes) for v in graph.outputs})
    return {name: (made[name], read[name]) for name in made}
