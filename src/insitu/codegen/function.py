"""One C function from one plan: one line per tensor with its place, one line per call with its layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from insitu.codegen import c
from insitu.codegen.constants import Constants
from insitu.codegen.passes import pass_lines
from insitu.codegen.stripes import Stripes
from insitu.errors import GraphError
from insitu.graph import Value
from insitu.graph.call import Call, Packed, Scratch, Source, Struct, Table
from insitu.graph.loops import Loop, Room
from insitu.planner import Plan

COPY = "copy_bytes"  # the kernel that moves inputs in and outputs out
ANYWHERE = "channels_last_f32"  # a kernel that reads an input once and writes a copy: one from the caller's own array
FINITE, FILL, SKIP = "finite_f32", "fill_bytes", "skip_step"  # those that keep a broken sample from being learned
COUNTERS = "counters"  # the persistent value that counts, first of all, the steps that were skipped
# what training adds to a model's own inputs and outputs
MEANINGS = {
    "rate": "the learning rate; 0 changes nothing",
    "labels": "the class of each sample, counted from 0",
    "targets": "the output to learn",
    "share": "one over the number of samples added up",
    "loss": "before the update",
}


class Function:
    """Writes `<prefix>_<verb>`; `constants` has everything in flash."""

    def __init__(self, verb: str, plan: Plan, prefix: str, constants: Constants, fields: Mapping[str, str],
                 opening: tuple[str, ...] = ()):  # fmt: skip
        self.verb, self.plan, self.graph, self.prefix = verb, plan, plan.graph, prefix
        self.constants, self.fields, self.stateful = constants, fields, bool(fields)
        self.opening = opening  # lines that come first
        names = c.Names()
        self.inputs = [names.fresh(f"in_{c.identifier(v.name)}") for v in self.graph.inputs]
        self.outputs = [names.fresh(f"out_{c.identifier(v.name)}") for v in self.graph.outputs]
        self.lines = dict(self._lines())
        self.slots = self._name_slots()
        self.direct = {v.name: name for v, name in zip(self.graph.inputs, self.inputs) if self._copied_once(v)}
        self.tables: list[str] = []  # of loops over stripes
        self._tables = c.Names(*self.inputs, *self.outputs, *c.TYPES)
        self.body = [line for step in range(len(plan.calls)) for line in self._step(step)]
        self.ending = [self._copy_out(v, name) for v, name in zip(self.graph.outputs, self.outputs)]

    @property
    def guarded(self) -> list[tuple[Value, str]]:
        """The inputs that a step is not taken on unless they are finite: in int8, what is not a number would be one."""
        learns = COUNTERS in self.graph.updates
        return [(v, n) for v, n in zip(self.graph.inputs, self.inputs) if learns and v.shape and v.dtype == "f32"]

    @property
    def kernels(self) -> set[str]:
        called = [call for call in self.plan.calls if not self._elided(call)]
        guards = {FINITE, FILL, SKIP} if self.guarded else set()
        return {COPY, *guards}.union(*(getattr(call, "functions", {call.function}) for call in called))

    def signature(self) -> str:
        pairs = zip(self.graph.inputs, self.inputs)
        return f"void {self.prefix}_{self.verb}({', '.join(self.parameters(pairs))})"

    def parameters(self, given: Iterable[tuple[Value, str]]) -> list[str]:
        """State, arena, these inputs, and the outputs."""
        state = [f"{self.prefix}_state *state"] if self.stateful else []
        inputs = [_parameter(v, name) for v, name in given]
        outputs = [f"{v.type.ctype} *{name}" for v, name in zip(self.graph.outputs, self.outputs)]
        return [*state, "unsigned char *arena", *inputs, *outputs]

    def prototype(self) -> list[str]:
        """The function as the header declares it, after one comment line per argument."""
        pairs = [*zip(self.inputs, self.graph.inputs), *zip(self.outputs, self.graph.outputs)]
        width = max((len(name) for name, _ in pairs), default=0)
        lines = []
        for name, v in pairs:
            meaning = MEANINGS.get(v.name, v.name) if self.verb != "predict" else v.name
            lines.append(
                c.comment(
                    f"{name:<{width}}  {v.type}{'' if v.shape or name in self.outputs else ', by value'}: {meaning}"
                )
            )
        return ["", *lines, f"{self.signature()};"]

    def source(self) -> str:
        plan = self.plan
        peak = self.graph.nodes[plan.peak_step].name if self.graph.nodes else "-"
        return "\n".join([
            c.comment(about(self.graph)),
            "#include <stddef.h>", "",
            f'#include "{self.prefix}.h"', f'#include "{self.prefix}_weights.h"', "",
            c.comment(f"arena: {plan.arena_bytes:,} bytes, peak at step {plan.peak_step} ({peak})"),
            *self._slot_lines(), "", *self.tables, *self.functions(),
        ])  # fmt: skip

    def functions(self) -> list[str]:
        """Everything that the file defines."""
        return [
            self.signature(), "{",
            *(["    (void)state;"] if self.stateful else []), *self.opening, *self._guard(self.guarded),
            *(self._copy_in(v, n) for v, n in zip(self.graph.inputs, self.inputs) if v.name not in self.direct),
            *self.body, *self.ending,
            "}", "",
        ]  # fmt: skip

    def _guard(self, inputs: list[tuple[Value, str]], unless: str = "", gives: str = "") -> list[str]:
        """Nothing is learned from inputs that are not finite, nor where `unless` holds: that is counted."""
        broken = [*([unless] if unless else []), *(f"!{FINITE}({name}, {v.type.size})" for v, name in inputs)]
        if not broken:
            return []
        return [
            f"    if ({' || '.join(broken)}) {{",
            *(f"        {FILL}({name}, 255, {v.type.bytes});" for v, name in zip(self.graph.outputs, self.outputs)),
            f"        {SKIP}(state->{self.fields[COUNTERS]});",
            f"        return{gives and ' ' + gives};", "    }",
        ]  # fmt: skip

    # tensors ----------------------------------------------------------------------------------

    def _name_slots(self) -> dict[str, str]:
        names = c.Names()
        values = [name for name in self.plan.offsets if name not in self.plan.scratch_bytes]
        return {name: names.fresh(c.macro(name)) for name in [*values, *self.lines]}

    def _lines(self) -> Iterator[tuple[str, tuple[Room, int, int]]]:
        """The buffers inside loops: value -> (room, offset, step)."""
        for step, call in enumerate(self.plan.calls):
            if isinstance(call, Loop) and call.stripes:
                start = self._start(step)
                for room in call.rooms:
                    yield room.value.name, (room, start + call.places[0, room.value.name], step)

    def _slot_lines(self) -> list[str]:
        lines = []
        for name, slot in self.slots.items():
            if name in self.lines:
                continue
            value = self.graph.values[name]
            first, last = self.plan.life[name]
            text = f"(({value.type.ctype} *)(arena + {self.plan.offsets[name]}))"
            lines.append(c.define(slot, text, f"{value.type}  steps {max(first, 0)}-{last}"))
        for name, (line, offset, step) in self.lines.items():
            text = f"(({line.value.type.ctype} *)(arena + {offset}))"
            note = f"{line.rows} rows of {line.value.type}  step {step}"
            lines.append(c.define(self.slots[name], text, note))
        return lines

    def _copied_once(self, value: Value) -> bool:
        """Is this input only read by one kernel, which copies it?"""
        steps = [i for i, node in enumerate(self.graph.nodes) if value in node.inputs]
        kept = any(value.name == v.name for v in self.graph.results)
        one = len(steps) == 1 and not kept and not self.graph.by_rows
        return one and self.plan.calls[steps[0]].function == ANYWHERE

    def _pointer(self, value: Value) -> str:
        if value.name in self.direct:
            return self.direct[value.name]
        if value.name in self.slots:
            return self.slots[value.name]
        home = self.plan.homes.get(value.name, value.name)
        if home in self.graph.state:
            return f"state->{self.fields[home]}"
        array = self.graph.constants.get(value.name)
        if array is None:
            raise GraphError("has neither a place nor data", where=f"%{value.name}")
        return self.constants.array(value.name, value.name, array, str(value.type))

    # calls ------------------------------------------------------------------------------------

    def _step(self, step: int) -> list[str]:
        call, node = self.plan.calls[step], self.graph.nodes[step]
        if isinstance(call, Loop) and call.stripes:
            return self._stripes(step, call)
        if isinstance(call, Loop):
            return pass_lines(call, self._starts(step, call), self._pointer, lambda a, to: self._argument(a, to, None))
        if self._elided(call):
            return [f"    {c.comment(f'{node.name}: {node.op.name}, the same bytes')}"]
        scratch = iter(self.plan.scratch_of(step))
        args = [self._argument(a, node.name, scratch) for a in call.args]
        return [c.call(call.function, args, node.name)]

    def _starts(self, step: int, loop: Loop) -> tuple[int, int]:
        """Where the bytes of a loop begin, and where the value that lends its bytes begins."""
        lender = loop.lender.name if loop.lender else ""
        return self.plan.offsets[self.plan.scratch_of(step)[0]], self.plan.offsets.get(lender, 0)

    def _stripes(self, step: int, loop: Loop) -> list[str]:
        made = self._made(step, loop)
        lines = made.lines()
        self.tables += [*made.tables, ""]
        return lines

    def _made(self, step: int, loop: Loop) -> Stripes:
        argument = lambda arg, layer: self._argument(arg, layer, None)  # noqa: E731
        return Stripes(loop, self._pointer, argument, self._start(step), self._tables)

    def _start(self, step: int) -> int:
        """Where the bytes of a loop begin."""
        return next((self.plan.offsets[name] for name in self.plan.scratch_of(step)), 0)

    def _argument(self, arg, layer: str, scratch) -> str:
        if arg is None or (isinstance(arg, Scratch) and not arg.bytes):
            return "NULL"
        if isinstance(arg, Value):
            return self._pointer(arg)
        if isinstance(arg, Packed):
            return self._packed(arg)
        if isinstance(arg, Source):
            return self.constants.source_of(arg.scales, layer)
        if isinstance(arg, Table):
            return self.constants.table(arg, f"{layer}.table")
        if isinstance(arg, Struct):
            return self.constants.struct(arg, layer)
        if isinstance(arg, Scratch):
            return f"arena + {self.plan.offsets[next(scratch)]}"
        return c.literal(arg)

    def _packed(self, arg: Packed) -> str:
        array = arg.pack(self.graph.constants[arg.value.name])
        key = ("packed", arg.value.name, array.tobytes())
        return self.constants.array(key, f"{arg.value.name}.packed", array, f"{arg.value.type}, in kernel order")

    def _elided(self, call: Call) -> bool:
        """Is this a copy onto itself?"""
        if not call.alias:
            return False
        y, x = call.args[0], call.args[1]
        return x.name in self.plan.offsets and self.plan.offsets[y.name] == self.plan.offsets[x.name]

    def _copy_in(self, value: Value, name: str) -> str:
        if not value.shape:
            return f"    *{self.slots[value.name]} = {name};"
        return f"    {COPY}({self.slots[value.name]}, {name}, {value.type.bytes});"

    def _copy_out(self, value: Value, name: str) -> str:
        return f"    {COPY}({name}, {self._pointer(value)}, {value.type.bytes});"


def _parameter(value: Value, name: str) -> str:
    """A scalar is passed by value, anything else by pointer."""
    return f"const {value.type.ctype} *{name}" if value.shape else f"{value.type.ctype} {name}"


def about(graph) -> str:
    ins = ", ".join(f"{v.name} {v.type}" for v in graph.inputs)
    outs = ", ".join(f"{v.name} {v.type}" for v in graph.outputs)
    return f"{graph.name}: {ins} -> {outs}. Generated by insitu."
