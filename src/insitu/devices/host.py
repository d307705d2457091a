"""The host device: the generated C, built for this machine and run in this process."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np

from insitu.codegen import Program, emit_program
from insitu.devices.compiler import NATIVE, build_library
from insitu.errors import DataError
from insitu.graph import Graph, Value
from insitu.planner import plan

ARENA_ALIGN = 64


class HostDevice:
    """A compiled program and an arena to run it in. Not for two threads at once: open two."""

    def __init__(self, program: Program, library: ctypes.CDLL):
        self.program, self.plan = program, program.plans["predict"]
        self.inputs, self.outputs = self.plan.graph.inputs, self.plan.graph.outputs
        self._call = getattr(library, f"{program.prefix}_predict")
        self._call.restype = None
        self._arena = _aligned(program.arena_bytes)

    @property
    def graph(self) -> Graph:
        return self.plan.graph

    def info(self) -> dict[str, int]:
        return {
            "arena_bytes": self.program.arena_bytes,
            "arena_lower_bound_bytes": self.plan.lower_bound_bytes,
            "const_bytes": self.program.const_bytes,
        }

    def predict(self, *inputs):
        """The outputs for these inputs: one array, or a tuple of them.

        Each input has the shape of the graph's, or any number of samples more along the first axis.
        """
        arrays = [_fit(v, x) for v, x in zip_inputs(self.inputs, inputs)]
        rounds = _rounds(self.inputs, arrays)
        outputs = [np.empty((rounds * (v.shape or (1,))[0], *v.shape[1:]), v.type.numpy) for v in self.outputs]
        for i in range(rounds):
            self._run(i, arrays, outputs)
        shaped = [o.reshape(v.shape) if rounds == 1 else o for o, v in zip(outputs, self.outputs)]
        return shaped[0] if len(shaped) == 1 else tuple(shaped)

    def values(self, *inputs) -> dict[str, np.ndarray]:
        """Every output by name: of a device opened with `keep`, every value of the graph."""
        results = self.predict(*inputs)
        many = results if isinstance(results, tuple) else (results,)
        return {v.name: r for v, r in zip(self.outputs, many)}

    def prepared(self, *inputs):
        """A function that is nothing but the C call on these inputs, which gives the outputs as views: for timing."""
        arrays = [_fit(v, x) for v, x in zip_inputs(self.inputs, inputs)]
        outputs = [np.empty(v.shape, v.type.numpy) for v in self.outputs]
        arguments = self._arguments(0, arrays, outputs)

        def run(keep=(arrays, outputs)):
            self._call(*arguments)
            return outputs

        return run

    def _run(self, i: int, arrays: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        self._call(*self._arguments(i, arrays, outputs))

    def _arguments(self, i: int, arrays: list[np.ndarray], outputs: list[np.ndarray]) -> list:
        """What the C function is called with for sample i."""
        inputs = [argument(v, a, i) for v, a in zip(self.inputs, arrays)]
        results = [pointer(v, o, i) for v, o in zip(self.outputs, outputs)]
        return [ctypes.c_void_p(self._arena.ctypes.data), *inputs, *results]


SCALARS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "s32": ctypes.c_int32, "s8": ctypes.c_int8}


def argument(value: Value, array: np.ndarray, i: int = 0):
    """Sample i of an input as C takes it: a scalar by value, anything else by pointer."""
    if value.shape:
        return pointer(value, array, i)
    return SCALARS[value.dtype](array.reshape(-1)[i].item())


def pointer(value: Value, array: np.ndarray, i: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + i * value.type.bytes)


def open_host(graph: Graph, *, keep: bool = False, flags: tuple[str, ...] = (NATIVE,)) -> HostDevice:
    """Plan, generate, build and load a graph. With `keep` every value is an output."""
    if keep:
        results = tuple(v for n in graph.nodes for v in n.outputs)
        graph = replace(graph, outputs=results)
    program = emit_program(plan(graph))
    library = build_library(program.files, program.kernels, flags)
    return HostDevice(program, ctypes.CDLL(str(library)))


def zip_inputs(values: tuple[Value, ...], inputs) -> list[tuple[Value, np.ndarray]]:
    if len(values) != len(inputs):
        raise DataError(f"{len(values)} inputs wanted ({', '.join(v.name for v in values)}), {len(inputs)} given")
    return list(zip(values, inputs))


def _fit(value: Value, x) -> np.ndarray:
    """The array as C wants it, or an error that says what is wrong with it."""
    x = np.asarray(x)
    want = value.type.numpy
    if value.dtype in ("f32", "f64"):
        if x.dtype.kind not in "fiu":
            raise DataError(f"is {value.type}, the data are {x.dtype}", where=f"input {value.name}")
        x = x.astype(want)
    elif x.dtype != want:
        raise DataError(f"is {value.type}, the data are {x.dtype}", where=f"input {value.name}")
    batched = value.shape[:1] and x.ndim == len(value.shape) and x.shape[0] % value.shape[0] == 0 and x.shape[0]
    if x.shape != value.shape and not (batched and x.shape[1:] == value.shape[1:]):
        shape = "x".join(map(str, x.shape)) or "a scalar"
        raise DataError(f"is {value.type}, the data have shape {shape}", where=f"input {value.name}")
    return np.ascontiguousarray(x)


def _rounds(values: tuple[Value, ...], arrays: list[np.ndarray]) -> int:
    counts = {a.size // v.type.size for a, v in zip(arrays, values)} or {1}
    if len(counts) > 1:
        raise DataError(f"the inputs have different numbers of samples: {sorted(counts)}")
    return counts.pop()


def _aligned(size: int) -> np.ndarray:
    raw = np.zeros(size + ARENA_ALIGN, np.uint8)
    start = -raw.ctypes.data % ARENA_ALIGN
    return raw[start : start + max(size, 1)]
