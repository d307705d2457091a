"""A C program from plans: `net.h` (the interface), one file per function, `net_weights.c` (the constants).

`emit_program(plan)` gives a program that only predicts; given {"predict": ..., "train_step": ...} the functions
share constants, state and arena. Deterministic: the same plans give the same bytes. The text of the constants is
written when it is asked for: a program that only runs here needs their bytes instead (embedded.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from zlib import crc32

import numpy as np

from insitu.codegen import c
from insitu.codegen.constants import Constants
from insitu.codegen.embedded import ELF, embedded_source
from insitu.codegen.function import Function, about
from insitu.codegen.life_layout import Life
from insitu.codegen.rows import RowsFunction, forget_rows, row_lines, takes_rows, with_cursor
from insitu.codegen.state import StateLayout, layout, state_kernels, state_source, state_struct
from insitu.graph import Graph, Type, Value
from insitu.planner import Plan


@dataclass(frozen=True)
class Program:
    prefix: str
    code: dict[str, str]  # file name -> text, of every file but that of the constants' values
    constants: Constants
    kernels: tuple[str, ...]  # functions called, each in c/kernels/<family>/<name>.c
    plans: dict[str, Plan]  # verb -> what that function runs
    arena_bytes: int
    state: StateLayout | None  # the persistent state, if there is any
    in_place: bool = False  # a device has no room for a second state: see codegen/device.py
    life: Life | None = None  # of a program that keeps its own samples: see codegen/life.py

    @cached_property
    def files(self) -> dict[str, str]:
        """File name -> text: the whole program as plain C."""
        return {**self.code, f"{self.prefix}_weights.c": self.constants.source()}

    def embedded(self, align: int = 1, macro: str = ELF) -> dict[str, str | bytes]:
        """The same to be built at once: the arrays of constants are a file of bytes, as embedded.py describes."""
        text, data = embedded_source(self.constants, align, macro)
        return {**self.code, f"{self.prefix}_weights.c": text, **data}

    @property
    def const_bytes(self) -> int:
        return self.constants.bytes

    @property
    def state_bytes(self) -> int:
        return self.state.bytes if self.state else 0


def emit_program(plans: Plan | Mapping[str, Plan], prefix: str = "net", life: Life | None = None) -> Program:
    """The program of one plan (predict), or of several that share their state; with a `life`, it keeps samples."""
    plans = {"predict": plans} if isinstance(plans, Plan) else dict(plans)
    fields = state_fields(plans)
    name = life.model if life else fingerprint(plans)
    state = layout(fields, initial_state(plans), name) if fields else None
    constants = Constants(prefix, living=life is not None)
    names, rows = state.names if state else {}, any(map(takes_rows, plans.values()))
    functions = [_function(verb, plan, prefix, constants, names, rows) for verb, plan in plans.items()]
    arena = max(plan.arena_bytes for plan in plans.values())
    arena = with_cursor(arena) if rows else arena
    files = {f"{prefix}_{f.verb}.c": f.source() for f in functions}
    files[f"{prefix}.h"] = _header(prefix, functions, state, arena, plans)
    if state:
        files[f"{prefix}_state.c"] = state_source(prefix, state, constants)
    classes = classes_of(plans)
    if classes:
        files[f"{prefix}_classes.c"] = _class_names(prefix, classes)
    files[f"{prefix}_weights.h"] = constants.header()
    kernels = set().union(*(f.kernels for f in functions), state_kernels(files[f"{prefix}_state.c"]) if state else ())
    return Program(prefix, files, constants, tuple(sorted(kernels)), plans, arena, state, life=life)


def with_state(program: Program, state: Mapping[str, np.ndarray]) -> Program:
    """The same program, as it was planned, with another first state: its `init` begins with what was learned."""
    plans = {
        verb: replace(p, graph=replace(p.graph, state={name: state[name] for name in p.graph.state}))
        for verb, p in program.plans.items()
    }
    return replace(emit_program(plans, program.prefix, program.life), in_place=program.in_place)


def with_life(program: Program, life: Life) -> Program:
    """The same program, as it was planned, with another life."""
    return replace(emit_program(program.plans, program.prefix, life), in_place=program.in_place)


def _function(verb: str, plan: Plan, prefix: str, constants: Constants, names, rows: bool) -> Function:
    if takes_rows(plan):
        return RowsFunction(verb, plan, prefix, constants, names)
    return Function(verb, plan, prefix, constants, names, (forget_rows(prefix),) if rows else ())


def state_fields(plans: Mapping[str, Plan]) -> tuple[Value, ...]:
    """All persistent values, widest elements first so that the struct has no holes."""
    found: dict[str, Type] = {}
    for plan in plans.values():
        for name in plan.graph.state:
            value = plan.graph.values.get(name)
            if value is not None:
                found[name] = value.type
    values = [Value(name, t) for name, t in found.items()]
    return tuple(sorted(values, key=lambda v: -v.type.numpy.itemsize))


def fingerprint(plans: Mapping[str, Plan]) -> str:
    """Identifies the frozen part of a model: a state learned with other frozen weights must not be loaded."""
    return fingerprint_of([plan.graph for plan in plans.values()])


def fingerprint_of(graphs: Iterable[Graph]) -> str:
    """The same before anything is planned."""
    digest, graphs = 0, list(graphs)
    for graph in graphs:
        for name in sorted(graph.constants):
            digest = crc32(np.ascontiguousarray(graph.constants[name]).tobytes(), crc32(name.encode(), digest))
    return f"{graphs[0].name}:{digest}"


def initial_state(plans: Mapping[str, Plan]) -> dict[str, np.ndarray]:
    return {name: array for plan in plans.values() for name, array in plan.graph.state.items()}


def classes_of(plans: Mapping[str, Plan]) -> tuple[str, ...]:
    """The names of the classes that a program predicts, if they are known."""
    graph = next(iter(plans.values())).graph
    scores = graph.outputs[0].shape if graph.outputs else ()  # a graph may only update its state
    return graph.classes if len(graph.classes) == (scores or (1,))[-1] else ()


def _class_names(prefix: str, classes: tuple[str, ...]) -> str:
    words = [f"    {c.string(name)}," for name in classes]
    head = f"const char *const {prefix}_class_names[{prefix.upper()}_CLASSES] = {{"
    about = c.comment(f"The names of {prefix}'s classes, in UTF-8. Generated by insitu.")
    return "\n".join([about, f'#include "{prefix}.h"', "", head, *words, "};", ""])


def _header(prefix: str, functions: list[Function], state, arena: int, plans: Mapping[str, Plan]) -> str:
    bound = max(plan.lower_bound_bytes for plan in plans.values())
    body = [
        "#include <stdint.h>", "",
        f"#define {prefix.upper()}_ARENA_BYTES {arena}  /* no placement in this order needs less than {bound} */", "",
        *(state_struct(prefix, state) if state else []),
        *(_class_lines(prefix, classes_of(plans))),
        *_column_lines(plans),
        "/* `arena` is scratch of the size above, aligned to 16 bytes; nothing is kept there between calls. */",
        *([""] if any(map(takes_rows, plans.values())) else []),
        *(row_lines(prefix, arena) if any(map(takes_rows, plans.values())) else []),
        *(line for f in functions for line in f.prototype()),
    ]  # fmt: skip
    return "\n".join([c.comment(about(next(iter(plans.values())).graph)), *c.guard(prefix, body)])


def _column_lines(plans: Mapping[str, Plan]) -> list[str]:
    """What the numbers of the first input are, if they have names."""
    graph = next(iter(plans.values())).graph
    if not graph.inputs or len(graph.columns) != (graph.inputs[0].shape or (0,))[-1]:
        return []
    name = graph.inputs[0].name
    several = len(graph.columns) < graph.inputs[0].type.size
    head = f"The columns of {name}{', in each of its readings' if several else ''}:"
    return [c.comment(head), *(c.comment(f"[{i}] {words}") for i, words in enumerate(map(_column, graph.columns))), ""]


def _column(name: str) -> str:
    column, found, word = name.partition("=")
    return f"{name}: 1 where {column} is {word}, else 0" if found else name


def _class_lines(prefix: str, classes: tuple[str, ...]) -> list[str]:
    if not classes:
        return []
    count = f"{prefix.upper()}_CLASSES"
    return [f"#define {count} {len(classes)}", f"extern const char *const {prefix}_class_names[{count}];", ""]
