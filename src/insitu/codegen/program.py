"""A plan as a C program: `model.h` (the interface), `model.c` (the calls), `weights.h` (the constants).

Reads like a hand-written program: a line a tensor with its shape, a line a call with its layer.
Deterministic: the same plan gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.codegen import c
from insitu.errors import GraphError
from insitu.graph import Value
from insitu.graph.call import Call, Packed, Scratch, Struct, Table
from insitu.planner import Plan

COPY = "copy_bytes"  # the kernel that moves inputs in and outputs out


@dataclass(frozen=True)
class Program:
    prefix: str
    files: dict[str, str]  # file name -> text
    kernels: tuple[str, ...]  # functions called, each in c/kernels/<name>.c
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    arena_bytes: int
    const_bytes: int


def emit_program(plan: Plan, prefix: str = "net") -> Program:
    writer = _Writer(plan, prefix)
    body = [writer.step(step) for step in range(len(plan.calls))]
    source = writer.source(body)  # before the weights: an output may be a constant
    files = {f"{prefix}.h": writer.header(), f"{prefix}_weights.h": writer.weights(), f"{prefix}.c": source}
    kernels = tuple(sorted({COPY, *(call.function for call in plan.calls if not writer.elided(call))}))
    graph = plan.graph
    return Program(prefix, files, kernels, graph.inputs, graph.outputs, plan.arena_bytes, writer.const_bytes)


class _Writer:
    """Names things and remembers which constants and structs the calls have asked for."""

    def __init__(self, plan: Plan, prefix: str):
        self.plan, self.graph, self.prefix = plan, plan.graph, prefix
        self.taken: set[str] = set()
        self.slots = {name: self._name(name, upper=True) for name in plan.offsets if not name.startswith("scratch:")}
        self.constants: dict[object, str] = {}  # what -> C name
        self.declarations: list[str] = []
        self.structs: list[str] = []
        self.const_bytes = 0

    # names ------------------------------------------------------------------------------------

    def _name(self, name: str, upper: bool = False) -> str:
        word = c.identifier(name)
        word = stem = word.upper() if upper else word
        n = 1
        while word in self.taken:
            n += 1
            word = f"{stem}_{n}"
        self.taken.add(word)
        return word

    # arguments --------------------------------------------------------------------------------

    def argument(self, arg, step: int, counter: list[int]) -> str:
        if arg is None:
            return "NULL"
        if isinstance(arg, Value):
            return self.pointer(arg)
        if isinstance(arg, Packed):
            return self._packed(arg)
        if isinstance(arg, Table):
            return self._table(arg, f"{self.graph.nodes[step].name}.table")
        if isinstance(arg, Struct):
            return self._struct(arg, step)
        if isinstance(arg, Scratch):
            if not arg.bytes:
                return "NULL"
            name = self.plan.scratch_of(step)[counter[0]]
            counter[0] += 1
            return f"arena + {self.plan.offsets[name]}"
        return c.literal(arg)

    def pointer(self, value: Value) -> str:
        if value.name in self.slots:
            return self.slots[value.name]
        array = self.graph.constants.get(value.name)
        if array is None:
            raise GraphError("has neither a place nor data", where=f"%{value.name}")
        return self._constant(value.name, value.name, array, str(value.type))

    def _packed(self, arg: Packed) -> str:
        array = arg.pack(self.graph.constants[arg.value.name])
        key = (arg.value.name, getattr(arg.pack, "__qualname__", ""), array.tobytes())
        return self._constant(key, f"{arg.value.name}.packed", array, f"{arg.value.type}, in kernel order")

    def _table(self, table: Table, name: str) -> str:
        array = np.asarray(table.array)
        return self._constant(("table", array.dtype.str, array.tobytes()), name, array, "")

    def _constant(self, key, name: str, array: np.ndarray, note: str) -> str:
        if key not in self.constants:
            self.constants[key] = self._name(name)
            self.declarations.append(c.array(self.constants[key], array, note))
            self.const_bytes += array.nbytes
        return self.constants[key]

    def _struct(self, arg: Struct, step: int) -> str:
        node = self.graph.nodes[step]
        fields = {k: self._field(v, f"{node.name}.{k}") for k, v in arg.fields.items()}
        key = ("struct", arg.struct, tuple(fields.items()))
        if key not in self.constants:
            self.constants[key] = self._name(f"{node.name}.{arg.struct.split('_')[-1]}")
            self.structs.append(c.struct(arg.struct, self.constants[key], fields))
        return f"&{self.constants[key]}"

    def _field(self, value, name: str) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, tuple):
            return "{" + ", ".join(self._field(v, name) for v in value) + "}"
        return self._table(value, name) if isinstance(value, Table) else c.literal(value)

    # calls ------------------------------------------------------------------------------------

    def elided(self, call: Call) -> bool:
        """A copy onto itself."""
        if not call.alias:
            return False
        y, x = call.args[0], call.args[1]
        return x.name in self.plan.offsets and self.plan.offsets[y.name] == self.plan.offsets[x.name]

    def step(self, step: int) -> str:
        call, node = self.plan.calls[step], self.graph.nodes[step]
        if self.elided(call):
            return f"    {c.comment(f'{node.name}: {node.op.name}, the same bytes')}"
        counter = [0]
        args = [self.argument(a, step, counter) for a in call.args]
        return c.call(call.function, args, node.name)

    # files ------------------------------------------------------------------------------------

    def _signature(self) -> str:
        inputs = [f"const {v.type.ctype} *in_{c.identifier(v.name)}" for v in self.graph.inputs]
        outputs = [f"{v.type.ctype} *out_{i}" for i, v in enumerate(self.graph.outputs)]
        return f"void {self.prefix}_predict(unsigned char *arena, {', '.join([*inputs, *outputs])})"

    def _about(self) -> str:
        ins = ", ".join(f"{v.name} {v.type}" for v in self.graph.inputs)
        outs = ", ".join(f"{v.name} {v.type}" for v in self.graph.outputs)
        return f"/* {self.graph.name}: {c.comment(ins)[3:-3]} -> {c.comment(outs)[3:-3]}. Generated by insitu. */"

    def header(self) -> str:
        guard = f"INSITU_{self.prefix.upper()}_H"
        up = self.prefix.upper()
        return "\n".join([
            self._about(),
            f"#ifndef {guard}", f"#define {guard}", "",
            "#include <stdint.h>", "",
            f"#define {up}_ARENA_BYTES {self.plan.arena_bytes}  "
            f"/* no placement needs less than {self.plan.lower_bound_bytes} */", "",
            "/* Reads the inputs, writes the outputs. `arena` is scratch of the size above, aligned to 16 bytes;",
            " * nothing is kept there between calls. */",
            f"{self._signature()};", "",
            "#endif", "",
        ])  # fmt: skip

    def weights(self) -> str:
        return "\n".join([
            f"/* The constants of {c.comment(self.graph.name)[3:-3]}: {self.const_bytes:,} bytes. */",
            "#include <stdint.h>", "", *self.declarations, "",
        ])  # fmt: skip

    def source(self, body: list[str]) -> str:
        plan = self.plan
        peak = self.graph.nodes[plan.peak_step].name if self.graph.nodes else "-"
        lines = [
            self._about(),
            "#include <stddef.h>", "",
            f'#include "{self.prefix}.h"', f'#include "{self.prefix}_weights.h"', '#include "kernels.h"', "",
            c.comment(f"arena: {plan.arena_bytes:,} bytes, peak at step {plan.peak_step} ({peak})"),
            *self._slot_lines(), "", *self.structs, "",
            self._signature(), "{",
            *(self._copy(self.slots[v.name], f"in_{c.identifier(v.name)}", v) for v in self.graph.inputs),
            *body,
            *(self._copy(f"out_{i}", self.pointer(v), v) for i, v in enumerate(self.graph.outputs)),
            "}", "",
        ]  # fmt: skip
        return "\n".join(lines)

    def _copy(self, target: str, source: str, value: Value) -> str:
        return f"    {COPY}({target}, {source}, {value.type.bytes});"

    def _slot_lines(self) -> list[str]:
        lines = []
        for name, slot in self.slots.items():
            value = self.graph.values[name]
            first, last = self.plan.life[name]
            text = f"(({value.type.ctype} *)(arena + {self.plan.offsets[name]}))"
            lines.append(c.define(slot, text, f"{value.type}  steps {max(first, 0)}-{last}"))
        return lines
