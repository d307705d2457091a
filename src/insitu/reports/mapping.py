"""Which foreign ops become which of ours, read from the importers' tables and the functions in them.

A table maps a foreign name to a small function, and a function may build the ops that it names. Helper functions of
the importers are followed, so this says what a foreign op may become, not that every setting of it is supported.
"""

from __future__ import annotations

import dis
import importlib
import types
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise

from insitu.graph import REGISTRY, Op
from insitu.ops.conv import conv2d
from insitu.ops.depthwise import depthwise2d
from insitu.ops.layout import reshape, transpose

# format -> the module and name of its table
TABLES = {"onnx": ("onnx.read", "TABLE"), "tflite": ("tflite.ops", "OPS"), "torch": ("torch.read", "TABLE")}
# ops that importers insert for layout, not because the foreign op means them
PLUMBING = {transpose.name, reshape.name}
# helpers for an activation fused into an operator: not part of the operator's own meaning
FUSED = {"fused", "fused_range"}
# functions that take the name of an op: `c.make("conv2d", ...)`
MAKERS = {"make", "step"}
# what the canonical form (clean.py) makes of the ops that the table built
CLEANED = {conv2d.name: depthwise2d.name}


@cache
def table_of(form: str) -> dict[str, Callable]:
    """Foreign name -> importing function; empty if the importer or a package it needs is missing."""
    module, name = TABLES[form]
    try:
        found = getattr(importlib.import_module(f"insitu.importers.{module}"), name)
    except ModuleNotFoundError as e:
        if (e.name or "").startswith("insitu"):
            raise
        return {}
    return {str(foreign): function for foreign, function in found.items()}


@cache
def foreign_names() -> dict[str, dict[str, tuple[str, ...]]]:
    """Format -> our op -> the foreign names that become it."""
    return {form: _inverted(form) for form in TABLES}


def ops_for(form: str, foreign: str) -> tuple[str, ...]:
    """Our ops that this foreign op may become."""
    function = table_of(form).get(foreign)
    return () if function is None else tuple(sorted(ops_named_by(function)))


def _inverted(form: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for foreign in sorted(table_of(form)):
        for name in ops_for(form, foreign):
            found.setdefault(name, []).append(foreign)
    return {name: tuple(names) for name, names in found.items()}


def ops_named_by(function) -> set[str]:
    """The ops a function refers to: directly, by name, in a closure, or through a helper in its module."""
    found = _walk(function, set())
    found |= {CLEANED[name] for name in found & CLEANED.keys()}
    return found - PLUMBING or found


def _walk(thing, seen: set[int]) -> set[str]:
    if isinstance(thing, Op):
        return {thing.name}
    if isinstance(thing, str):
        return {thing} & REGISTRY.keys()  # `unary("relu")` keeps a name
    if id(thing) in seen:
        return set()
    seen.add(id(thing))
    if isinstance(thing, partial):
        return _union((thing.func, *thing.args, *thing.keywords.values()), seen)
    if isinstance(thing, tuple | list):
        return _union(thing, seen)
    if isinstance(thing, dict):
        return _union(thing.values(), seen)
    return _walk_function(thing, seen) if isinstance(thing, types.FunctionType) else set()


def _walk_function(function: types.FunctionType, seen: set[int]) -> set[str]:
    if not function.__module__.startswith("insitu.importers") or function.__name__ in FUSED:
        return set()
    names = _names(function.__code__)
    inside = [c.cell_contents for c in function.__closure__ or () if c.cell_contents is not function]
    inside += [function.__globals__[n] for n in names if n in function.__globals__]
    inside += list(function.__defaults__ or ()) + list((function.__kwdefaults__ or {}).values())
    spelled = _strings(function.__code__) & REGISTRY.keys() if names & MAKERS else set()
    return _union(inside, seen) | _attributes_of_ops(function.__code__) | spelled


def _names(code: types.CodeType) -> set[str]:
    """Global names and attributes used in a function and in functions defined inside it."""
    nested = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*(_names(c) for c in nested)) if nested else set(code.co_names)


def _strings(code: types.CodeType) -> set[str]:
    nested = [_strings(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return {c for c in code.co_consts if isinstance(c, str)}.union(*nested)


def _attributes_of_ops(code: types.CodeType) -> set[str]:
    """`conv2d`, if the function says `ops.conv2d`."""
    steps = list(dis.get_instructions(code))
    found = {b.argval for a, b in pairwise(steps) if a.opname == "LOAD_GLOBAL" and a.argval == "ops"}
    nested = [_attributes_of_ops(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return found.intersection(REGISTRY).union(*nested)


def _union(things, seen: set[int]) -> set[str]:
    return set().union(*(_walk(t, seen) for t in things))
