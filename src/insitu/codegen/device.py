"""A program as the device protocol sees it: `<prefix>_device.c` and `.h`, tables for c/device/device.c.

Each verb has one line per input and output with its slot in the arena, and a wrapper that calls the verb on the
slots themselves, so that nothing is copied. The protocol's own memory and code are in c/device/; docs/protocol.md
describes the bytes on the line. `interface_of` is what the client needs to know.

A received state waits in the arena until it has been checked, so the arena is at least as large as a saved state. If
SRAM cannot hold two states (`Program.in_place`), the new state overwrites the old one instead.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from insitu.codegen import c
from insitu.codegen.life import LIFE_KERNELS, emit_life, life_sources
from insitu.codegen.life_layout import layout_of
from insitu.codegen.program import Program, classes_of
from insitu.codegen.state import HEADER_BYTES, MAGIC, StateLayout
from insitu.errors import GraphError
from insitu.graph import Graph, Value
from insitu.ops.loss import softmax_cross_entropy

PROTOCOL = 1
FRAME_BYTES, HEAD_BYTES, CRC_BYTES = 512, 12, 4  # as in c/device/link.h, device.h
DATA_BYTES = FRAME_BYTES - HEAD_BYTES - CRC_BYTES
MOST_INPUTS = 8  # DEVICE_INPUTS
# files under c/; together with a port.c they are the whole protocol
SOURCES = ("device/check.c", "device/device.c", "device/link.c", "device/requests.c", "device/state.c")
KERNELS = ("copy_bytes", "crc32_bytes")  # the kernels they call
COUNTERS = "counters"  # the lasting value that counts skipped, clipped and saturated updates
INFO = "<HHIIIIB"  # protocol, frame bytes, model, program, arena bytes, saved bytes, verbs; then each verb
CHECKS = {"f32": "DEVICE_FLOAT", "f64": "DEVICE_DOUBLE"}


@dataclass(frozen=True, eq=False)
class Interface:
    """What the device and the client must agree on."""

    verbs: dict[str, tuple[tuple[Value, ...], tuple[Value, ...]]]  # name -> inputs, outputs; in order
    state: StateLayout | None
    program: int  # identifies this program
    arena_bytes: int
    rows: Mapping[str, int] = field(default_factory=dict)  # verb -> the input that is processed as it arrives
    classes: tuple[str, ...] = ()  # names of the classes, if they are known
    life: Mapping[str, Any] | None = None  # of a program that keeps its own samples: Layout.to_json()

    @property
    def saved_bytes(self) -> int:
        return HEADER_BYTES + self.state.bytes if self.state else 0

    def info(self) -> bytes:
        """What the device answers to info requests, one frame after the other."""
        model = self.state.model if self.state else 0
        head = (PROTOCOL, FRAME_BYTES, model, self.program, self.arena_bytes, self.saved_bytes, len(self.verbs))
        verbs = b"".join(_described(name, *v) for name, v in self.verbs.items())
        return struct.pack(INFO, *head) + verbs + _named(self.classes)


def interface_of(program: Program) -> Interface:
    verbs = {verb: (plan.graph.inputs, plan.graph.outputs) for verb, plan in program.plans.items()}
    rows = {verb: number for verb, plan in program.plans.items() for number in _by_rows(plan.graph)}
    crc, arena = program_crc(program), device_arena_bytes(program)
    layout = layout_of(program)
    return Interface(verbs, program.state, crc, arena, rows, classes_of(program.plans), layout and layout.to_json())


def _by_rows(graph: Graph) -> list[int]:
    return [i for i, v in enumerate(graph.inputs) if v.name == graph.by_rows]


def program_crc(program: Program) -> int:
    """A CRC of every generated line: another model, scheme, plan or version of insitu gives another number."""
    files = {**program.files, **emit_life(program)}
    text = "".join(f"{name}\n{files[name]}" for name in sorted(files))
    return crc32(text.encode())


def staged_bytes(program: Program) -> int:
    """The bytes of the arena that a received state takes until it has been checked."""
    return HEADER_BYTES + program.state_bytes if program.state else 1


def in_place(program: Program) -> bool:
    """Does a received state overwrite the old one? Never if the arena has room for it."""
    return program.in_place and program.arena_bytes < staged_bytes(program)


def device_arena_bytes(program: Program) -> int:
    """The arena of a device: smaller than a saved state if and only if states are received in place."""
    return program.arena_bytes if in_place(program) else max(program.arena_bytes, staged_bytes(program))


def emit_device(program: Program) -> dict[str, str]:
    """File name -> text of the two files that tie a program to the protocol."""
    _check(program)
    prefix = program.prefix
    verbs = [(verb, plan.graph, plan.offsets) for verb, plan in program.plans.items()]
    parts = [part for number in verbs for part in _verb(program, *number)]
    source = "\n".join([
        c.comment(f"{prefix} as the device protocol sees it. Generated by insitu."),
        "#include <stddef.h>", "", f'#include "{prefix}_device.h"', "",
        f"unsigned char {prefix}_device_arena[{prefix.upper()}_DEVICE_ARENA_BYTES] __attribute__((aligned(16)));",
        *([f"{prefix}_state {prefix}_device_state;"] if program.state else []), "",
        *parts, *_state_functions(program), *_model(program), "",
    ])  # fmt: skip
    return {f"{prefix}_device.c": source, f"{prefix}_device.h": _header(program), **emit_life(program)}


def main_source(prefix: str = "net") -> str:
    """The smallest firmware: serve the protocol forever."""
    return f"""/* Serves the device protocol over the bytes of port.c. Generated by insitu. */
#include "{prefix}_device.h"

int main(void)
{{
    device_run(&{prefix}_device);
    return 0;
}}
"""


def page_source(prefix: str = "net") -> str:
    """The program of a WebAssembly module."""
    return f"""/* The program that c/device/ports/page.c calls. Generated by insitu. */
#include "{prefix}_device.h"

const device_model *page_model(void);

const device_model *page_model(void)
{{
    return &{prefix}_device;
}}
"""


# parts of the files -----------------------------------------------------------------------------


def kernels_of(program: Program) -> tuple[str, ...]:
    """The kernels that a program's firmware calls."""
    return (*program.kernels, *KERNELS, *(LIFE_KERNELS if program.life else ()))


def sources_of(program: Program) -> tuple[str, ...]:
    """The files under c/ that a program's firmware has besides its port."""
    return (*SOURCES, *life_sources(program))


def _check(program: Program) -> None:
    for verb, plan in program.plans.items():
        if len(plan.graph.inputs) > MOST_INPUTS:
            raise GraphError(f"{verb} has {len(plan.graph.inputs)} inputs, the device protocol takes {MOST_INPUTS}")


def _header(program: Program) -> str:
    prefix = program.prefix
    body = [
        '#include "device/device.h"', f'#include "{prefix}.h"', "",
        c.comment("the arena" + ("" if in_place(program) else ", and room for a received state until it is checked")),
        f"#define {prefix.upper()}_DEVICE_ARENA_BYTES {device_arena_bytes(program)}", "",
        f"extern unsigned char {prefix}_device_arena[{prefix.upper()}_DEVICE_ARENA_BYTES];",
        *([f"extern {prefix}_state {prefix}_device_state;"] if program.state else []),
        f"extern const device_model {prefix}_device;",
    ]  # fmt: skip
    return "\n".join([c.comment(f"{prefix} for device_run. Generated by insitu."), *c.guard(f"{prefix}_device", body)])


def _verb(program: Program, verb: str, graph: Graph, offsets: dict[str, int]) -> list[str]:
    """The tables of one verb's inputs and outputs, and its wrapper."""
    slots = [(v, "NULL" if v.name == graph.by_rows else _slot(program, v, offsets)) for v in graph.inputs]
    inputs = [(v, f"{{{slot}, {v.type.bytes}, {_checked(graph, v)}}}") for v, slot in slots]
    outputs = [(v, f"{{{place_of(program, verb, v)}, {v.type.bytes}}}") for v in graph.outputs]
    return [
        *_table("device_input", f"{verb}_inputs", inputs),
        *_table("device_output", f"{verb}_outputs", outputs),
        *(_pieces if graph.by_rows else _run)(program, verb),
    ]


def _run(program: Program, verb: str) -> list[str]:
    """The wrapper that calls the verb on its slots."""
    call = f"{program.prefix}_{verb}({', '.join(_arguments(program, verb))})"
    return [f"static void run_{verb}(void)", "{", f"    {call};", "}", ""]


def _pieces(program: Program, verb: str) -> list[str]:
    """The parts of a verb that processes an input as it arrives."""
    name, arena = f"{program.prefix}_{verb}", f"{program.prefix}_device_arena"
    return [
        f"static void begin_{verb}(void)", "{", f"    {name}_begin({arena});", "}", "",
        f"static int32_t take_{verb}(const uint8_t *from, int32_t bytes)", "{",
        f"    return {name}_bytes({arena}, from, bytes);", "}", "",
        f"static int32_t end_{verb}(void)", "{",
        f"    return {name}_end({', '.join(_arguments(program, verb))});", "}", "",
        f"static const device_rows {verb}_rows = {{begin_{verb}, take_{verb}, end_{verb}}};", "",
    ]  # fmt: skip


def _table(kind: str, name: str, rows: list[tuple[Value, str]]) -> list[str]:
    if not rows:
        return []
    lines = [f"    {row + ',':<70} {c.comment(f'{v.name} {v.type}')}" for v, row in rows]
    return [f"static const {kind} {name}[{len(rows)}] = {{", *lines, "};", ""]


def _arguments(program: Program, verb: str) -> list[str]:
    plan = program.plans[verb]
    state = [f"&{program.prefix}_device_state"] if program.state else []
    inputs = []
    for v in (v for v in plan.graph.inputs if v.name != plan.graph.by_rows):
        pointer = f"({'const ' if v.shape else ''}{v.type.ctype} *)({_slot(program, v, plan.offsets)})"
        inputs.append(pointer if v.shape else f"*{pointer}")
    outputs = [f"({v.type.ctype} *)({place_of(program, verb, v)})" for v in plan.graph.outputs]
    return [*state, f"{program.prefix}_device_arena", *inputs, *outputs]


def _slot(program: Program, value: Value, offsets: dict[str, int]) -> str:
    return f"{program.prefix}_device_arena + {offsets[value.name]}"


def place_of(program: Program, verb: str, value: Value) -> str:
    """Where an output is after the call: in the arena, or in the state."""
    plan = program.plans[verb]
    if value.name in plan.offsets:
        return _slot(program, value, plan.offsets)
    home = plan.homes.get(value.name, value.name)
    if home in plan.graph.state and program.state:
        return f"(unsigned char *){program.prefix}_device_state.{program.state.names[home]}"
    raise GraphError(f"{verb} has a constant as an output, which a device cannot return", where=f"%{value.name}")


def _checked(graph: Graph, value: Value) -> str:
    """How the device checks an input before it runs, and how many classes a label may name."""
    for node in graph.nodes:
        if node.op is softmax_cross_entropy and node.inputs[1].name == value.name:
            return f"DEVICE_CLASS, {node.inputs[0].shape[1]}"
    return f"{CHECKS.get(value.dtype, 'DEVICE_ANY')}, 0"


def _state_functions(program: Program) -> list[str]:
    if not program.state:
        return []
    prefix = program.prefix
    return ["static void init(void)", "{", f"    {prefix}_init(&{prefix}_device_state);", "}", ""]


def _model(program: Program) -> list[str]:
    prefix, info = program.prefix, interface_of(program).info()
    verbs = [f"    {{{_entry(verb, plan.graph)}}}," for verb, plan in program.plans.items()]
    fields = {
        "verbs": "verbs", "verb_count": str(len(verbs)), "info": "info", "info_bytes": str(len(info)),
        "arena": f"{prefix}_device_arena", **_state_fields(program),
    }  # fmt: skip
    return [
        f"static const device_verb verbs[{len(verbs)}] = {{", *verbs, "};", "",
        "static " + c.array("info", np.frombuffer(info, np.uint8)).removeprefix("INSITU_ALIGNED "), "",
        f"const device_model {prefix}_device = {{", *(f"    .{k} = {v}," for k, v in fields.items()), "};",
    ]  # fmt: skip


def _entry(verb: str, graph: Graph) -> str:
    run, rows = ("NULL", f"&{verb}_rows") if graph.by_rows else (f"run_{verb}", "NULL")
    names = [f"{verb}_{kind}" if values else "NULL" for kind, values in _kinds(graph)]
    return ", ".join([run, *names, *(str(len(values)) for _, values in _kinds(graph)), rows])


def _kinds(graph: Graph):
    return (("inputs", graph.inputs), ("outputs", graph.outputs))


def _state_fields(program: Program) -> dict[str, str]:
    if not program.state:
        return {}
    state = f"{program.prefix}_device_state"
    counters = next((v for v in program.state.fields if v.name == COUNTERS), None)
    return {
        **({"in_place": "1"} if in_place(program) else {}),
        "state": f"(unsigned char *)&{state}",
        "saved_bytes": str(HEADER_BYTES + program.state_bytes),
        "head": f"{{{MAGIC}u, {program.state.model}u, {program.state_bytes}}}",
        **({"counters": f"(const unsigned char *){state}.{COUNTERS}"} if counters else {}),
        **({"counter_bytes": str(counters.type.bytes)} if counters else {}),
        "init": "init",
    }


def _described(name: str, inputs: tuple[Value, ...], outputs: tuple[Value, ...]) -> bytes:
    word = name.encode()
    sizes = [v.type.bytes for v in (*inputs, *outputs)]
    return struct.pack(f"<B{len(word)}sBB{len(sizes)}I", len(word), word, len(inputs), len(outputs), *sizes)


def _named(classes: tuple[str, ...]) -> bytes:
    """The names of the classes: how many, then each with its length; nothing where there are none."""
    words = [name.encode() for name in classes]
    return struct.pack("<H", len(words)) + b"".join(bytes([len(w)]) + w for w in words) if words else b""
