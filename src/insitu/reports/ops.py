"""Everything known about an op: from the registry, from emitting its cases (kernels), from the importers' tables."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cache

import insitu.ops  # noqa: F401  fills the registry
from insitu.errors import Error, GraphError
from insitu.graph import REGISTRY, Case, Op, Type, build, lookup, type_of
from insitu.planner.plan import call_of
from insitu.reports.mapping import foreign_names
from insitu.terminal.table import pairs, table
from insitu.toolchain.sources import C_FOLDER, closure, includes, kernel_file, kernel_paths, kernel_source

SHARED = ("kernels/", "numbers/")  # headers of a few kernels: others declare everything, whoever uses it
SHOWN = ("float", "any", "int8")  # the order of the table


@dataclass(frozen=True)
class OpInfo:
    name: str
    kind: str  # float, int8, any
    formula: str
    doc: str
    source: str
    attributes: dict[str, str]
    gradient: bool
    kernels: tuple[str, ...]
    importers: dict[str, tuple[str, ...]]  # format -> its names for this op
    fast: tuple[str, ...]  # machines with a fast path
    cases: tuple[str, ...]

    def to_json(self) -> dict:
        return asdict(self)

    def to_text(self) -> str:
        """Everything about one op."""
        kernels = [f"src/insitu/c/{kernel_file(k)}" for k in self.kernels] or ["none yet"]
        attributes = [f"{k}={v}" if v else f"{k} (must be given)" for k, v in self.attributes.items()]
        formats = [f"{k}: {', '.join(v)}" for k, v in self.importers.items()]
        rows = [
            *_labelled("declared", [self.source]),
            *_labelled("kind", [self.kind]),
            *_labelled("attributes", attributes or ["none"]),
            *_labelled("gradient", ["yes" if self.gradient else "not yet"]),
            *_labelled("kernels", kernels),
            *_labelled("fast paths", [", ".join(self.fast) or "none: plain C"]),
            *_labelled("imported from", formats or ["nothing"]),
            *_labelled("cases", self.cases),
            *_labelled("tests", ["pytest tests/ops/test_cases.py", f'pytest tests/training -k "{self.name}"']),
        ]
        return f"{self.name}\n\n{self.doc}\n\n{pairs(rows)}"


def op_info(name: str) -> OpInfo:
    op = lookup(name)
    kernels = kernels_of(op)
    return OpInfo(
        name=op.name,
        kind=op.kind,
        formula=op.doc.splitlines()[0] if op.doc else "",
        doc=op.doc,
        source=op.source,
        attributes={k: "" if v is ... else repr(v) for k, v in op.defaults.items()},
        gradient=op.has("grad"),
        kernels=kernels,
        importers={form: names[name] for form, names in foreign_names().items() if name in names},
        fast=fast_paths(kernels),
        cases=tuple(c.name for c in op.cases),
    )


def find_ops(name: str) -> list[OpInfo]:
    """The op of this name, or the ops that a foreign op of this name (Conv, CONV_2D, nn.Conv2d) becomes."""
    if name in REGISTRY:
        return [op_info(name)]
    plain = name.rpartition(".")[2].lower().replace("_", "")
    found = {
        ours
        for names in foreign_names().values()
        for ours, theirs in names.items()
        if plain in {t.lower().replace("_", "") for t in (*theirs, ours)}
    }
    found |= {ours for ours in REGISTRY if ours.replace("_", "") == plain}
    if not found:
        near = get_close_matches(name.lower(), [n for n in REGISTRY if not n.endswith(("_dx", "_dw", "_s8"))])
        hint = "`insitu ops` lists all of them"
        raise GraphError(f"unknown op {name!r}", hint=f"{' or '.join(near)}; {hint}" if near else hint)
    return [op_info(ours) for ours in sorted(found)]


def all_ops() -> list[OpInfo]:
    """Every op, float before int8, by name."""
    found = [op_info(name) for name in REGISTRY]
    return sorted(found, key=lambda i: (SHOWN.index(i.kind), i.name))


def ops_table(infos: list[OpInfo]) -> str:
    rows = [(i.name, i.kind, i.formula, i.gradient, _list(i.kernels), _list(i.importers), len(i.cases)) for i in infos]
    return table(("op", "kind", "meaning", "gradient", "C kernels", "imported from", "cases"), rows)


@cache
def kernels_of(op: Op) -> tuple[str, ...]:
    """The C functions its cases call, with and without constants: the choice of kernel may depend on them."""
    if not op.has("emit"):
        return ()
    found = {_function(op, case, fixed) for case in op.cases for fixed in (False, True)}
    return tuple(sorted(found - {None}))  # type: ignore[type-var]


def _function(op: Op, case: Case, fixed: bool) -> str | None:
    with build(op.name) as b:
        values = [_value(b, f"x{i}", given, fixed and i > 0) for i, given in enumerate(case.inputs)]
        try:
            made = op(*values, out=case.out, **case.attrs)
            return call_of(b.nodes[-1], b.graph(*(made if isinstance(made, tuple) else (made,)))).function
        except Error:
            return None  # tests/ops reports illegal cases


def _value(builder, name: str, given, constant: bool):
    import numpy as np

    type_ = given if isinstance(given, Type) else type_of(given)
    if not constant:
        return builder.input(name, type_)
    array = np.ones(type_.shape, type_.numpy) if isinstance(given, Type) else given
    return builder.constant(name, array, type_)


def fast_paths(kernels: tuple[str, ...]) -> tuple[str, ...]:
    """Machines with a fast version of a primitive that these kernels use."""
    known = tuple(k for k in kernels if k in kernel_paths(C_FOLDER))
    words = {w for k in closure(known) for w in _words(kernel_source(k))}
    return tuple(sorted(machine for machine, primitives in primitives_by_machine().items() if words & primitives))


def _words(source: str) -> set[str]:
    """The functions that a C file calls, itself or in the headers it shares with others."""
    headers = [C_FOLDER / name for name in includes(source) if name.startswith(SHARED)]
    texts = [source, *(h.read_text() for h in headers)]
    return {word for text in texts for word in re.findall(r"\b(\w+)\s*\(", text)}


@cache
def primitives_by_machine() -> dict[str, set[str]]:
    """avx512 -> {dot_f32, ...}: the fast versions that a machine's folder of isa/ has in place of the scalar ones."""
    found: dict[str, set[str]] = {}
    for header in sorted((C_FOLDER / "isa").glob("*/*.h")):
        names = re.findall(r"^#define (\w+) [a-z0-9]+_\1$", header.read_text(), re.M)
        found.setdefault(header.parent.name, set()).update(names)
    return found


def _labelled(label: str, lines) -> list[tuple[str, str]]:
    return [(label if i == 0 else "", line) for i, line in enumerate(lines)]


def _list(names) -> str:
    return ", ".join(names) or "-"
