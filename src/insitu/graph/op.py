"""What an op is, and the registry of all of them. The ops themselves are declared in ops/.

An op is a Python name. Its rules are module-level functions named `_`, registered by a decorator:

    relu = op("relu", "y = max(x, 0)", cases=[...])      # Case values, walked by every test

    @relu.infer                                          # types in, type (or tuple of types) out
    def _(x: Type) -> Type: ...

    @relu.eval                                           # arrays in, array out: the meaning
    def _(x: Array) -> Array: ...

    @relu.grad                                           # builds graph: the gradient of each input, or None
    def _(g: Value, y: Value, x: Value) -> Grads: ...

    @relu.emit                                           # a Call value (codegen turns it into C)
    def _(y: Value, x: Value) -> Call: ...

    relu.may(in_place=True, stripes=alike)               # what the planner may do with it: see `Facts`

A rule that several ops share is registered by a call: `relu.infer(same)`. `macs` is also a rule: multiply-adds.

Attributes are the keyword-only parameters of `infer`, with their defaults. Every other rule may ask for any attribute
by naming it as a keyword-only parameter. Two names are reserved: `node` (the whole node, with its types) and, in
`infer`, `out` (the output type that the caller wants: how a quantised op learns its output scale). `emit` may ask for
three more: `fixed` (which inputs are constants), `target` (the machine) and `tight` (1: the same bytes with less
scratch, for some more instructions; 2: the least scratch).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from insitu.errors import GraphError

if TYPE_CHECKING:
    from insitu.graph.graph import Node, Value
    from insitu.graph.loops import Rows, TiledUpdate

REGISTRY: dict[str, Op] = {}
RULES = ("infer", "eval", "grad", "emit", "macs")

Kind = Literal["float", "int8", "any"]
Change = Literal["", "in_place", "weights_in_parts", "blocks_in_groups", "one_kernel"]
Rule = TypeVar("Rule", bound=Callable[..., Any])
Grads = tuple["Value | None", ...]  # the result of `grad`: one per input
Index = int | None | tuple[int | None, ...]  # of the input whose bytes the first output, or each output, reuses
InPlace = bool | tuple[int | None, ...] | Callable[..., Index]


@dataclass(frozen=True)
class Case:
    """One way to call an op: input types, attributes, and a name that says what is special about it."""

    name: str
    inputs: tuple[Any, ...]  # of Type, or of numpy arrays if the values matter
    attrs: dict[str, Any] = field(default_factory=dict)
    out: Any = None


@dataclass(frozen=True)
class Twin:
    """An op that gives the same bytes with less memory, if the rule `when` allows it."""

    op: Op
    when: Callable[..., bool] | None = None

    def fits(self, node: Node) -> bool:
        """Can it replace this node?"""
        return self.when is None or bool(node.ask(self.when))


@dataclass(frozen=True)
class PartsTwin(Twin):
    """A twin that takes trained and fixed channels in place of input `weight`, and `channels` as an attribute."""

    weight: int = 1
    cheap: bool = False  # it costs next to nothing: weights are assembled anyway, a few at a time


@dataclass(frozen=True)
class Groups:
    """How an op takes part in a gradient that is computed in groups of channels."""

    axes: tuple[int | None, ...] = ()  # the axis of each input that has the channels of a group, None if it has none
    inside: bool = False  # a channel of its result needs no other channel of the gradient
    ends: bool = False  # its result for a group is read outside of the groups
    sums: bool = False  # adds up all channels: its result leaves the groups
    gradient: int = 2  # how many of its first inputs are the gradient


@dataclass(frozen=True)
class Parameters:
    """Which inputs of an op are learned."""

    weight: int = 1
    bias: int | None = 2
    layer: bool = True  # counted in schemes; a norm is not, and is only trained with `full`
    by_channel: bool = True  # some channels of the weight's last axis can be trained alone


@dataclass(frozen=True)
class Facts:
    """What others may do with an op, or need to know about it; `op.may(...)` sets these.

    First the facts for training and the quantizer, then those for the planner. Rules here take outputs and inputs, and
    attributes by keyword.
    """

    parameters: Parameters | None = None
    operands: bool = False  # any input may be a parameter: no position is reserved for a weight
    inference: bool = True  # allowed in a graph for inference; if False, quantizer/fold.py removes it
    int8: Op | None = None  # its int8 twin: the same inputs and attributes, and a clamp lo..hi if it has one
    unary: bool = False  # a function of each element alone: in int8 a table
    table: bool = False  # what it reads beside its first input is a table of results, not parameters
    moves: bool = False  # copies elements of its first input, whatever their meaning: one type in and out
    # the range of its result for any input; a rule if it depends on attributes
    bounds: tuple[float, float] | Callable[..., tuple[float, float]] | None = None

    # outputs that may overwrite inputs. True: the first output overwrites the first input; a tuple: for each output the
    # index of an input or None; a rule: the same, per node
    in_place: InPlace = False
    overwrites: bool = False  # the kernel changes the inputs that `in_place` names: they must be shared
    # a rule: the rows of each input that a row of the output needs (None: all rows); None if it cannot run by rows
    stripes: Callable[..., tuple[Rows | None, ...] | None] | None = None
    # a rule for attributes that tell of rows (other than `padding`): those of a call that makes `made` rows, and of
    # Picked rows copies `picks`, counted from the first it reads
    on_rows: Callable[..., dict[str, Any]] | None = None
    carries: bool = False  # it makes each row of its output from the row above it, too, and finds it just before
    over: Twin | None = None  # the same op with its result over its first input
    parts: PartsTwin | None = None  # the same op with a weight in two parts: trained channels and fixed ones
    made_for: Change = ""  # an op that only the planner makes: for this change
    some_channels: bool = False  # with the attribute `channels`, it reads only these channels of its last input
    # the gradient of a weight that can be computed for some output channels alone: this many of its first inputs are
    # the layer's gradient (2 if exponents come with the mantissas)
    by_outputs: int = 0
    tiles: TiledUpdate | None = None  # an update that can run on tiles of its gradient
    groups: Groups | None = None  # its role in a gradient that is computed in groups of channels
    arrives: bool = False  # takes rows of an input as they arrive


class Op:
    """One op, as declared by `op`. The planner makes some of its own, which are not in the registry."""

    def __init__(self, name: str, doc: str, *, cases: Iterable[Case] = (), kind: Kind = "any",
                 domain: tuple[float, float] | None = None, source: str = ""):  # fmt: skip
        self.name: str = name
        self.doc: str = inspect.cleandoc(doc)
        self.cases: tuple[Case, ...] = tuple(cases)
        self.source: str = source
        self.kind: Kind = kind  # the graphs it may be in
        self.domain: tuple[float, float] | None = domain  # (low, high): the range for random test inputs
        self.defaults: dict[str, Any] = {}  # attribute -> default; `...` if it must be given
        self.rules: dict[str, Callable[..., Any]] = {}
        self.facts: Facts = Facts()

    # declaring ------------------------------------------------------------------------------------

    def infer(self, rule: Rule) -> Rule:
        """Types in, type (or tuple of types) out. Its keyword-only parameters are the op's attributes."""
        self.defaults = _defaults(rule)
        return self._ruled("infer", rule)

    def eval(self, rule: Rule) -> Rule:
        """Arrays in, array (or tuple of arrays) out: the meaning."""
        return self._ruled("eval", rule)

    def grad(self, rule: Rule) -> Rule:
        """Gradient of the output, outputs and inputs in; the gradient of each input out, or None."""
        return self._ruled("grad", rule)

    def emit(self, rule: Rule) -> Rule:
        """Outputs and inputs in, a Call out."""
        return self._ruled("emit", rule)

    def macs(self, rule: Rule) -> Rule:
        """Outputs and inputs in, multiply-adds out."""
        return self._ruled("macs", rule)

    def may(self, **facts: Any) -> None:
        """Declare what the planner may do with this op: fields of `Facts`."""
        self.facts = replace(self.facts, **facts)

    def must(self, *, in_place: InPlace) -> None:
        """The kernel changes these inputs: the outputs must lie at the same bytes."""
        self.may(in_place=in_place, overwrites=True)

    def _ruled(self, name: str, rule: Rule) -> Rule:
        if name in self.rules:
            raise ValueError(f"op {self.name} has two rules {name}")
        self.rules[name] = rule
        return rule

    # asking ---------------------------------------------------------------------------------------

    @property
    def overwrites(self) -> bool:
        return self.facts.overwrites

    def __call__(self, *inputs: Any, name: str | None = None, out: Any = None, **attrs: Any) -> Any:
        """Append a node for this op to the graph being built. Returns its output value, or a tuple of them."""
        from insitu.graph.graph import building

        return building().add(self, inputs, attrs, name=name, out=out)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # pickled by name: graphs cross process borders, and every process has the ops
        return lookup, (self.name,)

    def has(self, rule: str) -> bool:
        return rule in self.rules

    def asks(self, rule: str, keyword: str) -> bool:
        """Does it have this rule, and does the rule take this keyword?"""
        return rule in self.rules and keyword in _keywords(self.rules[rule])

    def apply(self, rule: str, args: tuple[Any, ...], attrs: Mapping[str, Any], **reserved: Any) -> Any:
        """Call a rule with the keyword parameters that it asks for."""
        return ask(self.rules[rule], args, attrs, **reserved)

    def complete(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The attributes with defaults filled in and lists frozen. Unknown or missing attributes are an error."""
        unknown = set(attrs) - set(self.defaults)
        if unknown:
            raise GraphError(f"op {self.name} has no attribute {sorted(unknown)[0]!r}")
        full = {k: freeze(attrs.get(k, default)) for k, default in self.defaults.items()}
        missing = [k for k, v in full.items() if v is ...]
        if missing:
            raise GraphError(f"op {self.name} needs attribute {missing[0]!r}")
        for name, value in full.items():
            self._check_kind(name, value)
        return full

    def _check_kind(self, name: str, value: object) -> None:
        """An attribute must have the type that `infer` declares: files may contain anything."""
        kind = _kinds(self.rules["infer"]).get(name)
        if kind and not ATTRIBUTES[kind][1](value) and value != self.defaults[name]:
            words = ATTRIBUTES[kind][0]
            raise GraphError(f"op {self.name}: attribute {name} must be {words}, not {str(value)[:60]!r}")


def op(name: str, doc: str, *, cases: Iterable[Case], kind: Kind | None = None,
       domain: tuple[float, float] | None = None) -> Op:  # fmt: skip
    """Declare an op: see the top of this file. If no kind is given, the suffix `_s8` makes it an int8 op."""
    if name in REGISTRY:
        raise ValueError(f"op {name} is declared twice")
    caller = sys._getframe(1)
    source = f"src/{caller.f_globals['__name__'].replace('.', '/')}.py:{caller.f_lineno}"
    kind = kind or ("int8" if name.endswith("_s8") else "float")
    REGISTRY[name] = made = Op(name, doc, cases=cases, kind=kind, domain=domain, source=source)
    return made


def ask(rule: Callable[..., Any], args: tuple, attrs: Mapping[str, Any], **reserved) -> Any:
    """Call a rule with those attributes and reserved names that are among its keyword-only parameters."""
    names = _keywords(rule)
    wanted = {k: (attrs[k] if k in attrs else reserved[k]) for k in names if k in attrs or k in reserved}
    return rule(*args, **wanted)


def lookup(name: str) -> Op:
    if name not in REGISTRY:
        import_module("insitu.ops")  # declares all of them; graph/ itself knows none
    if name not in REGISTRY:
        raise GraphError(f"unknown op {name!r}", hint="`insitu ops` lists all of them")
    return REGISTRY[name]


def freeze(value):
    """Lists become tuples, recursively, and numpy scalars plain ones: attributes are immutable."""
    if isinstance(value, list | tuple):
        return tuple(freeze(v) for v in value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    return value


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and abs(value) < 2**31


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _all(check: Callable[[object], bool], count: int | None = None) -> Callable[[object], bool]:
    def holds(value: object) -> bool:
        return isinstance(value, tuple) and count in (None, len(value)) and all(map(check, value))

    return holds


# annotation of an attribute in `infer` -> its words, and a check
ATTRIBUTES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "int": ("a 32-bit integer", _is_integer),
    "float": ("a number", _is_number),
    "bool": ("true or false", lambda value: isinstance(value, bool | int)),
    "str": ("text", lambda value: isinstance(value, str)),
    "Pair": ("two integers of 32 bits", _all(_is_integer, 2)),
    "Padding": ("four integers of 32 bits", _all(_is_integer, 4)),
    "Ints": ("integers of 32 bits", _all(_is_integer)),
    "tuple[float, ...]": ("numbers", _all(_is_number)),
    "tuple[Pair, ...]": ("pairs of integers of 32 bits", _all(_all(_is_integer, 2))),
}


@cache
def _kinds(infer) -> dict[str, str]:
    """Attribute -> its annotation, if that is a known one."""
    parameters = inspect.signature(infer).parameters.values()
    return {p.name: str(p.annotation) for p in parameters if str(p.annotation) in ATTRIBUTES}


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
