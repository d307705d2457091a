"""What an op is, and the registry of all of them. The ops themselves are declared in ops/.

An op is a class of plain functions under `@op`:

    @op
    class relu:
        '''y = max(x, 0)'''
        cases = [...]                    # Case values, walked by every test
        def infer(x): ...                # types in, type (or tuple of types) out
        def eval(x): ...                 # arrays in, array out: the meaning
        def grad(g, y, x): ...           # builds graph: the gradient of each input, or None
        def emit(y, x): ...              # a Call value (codegen turns it into C)

Attributes are the keyword-only parameters of `infer`, with their defaults. Every other rule may ask
for any attribute by naming it as a keyword-only parameter; two names are reserved: `node` (the whole
node, with its types) and, in `infer`, `out` (the type the caller wants for the output: how a
quantised op learns its output scale). `emit` may ask for three more: `fixed` (which inputs are constants),
`target` (for what machine) and `tight` (1: the same bytes with less scratch, for some more instructions; 2: the least).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from insitu.errors import GraphError

REGISTRY: dict[str, Op] = {}
RULES = ("infer", "eval", "grad", "emit", "scratch", "in_place", "stripe", "macs")


@dataclass(frozen=True)
class Case:
    """One way to call an op: input types, attributes, and a name that says what is special about it."""

    name: str
    inputs: tuple  # of Type, or of numpy arrays where the values matter
    attrs: dict[str, Any] = field(default_factory=dict)
    out: Any = None


@dataclass(frozen=True, eq=False)
class Op:
    name: str
    doc: str
    defaults: dict[str, Any]  # attribute -> default; `...` where it must be given
    rules: dict[str, Callable]
    cases: tuple[Case, ...]
    kind: str  # "float", "int8", "any": in which graphs it is at home
    source: str  # file:line of the declaration
    overwrites: bool  # its kernel changes the inputs `in_place` names: they must be shared, not merely may
    domain: tuple | None  # (low, high) of inputs where random test values must be drawn from

    def __call__(self, *inputs, name: str | None = None, out=None, **attrs) -> Any:
        """Append a node for this op to the graph being built; gives its output value (or a tuple of them)."""
        from insitu.graph.graph import building

        return building().add(self, inputs, attrs, name=name, out=out)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self):  # pickles by name: graphs cross process borders, ops are in every process
        return lookup, (self.name,)

    def has(self, rule: str) -> bool:
        return rule in self.rules

    def asks(self, rule: str, keyword: str) -> bool:
        """Whether it has this rule, and the rule takes this keyword."""
        return rule in self.rules and keyword in _keywords(self.rules[rule])

    def apply(self, rule: str, args: tuple, attrs: dict, **reserved):
        """Call a rule with the keyword parameters it asks for."""
        function = self.rules[rule]
        names = _keywords(function)
        wanted = {k: (attrs[k] if k in attrs else reserved[k]) for k in names if k in attrs or k in reserved}
        return function(*args, **wanted)

    def complete(self, attrs: dict) -> dict:
        """The attributes with defaults filled in, lists frozen; unknown or missing ones are an error."""
        unknown = set(attrs) - set(self.defaults)
        if unknown:
            raise GraphError(f"op {self.name} has no attribute {sorted(unknown)[0]!r}")
        full = {k: freeze(attrs.get(k, default)) for k, default in self.defaults.items()}
        missing = [k for k, v in full.items() if v is ...]
        if missing:
            raise GraphError(f"op {self.name} needs attribute {missing[0]!r}")
        return full


def op(cls: type | None = None, *, kind: str | None = None) -> Any:
    """Declare an op: see the top of this file. Gives an Op (or, with `kind`, a decorator that does)."""
    return (lambda c: _declare(c, kind)) if cls is None else _declare(cls, kind)


def _declare(cls: type, kind: str | None) -> Op:
    rules = {r: getattr(cls, r) for r in RULES if hasattr(cls, r)}
    line = rules["infer"].__code__.co_firstlineno  # without reading the file, which getsourcelines would
    module = cls.__module__.replace(".", "/")
    made = Op(
        name=cls.__name__,
        doc=inspect.cleandoc(cls.__doc__ or ""),
        defaults=_defaults(rules["infer"]),
        rules=rules,
        cases=tuple(getattr(cls, "cases", ())),
        kind=kind or ("int8" if cls.__name__.endswith("_s8") else "float"),
        source=f"src/{module}.py:{line}",
        overwrites=getattr(cls, "overwrites", False),
        domain=getattr(cls, "domain", None),
    )
    if made.name in REGISTRY:
        raise ValueError(f"op {made.name} is declared twice")
    REGISTRY[made.name] = made
    return made


def lookup(name: str) -> Op:
    if name not in REGISTRY:
        import_module("insitu.ops")  # declares them all; graph/ itself knows none
    if name not in REGISTRY:
        raise GraphError(f"unknown op {name!r}", hint="`insitu ops` lists all of them")
    return REGISTRY[name]


def freeze(value):
    """Lists become tuples, all the way down, and numpy scalars plain ones: attributes are immutable."""
    if isinstance(value, list | tuple):
        return tuple(freeze(v) for v in value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    return value


@cache
def _keywords(function) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def _defaults(infer) -> dict[str, Any]:
    parameters = inspect.signature(infer).parameters.values()
    return {
        p.name: ... if p.default is p.empty else p.default
        for p in parameters
        if p.kind is p.KEYWORD_ONLY and p.name not in ("out", "node")
    }
