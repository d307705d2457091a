"""The graph: values, nodes, constants; and the builder that makes one.

A graph is immutable, in execution order, and every value is defined once. Passes take a graph and return a new one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.errors import Error, GraphError
from insitu.graph.op import Op, ask
from insitu.graph.source import Source
from insitu.graph.types import Type, type_of

if TYPE_CHECKING:
    from insitu.graph.loops import Rows


@dataclass(frozen=True)
class Value:
    name: str
    type: Type

    def __str__(self) -> str:
        return f"%{self.name}"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype


@dataclass(frozen=True, eq=False)
class Node:
    op: Op
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def output(self) -> Value:
        """The only output, or the first."""
        return self.outputs[0]

    @property
    def name(self) -> str:
        return self.outputs[0].name

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The names of its inputs, each once."""
        return tuple(dict.fromkeys(v.name for v in self.inputs))

    def shared(self) -> dict[str, Value]:
        """Output -> the input whose bytes it may reuse, according to the op's `in_place`."""
        return self._shared

    @cached_property
    def _shared(self) -> dict[str, Value]:
        found = self.op.facts.in_place
        if callable(found):
            found = self.ask(found)
        elif isinstance(found, bool):
            found = 0 if found else None
        indices = found if isinstance(found, tuple) else (found,)
        return {v.name: self.inputs[i] for v, i in zip(self.outputs, indices) if i is not None}

    def rows(self) -> tuple[Rows | None, ...] | None:
        """The rows of each input that a row of the output needs; None if the op cannot run by rows."""
        return self.ask(self.op.facts.stripes) if self.op.facts.stripes else None

    def ask(self, rule: Callable[..., Any]) -> Any:
        """Apply a rule of outputs and inputs, with this node's attributes."""
        return ask(rule, (*self.outputs, *self.inputs), self.attrs, node=self)

    def rule(self, rule: str, *args: Any) -> Any:
        """Apply one of the op's rules with this node's attributes."""
        return self.op.apply(rule, args, self.attrs, node=self)


@dataclass(frozen=True, eq=False)
class Graph:
    """A network as ops in order of execution. `print(graph)` shows its text; `insitu.graph.parse` reads that."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, np.ndarray]  # name -> array, for every constant value
    notes: tuple[str, ...] = ()  # messages of the importer for the user
    state: Mapping[str, np.ndarray] = field(default_factory=dict)  # name -> initial content of a persistent value
    updates: Mapping[str, Value] = field(default_factory=dict)  # state name -> the value it has after a run
    # constants that are parameters of the model -> the model's name; two with one name are layouts of the same one
    parameters: Mapping[str, str] = field(default_factory=dict)
    by_rows: str = ""  # the input that arrives row by row and is never held whole
    classes: tuple[str, ...] = ()  # the names of the classes that the first output scores, if they are known
    columns: tuple[str, ...] = ()  # the names of the first input's columns, if tables are matched by them
    pixels: tuple[float, float] | None = None  # the range of the first input's pixels, if it is known
    source: Source | None = None  # how files are read for the first input, if there are no nodes that tell

    @cached_property
    def values(self) -> dict[str, Value]:
        """Every value by name: inputs, constants and results."""
        found = {v.name: v for v in self.inputs}
        for node in self.nodes:
            for v in (*node.inputs, *node.outputs):
                found[v.name] = v
        found.update({v.name: v for v in (*self.outputs, *self.updates.values())})
        return found

    @cached_property
    def producer(self) -> dict[str, Node]:
        """Value -> the node that makes it."""
        return {v.name: node for node in self.nodes for v in node.outputs}

    @cached_property
    def users(self) -> dict[str, tuple[Node, ...]]:
        """Value -> the nodes that read it."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node.reads:
                found.setdefault(name, []).append(node)
        return {k: tuple(v) for k, v in found.items()}

    def constant(self, value: Value) -> np.ndarray | None:
        """The array of a constant; None for any other value."""
        return self.constants.get(value.name)

    def with_notes(self, *notes: str) -> Graph:
        """The same graph, with more to say about it."""
        return replace(self, notes=(*self.notes, *notes))

    @property
    def results(self) -> tuple[Value, ...]:
        """The purpose of the graph: its outputs, and the new values of its state."""
        return (*self.outputs, *self.updates.values())

    def __str__(self) -> str:
        from insitu.graph.text import to_text

        return to_text(self)

    def __repr__(self) -> str:
        """One line: str() has every op."""
        ins = ", ".join(f"{v.name} {v.type}" for v in self.inputs)
        outs = ", ".join(f"{v.name} {v.type}" for v in self.outputs)
        tables = {v.name for node in self.nodes if node.op.facts.table for v in node.inputs[1:]}
        stored = {**self.constants, **self.state}
        size = sum(a.size for name, a in stored.items() if name not in tables)
        return f"<Graph {self.name}: {ins} -> {outs}, {len(self.nodes)} ops, {size:,} parameters>"

    def _repr_html_(self) -> str:
        return shown_in_notebook(repr(self), str(self))


SHOWN_LINES = 40  # of a graph in a notebook


def shown_in_notebook(title: str, text: str) -> str:
    lines = text.splitlines()
    rest = [f"... and {len(lines) - SHOWN_LINES:,} lines more: print(graph)"] if len(lines) > SHOWN_LINES else []
    body = escape("\n".join([*lines[:SHOWN_LINES], *rest]))
    return f"<details><summary>{escape(title)}</summary><pre>{body}</pre></details>"


class Builder:
    """Collects nodes into a graph. Ops called inside `with building(...)` append themselves here."""

    def __init__(self, name: str = "graph", classes: tuple[str, ...] = (), columns: tuple[str, ...] = (),
                 pixels: tuple[float, float] | None = None):  # fmt: skip
        self.name: str = clean(name)
        self.classes: tuple[str, ...] = classes
        self.columns: tuple[str, ...] = columns
        self.pixels: tuple[float, float] | None = pixels
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self.notes: list[str] = []
        self.state: dict[str, np.ndarray] = {}
        self.updates: dict[str, Value] = {}
        self.parameters: dict[str, str] = {}
        self.by_rows: str = ""
        self._types: dict[str, Type] = {}
        self._tried: dict[str, int] = {}
        self._producer: dict[str, Node] = {}

    def input(self, name: str, type: Type) -> Value:
        value = self._define(name, type)
        self.inputs.append(value)
        return value

    def constant(self, name: str, array: Any, type: Type | None = None) -> Value:
        """A constant value. The array is not copied and must not be changed afterwards."""
        array = np.asarray(array)
        value = self._define(name, type or type_of(array))
        if value.type.numpy != array.dtype or value.type.shape != array.shape:
            raise GraphError(f"{array.dtype}{array.shape} is not {value.type}", where=name)
        self.constants[value.name] = array
        return value

    def lasting(self, name: str, array: Any, type: Type | None = None) -> Value:
        """A value that persists from run to run, with its initial content; `update` sets its next content."""
        value = self.constant(name, array, type)
        self.state[value.name] = self.constants.pop(value.name)
        return value

    def update(self, state: Value, new: Value) -> None:
        if state.name not in self.state or state.type != new.type or state.name in self.updates:
            raise GraphError(f"{new} cannot become its new content", where=f"%{state.name}")
        self.updates[state.name] = new

    def add(self, op: Op, inputs: Iterable[Value], attrs: dict[str, Any], *, name: str | None = None,
            out: Any = None) -> Any:  # fmt: skip
        """Append a node; its output types come from the op's `infer`."""
        inputs = tuple(inputs)
        for v in inputs:
            if not isinstance(v, Value) or self._types.get(v.name) != v.type:
                raise GraphError(f"op {op.name} got {v!r}, which is not a value of this graph")
        attrs = op.complete(attrs)
        try:
            types = op.apply("infer", tuple(v.type for v in inputs), attrs, out=out)
        except Error as e:
            raise GraphError(e.what, where=name or e.where or op.name, hint=e.hint) from e
        many = isinstance(types, tuple)
        stem = name or op.name
        names = [stem] if not many else [f"{stem}.{i}" for i in range(len(types))]
        outputs = tuple(self._define(n, t) for n, t in zip(names, types if many else (types,)))
        self.append(Node(op, inputs, outputs, attrs))
        return outputs if many else outputs[0]

    def append(self, node: Node) -> None:
        """Append a node whose outputs are already named and typed."""
        self.nodes.append(node)
        for v in node.outputs:
            self._types[v.name] = v.type
            self._producer[v.name] = node

    @classmethod
    def of(cls, graph: Graph) -> Builder:
        """A builder that already contains this graph, to append to it."""
        builder = cls(graph.name, graph.classes, graph.columns, graph.pixels)
        builder.inputs, builder.notes = list(graph.inputs), list(graph.notes)
        builder.constants, builder.state = dict(graph.constants), dict(graph.state)
        builder.updates, builder.parameters = dict(graph.updates), dict(graph.parameters)
        builder.by_rows = graph.by_rows
        builder._types = {name: v.type for name, v in graph.values.items()}
        for node in graph.nodes:
            builder.append(node)
        return builder

    def producer(self, value: Value) -> Node | None:
        return self._producer.get(value.name)

    def array(self, value: Value) -> np.ndarray | None:
        """The array of a constant value, None for any other."""
        return self.constants.get(value.name)

    def has(self, name: str) -> bool:
        return name in self._types

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def graph(self, *outputs: Value) -> Graph:
        return Graph(
            self.name, tuple(self.inputs), outputs, tuple(self.nodes), dict(self.constants), tuple(self.notes),
            dict(self.state), dict(self.updates), dict(self.parameters), self.by_rows, self.classes,
            self.columns, self.pixels,
        )  # fmt: skip

    def _define(self, name: str, type: Type) -> Value:
        name = self._fresh(clean(name))
        self._types[name] = type
        return Value(name, type)

    def _fresh(self, name: str) -> str:
        if name not in self._types:
            return name
        n = self._tried.get(name, 1)  # all lower numbers are taken: a frequent name is not searched again
        while f"{name}_{n}" in self._types:
            n += 1
        self._tried[name] = n
        return f"{name}_{n}"


def clean(name: str | bytes) -> str:
    """A name for the text form: letters, digits, `_`, `.`, `/`, `-`, `:`. In a damaged file it may be bytes."""
    text = name.decode(errors="replace") if isinstance(name, bytes) else name
    return re.sub(r"[^A-Za-z0-9_./:-]+", "_", text) or "_"


_CURRENT: ContextVar[Builder] = ContextVar("builder")


def building() -> Builder:
    """The builder of the enclosing `with build(...)`."""
    try:
        return _CURRENT.get()
    except LookupError:
        raise GraphError("an op was called outside `with build(...)`") from None


@contextmanager
def build(name_or_builder: str | Builder = "graph"):
    """`with build("net") as b:` ops called inside append themselves to b."""
    builder = name_or_builder if isinstance(name_or_builder, Builder) else Builder(name_or_builder)
    token = _CURRENT.set(builder)
    try:
        yield builder
    finally:
        _CURRENT.reset(token)
