"""One C function from one plan: a line a tensor with its place, a line a call with its layer."""

from __future__ import annotations

from insitu.codegen import c
from insitu.codegen.constants import Constants
from insitu.errors import GraphError
from insitu.graph import Value
from insitu.graph.call import Call, Packed, Scratch, Struct, Table
from insitu.planner import Plan

COPY = "copy_bytes"  # the kernel that moves inputs in and outputs out


class Function:
    """Writes `<prefix>_<verb>`; asks `constants` for what lies in flash."""

    def __init__(self, verb: str, plan: Plan, prefix: str, constants: Constants, stateful: bool):
        self.verb, self.plan, self.graph, self.prefix = verb, plan, plan.graph, prefix
        self.constants, self.stateful = constants, stateful
        self.slots = self._name_slots()
        self.body = [self._step(step) for step in range(len(plan.calls))]
        self.ending = [self._copy_out(i, v) for i, v in enumerate(self.graph.outputs)]

    @property
    def kernels(self) -> set[str]:
        return {COPY, *(call.function for call in self.plan.calls if not self._elided(call))}

    def signature(self) -> str:
        state = [f"{self.prefix}_state *state"] if self.stateful else []
        inputs = [_parameter(v) for v in self.graph.inputs]
        outputs = [f"{v.type.ctype} *out_{i}" for i, v in enumerate(self.graph.outputs)]
        return f"void {self.prefix}_{self.verb}({', '.join([*state, 'unsigned char *arena', *inputs, *outputs])})"

    def source(self) -> str:
        plan = self.plan
        peak = self.graph.nodes[plan.peak_step].name if self.graph.nodes else "-"
        return "\n".join([
            c.comment(about(self.graph)),
            "#include <stddef.h>", "",
            f'#include "{self.prefix}.h"', f'#include "{self.prefix}_weights.h"', "",
            c.comment(f"arena: {plan.arena_bytes:,} bytes, peak at step {plan.peak_step} ({peak})"),
            *self._slot_lines(), "",
            self.signature(), "{",
            *(["    (void)state;"] if self.stateful else []),
            *map(self._copy_in, self.graph.inputs), *self.body, *self.ending,
            "}", "",
        ])  # fmt: skip

    # tensors ----------------------------------------------------------------------------------

    def _name_slots(self) -> dict[str, str]:
        slots, taken = {}, set()
        for name in self.plan.offsets:
            if name.startswith("scratch:"):
                continue
            stem = word = c.macro(name)
            n = 1
            while word in taken:
                n += 1
                word = f"{stem}_{n}"
            taken.add(word)
            slots[name] = word
        return slots

    def _slot_lines(self) -> list[str]:
        lines = []
        for name, slot in self.slots.items():
            value = self.graph.values[name]
            first, last = self.plan.life[name]
            text = f"(({value.type.ctype} *)(arena + {self.plan.offsets[name]}))"
            lines.append(c.define(slot, text, f"{value.type}  steps {max(first, 0)}-{last}"))
        return lines

    def _pointer(self, value: Value) -> str:
        if value.name in self.slots:
            return self.slots[value.name]
        home = self.plan.homes.get(value.name, value.name)
        if home in self.graph.state:
            return f"state->{c.identifier(home)}"
        array = self.graph.constants.get(value.name)
        if array is None:
            raise GraphError("has neither a place nor data", where=f"%{value.name}")
        return self.constants.array(value.name, value.name, array, str(value.type))

    # calls ------------------------------------------------------------------------------------

    def _step(self, step: int) -> str:
        call, node = self.plan.calls[step], self.graph.nodes[step]
        if self._elided(call):
            return f"    {c.comment(f'{node.name}: {node.op.name}, the same bytes')}"
        scratch = iter(self.plan.scratch_of(step))
        args = [self._argument(a, node.name, scratch) for a in call.args]
        return c.call(call.function, args, node.name)

    def _argument(self, arg, layer: str, scratch) -> str:
        if arg is None or (isinstance(arg, Scratch) and not arg.bytes):
            return "NULL"
        if isinstance(arg, Value):
            return self._pointer(arg)
        if isinstance(arg, Packed):
            return self._packed(arg)
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
        """A copy onto itself."""
        if not call.alias:
            return False
        y, x = call.args[0], call.args[1]
        return x.name in self.plan.offsets and self.plan.offsets[y.name] == self.plan.offsets[x.name]

    def _copy_in(self, value: Value) -> str:
        if not value.shape:
            return f"    *{self.slots[value.name]} = {input_name(value)};"
        return f"    {COPY}({self.slots[value.name]}, {input_name(value)}, {value.type.bytes});"

    def _copy_out(self, i: int, value: Value) -> str:
        return f"    {COPY}(out_{i}, {self._pointer(value)}, {value.type.bytes});"


def input_name(value: Value) -> str:
    return f"in_{c.identifier(value.name)}"


def _parameter(value: Value) -> str:
    """A scalar goes by value, anything else by pointer."""
    return (
        f"{value.type.ctype} {input_name(value)}"
        if not value.shape
        else f"const {value.type.ctype} *{input_name(value)}"
    )


def about(graph) -> str:
    ins = ", ".join(f"{v.name} {v.type}" for v in graph.inputs)
    outs = ", ".join(f"{v.name} {v.type}" for v in graph.outputs)
    return f"{graph.name}: {ins} -> {outs}. Generated by insitu."
