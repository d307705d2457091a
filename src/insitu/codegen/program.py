"""A C program from plans: `net.h` (the interface), a file a function, `net_weights.c` (the constants).

`emit_program(plan)` gives inference alone; given {"predict": ..., "train_step": ...} the functions
share constants, state and arena. Deterministic: the same plans give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from insitu.codegen import c
from insitu.codegen.constants import Constants
from insitu.codegen.function import Function, about
from insitu.graph import Type, Value
from insitu.planner import Plan


@dataclass(frozen=True)
class Program:
    prefix: str
    files: dict[str, str]  # file name -> text
    kernels: tuple[str, ...]  # functions called, each in c/kernels/<name>.c
    plans: dict[str, Plan]  # verb -> what that function runs
    arena_bytes: int
    const_bytes: int
    state: tuple[Value, ...]  # the fields of the state struct, in order

    @property
    def state_bytes(self) -> int:
        return sum(v.type.bytes for v in self.state)


def emit_program(plans: Plan | Mapping[str, Plan], prefix: str = "net") -> Program:
    """The program of one plan (predict), or of several that share their state."""
    plans = {"predict": plans} if isinstance(plans, Plan) else dict(plans)
    state = state_fields(plans)
    constants = Constants(prefix)
    functions = [Function(verb, plan, prefix, constants, bool(state)) for verb, plan in plans.items()]
    arena = max(plan.arena_bytes for plan in plans.values())
    files = {f"{prefix}_{f.verb}.c": f.source() for f in functions}
    files[f"{prefix}.h"] = _header(prefix, functions, state, arena, plans)
    files[f"{prefix}_weights.h"] = constants.header()
    files[f"{prefix}_weights.c"] = constants.source()
    kernels = tuple(sorted(set().union(*(f.kernels for f in functions))))
    return Program(prefix, files, kernels, plans, arena, constants.bytes, state)


def state_fields(plans: Mapping[str, Plan]) -> tuple[Value, ...]:
    """Everything that lasts, widest elements first so that the struct has no holes."""
    found: dict[str, Type] = {}
    for plan in plans.values():
        for name in plan.graph.state:
            value = plan.graph.values.get(name)
            if value is not None:
                found[name] = value.type
    values = [Value(name, t) for name, t in found.items()]
    return tuple(sorted(values, key=lambda v: -v.type.numpy.itemsize))


def initial_state(plans: Mapping[str, Plan]) -> dict[str, np.ndarray]:
    return {name: array for plan in plans.values() for name, array in plan.graph.state.items()}


def _header(prefix: str, functions: list[Function], state, arena: int, plans: Mapping[str, Plan]) -> str:
    bound = max(plan.lower_bound_bytes for plan in plans.values())
    struct = _state_struct(prefix, state) if state else []
    body = [
        "#include <stdint.h>", "",
        f"#define {prefix.upper()}_ARENA_BYTES {arena}  /* no placement in this order needs less than {bound} */", "",
        *struct,
        "/* `arena` is scratch of the size above, aligned to 16 bytes; nothing is kept there between calls. */",
        *(f"{f.signature()};" for f in functions),
    ]  # fmt: skip
    return "\n".join([c.comment(about(next(iter(plans.values())).graph)), *c.guard(prefix, body)])


def _state_struct(prefix: str, state: tuple[Value, ...]) -> list[str]:
    lines = [c.field(v.type.ctype, c.identifier(v.name), v.type.size, str(v.type)) for v in state]
    total = sum(v.type.bytes for v in state)
    return [
        f"/* what lasts from call to call: {total:,} bytes */",
        "typedef struct {",
        *lines,
        f"}} {prefix}_state;",
        "",
    ]
