"""How a table function of the ONNX importer sees one node: its inputs, its settings, and a name for its result.

A tensor of the file is either known at import (a numpy array) or a value of the graph being built. conv.py, layout.py
and math.py say what each ONNX op means; read.py walks over the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import insitu.ops  # noqa: F401  (declares the ops that `ops` looks up)
from insitu.errors import ModelError, Unsupported
from insitu.graph import Builder, Op, Value, lookup
from insitu.importers.onnx.file import Record, plain_float


@dataclass(frozen=True)
class Comparison:
    """value > bound, in place of a tensor: only a Where that spells out softplus can read it."""

    value: Value
    bound: float


Tensor = Value | np.ndarray


class _Ops:
    """`ops.conv2d` is the op of that name."""

    def __getattr__(self, name: str) -> Op:
        return lookup(name)


ops = _Ops()


@dataclass(frozen=True, eq=False)
class Call:
    record: Record
    opset: int
    builder: Builder
    env: dict[str, Tensor | Comparison]
    read: frozenset[str]  # names of all tensors that a node or a graph output reads
    results: frozenset[str] = frozenset()  # names of the graph's outputs

    # --- inputs -----------------------------------------------------------------------------

    def given(self, i: int) -> bool:
        return i < len(self.record.inputs) and self.record.inputs[i] != ""

    def tensor(self, i: int) -> Tensor:
        found = self.compared(i)
        if isinstance(found, Comparison):
            raise Unsupported("reads the result of a comparison, which is computed by the network")
        return found

    def compared(self, i: int) -> Tensor | Comparison:
        if not self.given(i):
            raise ModelError(f"input {i} is missing")
        return self.env[self.record.inputs[i]]

    def known(self, i: int) -> bool:
        """Is input i given, and known at import?"""
        return self.given(i) and isinstance(self.compared(i), np.ndarray)

    def array(self, i: int, what: str = "") -> np.ndarray:
        tensor = self.tensor(i)
        if not isinstance(tensor, np.ndarray):
            name = what or f"input {i} ({self.record.inputs[i]})"
            raise Unsupported(f"{name} must be a constant", hint="export the model with its weights and sizes inside")
        return tensor

    def any(self, i: int) -> Value:
        """Input i as a value of the graph, whatever its element type."""
        tensor = self.tensor(i)
        return tensor if isinstance(tensor, Value) else self.constant(tensor, self.record.inputs[i], i)

    def x(self, i: int = 0) -> Value:
        """Input i as a float value of the graph."""
        value = self.any(i)
        if value.dtype != "f32":
            raise Unsupported(f"works on {value.type}; only float tensors are supported")
        return value

    def xs(self) -> list[Value]:
        return [self.x(i) for i in range(len(self.record.inputs)) if self.given(i)]

    def constant(self, array: np.ndarray, name: str, i: int | None = None) -> Value:
        """A constant. If it is made from input i, it may be a parameter.

        A file does not distinguish parameters from other constants: floats with more than one element count as
        parameters. Two nodes that read the same one share it, unless all its numbers are equal: exporters store zeros
        and ones only once.
        """
        value = self.builder.constant(name or "constant", as_data(array))
        if i is not None and value.dtype == "f32" and value.type.size > 1:
            given = self.record.inputs[i]
            shared = self.builder.parameters.get(given, given)
            self.builder.parameters[value.name] = shared if np.ptp(array) else value.name
        return value

    def weight(self, i: int, perm=None) -> Value:
        """A constant float input with permuted axes, under its own name."""
        array = self.array(i)
        if perm is not None:
            array = np.ascontiguousarray(array.transpose(perm))
        value = self.constant(array, self.parameter(i), i)
        if value.dtype != "f32":
            raise Unsupported(f"weights of {value.dtype} are not supported", hint="put a DequantizeLinear after them")
        return value

    def parameter(self, i: int) -> str:
        """The name of a weight; a name made up by the exporter is replaced by the layer's."""
        name = self.record.inputs[i]
        if name.startswith("onnx::") or name.endswith("_bias"):
            return f"{self.name}.{'weight' if i == 1 else 'bias'}"
        return name

    # --- settings ---------------------------------------------------------------------------

    def attr(self, key: str, default: Any = None) -> Any:
        """An attribute; it must be of the kind of its default, if it has one."""
        found = self.record.attrs.get(key, default)
        kinds = (int, float) if isinstance(default, float) else type(default)
        if default is not None and not isinstance(found, kinds):
            raise ModelError(f"attribute {key} has the wrong type: {found!r}")
        return found

    def ints(self, key: str, default=None) -> tuple[int, ...] | None:
        found = self.record.attrs.get(key, default)
        if found is not None and (not isinstance(found, tuple) or not all(isinstance(v, int) for v in found)):
            raise ModelError(f"attribute {key} is {found!r}, not a list of integers")
        return found

    def moved(self, key: str, i: int) -> tuple[int, ...] | None:
        """A list that was an attribute in old opsets and is input i in newer ones."""
        if key in self.record.attrs:
            return self.ints(key)
        return integers(self.array(i, key), key) if self.given(i) else None

    def scalar(self, i: int, key: str, default: float) -> float:
        """A number that was an attribute in old opsets and is input i in newer ones."""
        if self.given(i):
            array = self.array(i, key)
            if array.size != 1:
                raise ModelError(f"{key} must be one number, not {array.size}")
            number = float(array.reshape(()))
            return plain_float(number) if array.dtype == np.float32 else number
        return float(self.attr(key, default))

    # --- result -----------------------------------------------------------------------------

    def wants(self, i: int) -> bool:
        """Does anything read output i?"""
        return i < len(self.record.outputs) and self.record.outputs[i] in self.read

    def refuse_outputs(self, since: int, what: str) -> None:
        for i in range(since, len(self.record.outputs)):
            if self.wants(i):
                raise Unsupported(f"its output {self.record.outputs[i]!r} ({what}) is used; only the first is computed")

    @property
    def name(self) -> str:
        return layer_name(self.record, self.env)


def layer_name(record: Record, env) -> str:
    """The model's own name for what this node computes: `features.0` from `features.0.weight` or from a scope path."""
    for name in record.inputs[1:2]:
        stem, _, last = name.rpartition(".")
        if stem and last == "weight" and isinstance(env.get(name), np.ndarray):
            return stem
    if record.name.startswith("/") and record.name.count("/") > 1:
        return _scope(record.name.strip("/").split("/")[:-1])
    output = next((o for o in record.outputs if o), "")
    return output.strip("/") or record.type


def _scope(parts: list[str]) -> str:
    """`features`, `features.0`, `conv` is the module features.0.conv: a list item repeats the name of its list."""
    kept = [p for p, following in zip(parts, [*parts[1:], ""]) if not following.startswith(p + ".")]
    return ".".join(kept)


def as_data(array: np.ndarray) -> np.ndarray:
    """An array as the graph stores it: every float is f32, and the type is one of the graph's."""
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    if array.dtype.kind == "u" and array.dtype != np.uint8:
        return array.astype(np.int64)
    return array


def integers(array: np.ndarray, what: str) -> tuple[int, ...]:
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise ModelError(f"{what} is {array.dtype}{list(array.shape)}, not a list of integers")
    return tuple(int(v) for v in array.reshape(-1))


def axis_of(axis: int, rank: int) -> int:
    if not isinstance(axis, int) or not -rank <= axis < max(rank, 1):
        raise ModelError(f"axis {axis} does not fit a tensor of rank {rank}")
    return axis % max(rank, 1)


def axes_of(axes, rank: int) -> tuple[int, ...]:
    found = tuple(axis_of(a, rank) for a in axes)
    if len(set(found)) != len(found):
        raise ModelError(f"an axis occurs twice in {tuple(axes)}")
    return found


def to_last(x: Value) -> Value:
    """Channels first to channels last."""
    return ops.transpose(x, perm=(0, *range(2, x.type.rank), 1))


def to_first(x: Value, name: str | None = None) -> Value:
    """Channels last to channels first."""
    rank = x.type.rank
    return ops.transpose(x, perm=(0, rank - 1, *range(1, rank - 1)), name=name)
