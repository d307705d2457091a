"""An independent proof that a plan is safe: it replays the program on a map of the arena.

Deliberately shares no code with lifetimes.py or place/. Each arena byte remembers which value was last written there; a
call that reads a value must find that all its bytes are still its own.
"""

from __future__ import annotations

from insitu.errors import GraphError
from insitu.graph import Value
from insitu.graph.loops import Loop
from insitu.planner.plan import Plan
from insitu.planner.verify.bytemap import ByteMap, overlap
from insitu.planner.verify.loops import verify_loop


def verify(plan: Plan) -> Plan:
    """Return the plan, or raise a GraphError that names the value, the step and the intruder."""
    _check_state(plan)
    replay = _Replay(plan)
    _check_rows(plan)
    for v in plan.graph.inputs:
        if v.name != plan.graph.by_rows:
            replay.write(v.name, v.type.bytes, step=-1)
    for step, (node, call) in enumerate(zip(plan.graph.nodes, plan.calls, strict=True)):
        if isinstance(call, Loop):
            verify_loop(call, node, _covered(plan, node))
        for v in node.inputs:
            replay.read(v.name, v.type.bytes, step)
        claimed = [replay.scratch(name, step) for name in plan.scratch_of(step)]
        replay.claim_inputs(node, step, claimed)
        for v in node.outputs:
            if v.name not in plan.homes:
                replay.write(v.name, v.type.bytes, step, in_place=_may_share(node, v.name))
    for v in plan.graph.outputs:
        replay.read(v.name, v.type.bytes, len(plan.graph.nodes))
    return plan


def _check_rows(plan: Plan) -> None:
    """An input that arrives row by row has no buffer: only the loop that takes it reads it, before all else."""
    name = plan.graph.by_rows
    if not name:
        return
    readers = [step for step, node in enumerate(plan.graph.nodes) if any(v.name == name for v in node.inputs)]
    first = plan.calls[0] if plan.calls else None
    taken = isinstance(first, Loop) and first.source is not None and first.source.name == name
    if readers != [0] or not taken:
        raise GraphError(f"arrives row by row, but steps {readers} read it, not only the first", where=f"%{name}")
    moving = {v.name for v in plan.graph.nodes[0].inputs} - {name, *plan.graph.constants}
    if name in plan.offsets or moving:
        raise GraphError(f"arrives beside {sorted(moving) or 'a place of its own'}, not constants", where=f"%{name}")


def _check_state(plan: Plan) -> None:
    """An update overwrites state: nothing may read the older content after that."""
    newest = {name: name for name in plan.graph.state}
    for step, node in enumerate(plan.graph.nodes):
        for v in node.inputs:
            home = plan.homes.get(v.name, v.name)
            if home in newest and newest[home] != v.name:
                raise GraphError(f"step {step} reads it after {newest[home]} has replaced it", where=f"%{v.name}")
        for v in node.outputs:
            if v.name in plan.homes:
                newest[plan.homes[v.name]] = v.name
    for state, new in plan.graph.updates.items():
        if newest[state] != new.name:
            raise GraphError(f"is {newest[state]} at the end, not {new}", where=f"%{state}")


def _may_share(node, output: str) -> set[str]:
    """Names of inputs that the kernel allows this output to overwrite."""
    source = node.shared().get(output)
    return set() if source is None else {source.name}


def _covered(plan: Plan, node) -> dict[str, Value]:
    """Result -> the input of the same node at the same place."""
    places = {plan.offsets[v.name]: v for v in node.inputs if v.name in plan.offsets}
    return {v.name: places[plan.offsets[v.name]] for v in node.outputs if plan.offsets.get(v.name) in places}


class _Replay:
    def __init__(self, plan: Plan):
        self.plan = plan
        self.ids: dict[str, int] = {}
        self.names = ["nothing"]  # by the tag of the written value
        self.bytes = ByteMap(plan.arena_bytes)
        self.busy: list[tuple[slice, str]] = []  # what the current call reads

    def read(self, name: str, size: int, step: int) -> None:
        if name not in self.plan.offsets:
            return  # a constant: not in the arena
        at = self._range(name, size, step)
        wrong = self.bytes.wrong(at, self.ids.get(name, -1))
        if wrong.any():
            byte = at.start + int(wrong.argmax())
            intruder = self.names[int(self.bytes.tags[byte])]
            raise GraphError(f"step {step} reads it at arena byte {byte}, which holds {intruder}", where=f"%{name}")

    def claim_inputs(self, node, step: int, scratch: list[tuple[slice, str]]) -> None:
        self.busy = [
            (self._range(v.name, v.type.bytes, step), v.name) for v in node.inputs if v.name in self.plan.offsets
        ]
        for area, name in scratch:
            self._refuse_overlap(area, name, step, allowed=set())
            self.busy.append((area, name))
            self.bytes.clear(area)

    def write(self, name: str, size: int, step: int, in_place: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        at = self._range(name, size, step)
        self._refuse_overlap(at, name, step, in_place)
        if step >= 0:
            self.busy.append((at, name))
        self.ids[name] = len(self.names)
        self.names.append(name)
        self.bytes.write(at, self.ids[name])

    def scratch(self, name: str, step: int) -> tuple[slice, str]:
        return self._range(name, self.plan.scratch_bytes[name], step), name

    def _refuse_overlap(self, at: slice, name: str, step: int, allowed: set[str]) -> None:
        for area, other in self.busy if step >= 0 else []:
            exact = other in allowed and area.start == at.start
            if other != name and not exact and overlap(area, at):
                raise GraphError(f"step {step} writes it over {other}, which the same call uses", where=f"%{name}")

    def _range(self, name: str, size: int, step: int) -> slice:
        start = self.plan.offsets[name]
        area = self.bytes.area(start, size)
        if area is None:
            raise GraphError(f"step {step}: bytes {start}..{start + size} are outside the arena", where=f"%{name}")
        return area
