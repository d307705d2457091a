"""Every case of every op as WebAssembly, with its vectors: the bytes of the host's plain C."""

from functools import cache

import numpy as np
import pytest

from insitu.codegen import Program
from insitu.firmware.build import Tools, compile_all, hand_written
from insitu.firmware.wasm import linked, tools
from insitu.graph import Value
from insitu.toolchain.prototypes import kernels_header
from insitu.toolchain.sources import EVERYTHING, closure, kernel_path

from ..each import each
from .case_library import _joined, all_bound, case_programs, library

wasmtime = pytest.importorskip("wasmtime", reason="runs WebAssembly")
pytest.importorskip("ziglang", reason="compiles for WebAssembly")
PAGE = 1 << 16


class Module:
    """One module with these programs; what they are given and give lies behind its own memory."""

    def __init__(self, programs: dict[str, Program]):
        made = wasmtime.Engine()
        self.store = wasmtime.Store(made)
        instance = wasmtime.Instance(self.store, wasmtime.Module(made, module(tuple(programs.values()))), [])
        self.exports = instance.exports(self.store)
        self.memory = self.exports["memory"]
        self.start = self.memory.data_len(self.store)

    def predict(self, program: Program, feeds: tuple[np.ndarray, ...]) -> list[bytes]:
        plan, at, given = program.plans["predict"], self.start, []

        def place(data: bytes) -> int:
            nonlocal at
            where, at = at, at + (len(data) + 63) // 64 * 64
            while self.memory.data_len(self.store) < at:
                self.memory.grow(self.store, -(-len(data) // PAGE) + 1)
            self.memory.write(self.store, data, where)
            return where

        arena = place(b"\xa5" * max(program.arena_bytes, 1))
        for v, x in zip(plan.graph.inputs, feeds):
            given.append(place(np.ascontiguousarray(x).tobytes()) if v.shape else x.item())
        outputs = [place(bytes(v.type.bytes)) for v in plan.graph.outputs]
        self.exports[f"{program.prefix}_predict"](self.store, arena, *given, *outputs)
        return [bytes(self.memory.read(self.store, o, o + v.type.bytes)) for o, v in zip(outputs, plan.graph.outputs)]


def module(programs: tuple[Program, ...]) -> bytes:
    files = _joined({name: text for program in programs for name, text in program.files.items()})
    kernels = sorted({kernel for program in programs for kernel in program.kernels})
    headers = {name: text for name, text in files.items() if name.endswith(".h")} | {
        EVERYTHING: kernels_header(kernels)
    }
    sources = {f"{name}.o": (text, headers) for name, text in files.items() if name.endswith(".c")}
    sources |= {f"kernels/{name}.o": hand_written(kernel_path(name)) for name in closure(kernels)}
    exports = tuple(f"-Wl,--export={program.prefix}_predict" for program in programs)
    known = tools()
    every = Tools(known.name, known.command, known.flags, (*known.link, *exports))
    return linked(compile_all(sources, every, ()), every)


@cache
def programs() -> dict[str, Program]:
    return {label: p for label, p in case_programs("host", tuple(all_bound())).items() if not p.state}


@cache
def built() -> Module:
    return Module(programs())


def exact(inputs: tuple[Value, ...]) -> bool:
    """Are its results the same bytes on every machine? Floats alone may be added in another order."""
    return any(v.dtype != "f32" for v in inputs)


def test_every_case_gives_the_bytes_of_the_host():
    def claim(label: str) -> None:
        program, feeds = programs()[label], all_bound()[label].feeds
        want = library("scalar")[label].predict(*feeds)
        for data, b in zip(built().predict(program, feeds), want if isinstance(want, tuple) else (want,)):
            got = np.frombuffer(data, b.dtype).reshape(b.shape)
            if b.dtype == np.float32 and not exact(all_bound()[label].graph.inputs):
                np.testing.assert_allclose(got, b, rtol=1e-5, atol=1e-5 * max(np.abs(b).max(initial=0), 1e-3))
            else:
                assert got.tobytes() == b.tobytes()

    each(tuple(programs()), claim)
