"""The text form of a graph: it prints, and it parses back.

    graph net(%x: f32[1x4]) -> (%y)
      %w = const f32[2x4] @w
      %b = const f32[2] [0.5, -1.0]
      %y = linear(%x, %w, %b, rounding="single") : f32[1x2]

Values that persist from run to run are `state` instead of `const`, and `%w := %w.new` gives their next content. If the
position of a constant does not show that it is a parameter of the model, a line says so: `parameter %scale = scale`.
The input that arrives row by row is named: `rows %x`. One line names the classes: `classes ["rest", "wave"]`.

Long constants and per-channel scales are references (`@name`): `arrays(graph)` returns them, `parse(text, arrays)`
takes them back.
"""

from __future__ import annotations

import json
import re

import numpy as np

from insitu.errors import GraphError
from insitu.graph.graph import Graph, Node, Value
from insitu.graph.op import freeze, lookup
from insitu.graph.types import DTYPES, Quant, Type, block_text, shape_text

INLINE = 8  # constants and scales of up to this many elements are written out
NAME = r"[A-Za-z0-9_./:-]+"


def to_text(graph: Graph) -> str:
    head = ", ".join(f"{v}: {_type(v)}" for v in graph.inputs)
    lines = [f"graph {graph.name}({head}) -> ({', '.join(map(str, graph.outputs))})"]
    lines += [f"  # {note}" for note in graph.notes]
    lines += [f"  rows %{graph.by_rows}"] if graph.by_rows else []
    lines += [f"  classes {json.dumps(graph.classes)}"] if graph.classes else []
    lines += [f"  columns {json.dumps(graph.columns)}"] if graph.columns else []
    lines += [f"  pixels {json.dumps(graph.pixels)}"] if graph.pixels else []
    used = _stored(graph)
    lines += [f"  {v} = {kind} {_type(v)} {_array(v, array)}" for v, kind, array in used]
    lines += [f"  parameter %{name} = {graph.parameters[name]}" for name in _hidden(graph)]
    lines += [f"  {_node(n)}" for n in graph.nodes]
    lines += [f"  %{name} := {new}" for name, new in graph.updates.items()]
    return "\n".join(lines) + "\n"


def arrays(graph: Graph) -> dict[str, np.ndarray]:
    """The arrays that the text refers to with `@`: long constants, and long scale lists under `name.scale`."""
    found = {v.name: array for v, _, array in _stored(graph) if v.type.size > INLINE}
    for v in graph.values.values():
        q = v.type.quant
        if q and len(q.scale) > INLINE:
            found[f"{v.name}.scale"] = np.array(q.scale, np.float64)
    return found


def parse(text: str, arrays: dict[str, np.ndarray] | None = None) -> Graph:
    return _Parser(text, arrays or {}).graph()


def _stored(graph: Graph) -> list[tuple[Value, str, np.ndarray]]:
    """Constants and state in the order of their first use: (value, `const` or `state`, array)."""
    order = {v.name: v for n in graph.nodes for v in n.inputs}
    order.update({v.name: v for v in graph.results})
    order.update({name: Value(name, graph.updates[name].type) for name in graph.state if name in graph.updates})
    tables = (("const", graph.constants), ("state", graph.state))
    return [(v, kind, table[v.name]) for v in order.values() for kind, table in tables if v.name in table]


def _hidden(graph: Graph) -> list[str]:
    """Parameters that need a line: operands of arithmetic, and those with another name in the model."""
    plain = {v.name for n in graph.nodes if n.op.facts.operands for v in n.inputs}
    return [
        v.name for v, kind, _ in _stored(graph)
        if kind == "const" and v.name in graph.parameters and (v.name in plain or graph.parameters[v.name] != v.name)
    ]  # fmt: skip


def _type(v: Value) -> str:
    q = v.type.quant
    if q is None:
        return str(v.type)
    if not q.per_channel:
        scale = repr(q.scale[0])
    elif len(q.scale) <= INLINE:
        scale = "[" + ",".join(map(repr, q.scale)) + "]"
    else:
        scale = f"@{v.name}.scale"
    axis = f" axis={q.axis}" if q.per_channel else ""
    return f"{v.type.dtype}[{shape_text(v.shape)}; s={scale} z={q.zero}{axis}{block_text(v.dtype)}]"


def _array(v: Value, array: np.ndarray) -> str:
    if array.size > INLINE:
        return f"@{v.name}"
    return json.dumps(array.reshape(-1).tolist())


def _node(n: Node) -> str:
    args = [str(v) for v in n.inputs] + [f"{k}={json.dumps(v)}" for k, v in n.attrs.items()]
    outs = ", ".join(map(str, n.outputs))
    return f"{outs} = {n.op.name}({', '.join(args)}) : {', '.join(_type(v) for v in n.outputs)}"


class _Parser:
    """Reads the text line by line. Every error names its line."""

    def __init__(self, text: str, arrays: dict[str, np.ndarray]):
        self.lines = text.strip().splitlines()
        self.arrays = arrays
        self.room = sum(a.size for a in arrays.values())  # scales that may be read: each list belongs to one value
        self.values: dict[str, Value] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.state: dict[str, np.ndarray] = {}
        self.updates: dict[str, Value] = {}
        self.parameters: dict[str, str] = {}
        self.by_rows = ""
        self.classes: tuple[str, ...] = ()
        self.columns: tuple[str, ...] = ()
        self.pixels: tuple[float, float] | None = None
        self.nodes: list[Node] = []
        self.notes: list[str] = []

    def graph(self) -> Graph:
        where = 0
        try:
            name, inputs, outputs = self._head(self.lines[0] if self.lines else "")
            for line in self.lines[1:]:
                where += 1
                self._line(line.strip())
            where = 0
            results = tuple(self._value(n) for n in outputs)
        except (ValueError, IndexError, KeyError, TypeError) as e:
            raise GraphError(f"cannot be read: {e}", where=f"line {where + 1}") from e
        except GraphError as e:
            raise GraphError(e.what, where=f"line {where + 1}") from e
        return Graph(
            name, inputs, results, tuple(self.nodes), self.constants, tuple(self.notes), self.state, self.updates,
            self.parameters, self.by_rows, self.classes, self.columns, self.pixels,
        )  # fmt: skip

    def _head(self, line: str):
        m = re.fullmatch(rf"graph ({NAME})\((.*)\) -> \((.*)\)\s*", line)
        if not m:
            raise GraphError("a graph must start with `graph name(%x: type, ...) -> (%y, ...)`")
        inputs = []
        for part in _split(m[2]):
            name, _, type_text = part.partition(": ")
            inputs.append(self._define(name, type_text))
        return m[1], tuple(inputs), _split(m[3])

    def _line(self, line: str) -> None:
        if not line:
            return
        if line.startswith("#"):
            self.notes.append(line[1:].strip())
            return
        if line.startswith("rows "):
            self.by_rows = self._value(line.removeprefix("rows ")).name
            return
        if line.startswith("classes "):
            self.classes = tuple(json.loads(line.removeprefix("classes ")))
            return
        if line.startswith("columns "):
            self.columns = tuple(json.loads(line.removeprefix("columns ")))
            return
        if line.startswith("pixels "):
            low, high = json.loads(line.removeprefix("pixels "))
            self.pixels = float(low), float(high)
            return
        state, _, new = line.partition(" := ")
        if new:
            self.updates[self._value(state).name] = self._value(new)
            return
        left, _, right = line.partition(" = ")
        if left.startswith("parameter "):
            self.parameters[self._value(left.removeprefix("parameter ")).name] = right
            return
        kind, _, rest = right.partition(" ")
        if kind in ("const", "state"):
            self._stored(left, rest, self.constants if kind == "const" else self.state)
        else:
            self._op(left, right)

    def _stored(self, left: str, right: str, table: dict[str, np.ndarray]) -> None:
        m = re.fullmatch(r"(.*\]) (@.+|\[.*\])", right)  # a type may have brackets inside: per-channel scales
        if not m:
            raise GraphError("a constant must read `%w = const type @name`, or `[numbers]` after the type")
        value, data = self._define(left, m[1]), m[2]
        if data.startswith("@"):
            array = self.arrays[data[1:]]
        else:
            array = np.array(json.loads(data), value.type.numpy).reshape(value.shape)
        if array.shape != value.shape or array.dtype != value.type.numpy:
            raise GraphError(f"{left} is {value.type}, but its data are {array.dtype}{array.shape}")
        table[value.name] = array

    def _op(self, left: str, right: str) -> None:
        m = re.fullmatch(r"(\w+)\((.*)\) : (.*)", right)
        if not m:
            raise GraphError("an op line must read `%y = op(%x, key=value) : type`")
        op, inputs, attrs = lookup(m[1]), [], {}
        for part in _split(m[2]):
            if part.startswith("%"):
                inputs.append(self._value(part))
            else:
                key, _, value = part.partition("=")
                attrs[key] = freeze(json.loads(value))
        names, types = _split(left), _split(m[3])
        if len(names) != len(types):
            raise GraphError(f"{len(names)} results, {len(types)} types")
        outputs = tuple(self._define(n, t) for n, t in zip(names, types))
        self.nodes.append(Node(op, tuple(inputs), outputs, op.complete(attrs)))

    def _define(self, name: str, type_text: str) -> Value:
        if not re.fullmatch("%" + NAME, name):
            raise GraphError(f"{name!r} is not a value name")
        if name[1:] in self.values:
            raise GraphError(f"{name} is defined twice")
        value = Value(name[1:], self._parse_type(type_text))
        self.values[value.name] = value
        return value

    def _value(self, name: str) -> Value:
        if name[1:] not in self.values:
            raise GraphError(f"{name} is used before it is defined")
        return self.values[name[1:]]

    def _parse_type(self, text: str) -> Type:
        m = re.fullmatch(r"(\w+)\[([\dx]*)(?:; s=(\S+) z=(-?\d+)(?: axis=(\d+))?)?(; block=\w+/\d+)?\]", text.strip())
        if not m or m[1] not in DTYPES or (m[6] or "") != block_text(m[1]):
            raise GraphError(f"{text!r} is not a type")
        shape = tuple(int(d) for d in m[2].split("x")) if m[2] else ()
        return Type(m[1], shape, self._quant(m[3], m[4], m[5]) if m[3] else None)

    def _quant(self, scale: str, zero: str, axis: str | None) -> Quant:
        if scale.startswith("@"):
            self.room -= self.arrays[scale[1:]].size
            if self.room < 0:
                raise GraphError(f"refers to the scales {scale} over and over")
            scales = tuple(float(s) for s in self.arrays[scale[1:]])
        else:
            scales = tuple(float(s) for s in scale.strip("[]").split(","))
        return Quant(scales, int(zero), None if axis is None else int(axis))


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(text):
        if c == '"' and (i == 0 or text[i - 1] != "\\"):
            quoted = not quoted
        elif not quoted and c in "[(":
            depth += 1
        elif not quoted and c in "])":
            depth -= 1
        elif not quoted and c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]
