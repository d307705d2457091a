"""The program as a WebAssembly module, in this process: wasmtime runs what a browser would run, byte for byte.

The module is the one that an exported page has (exporters/web/). It is served through the protocol, as a board is.
"""

from __future__ import annotations

import importlib
from typing import Any

from insitu.codegen import Program
from insitu.devices.link import LinkDevice
from insitu.errors import DeviceError, needs
from insitu.firmware.wasm import LINE_BYTES, build_module


class WasmChannel:
    """A module's line: bytes are put into its memory, and its answers are given to a function of ours."""

    def __init__(self, module: bytes):
        runtime = wasmtime()
        engine = runtime.Engine()
        self._trap, self._store = runtime.Trap, runtime.Store(engine)
        answer = runtime.Func(self._store, runtime.FuncType([runtime.ValType.i32()] * 2, []), self._answered)
        made = runtime.Instance(self._store, runtime.Module(engine, module), [answer])
        self._exports, self._answers = made.exports(self._store), bytearray()
        self._call("page_begin")
        self._line = self._call("page_line")

    def _call(self, name: str, *arguments: int) -> Any:
        try:
            return self._exports[name](self._store, *arguments)
        except self._trap as e:
            raise DeviceError(f"trapped: {e.message}", where="wasm") from e

    def _answered(self, at: int, count: int) -> None:
        self._answers += self._exports["memory"].read(self._store, at, at + count)

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), LINE_BYTES):
            part = data[at : at + LINE_BYTES]
            self._exports["memory"].write(self._store, part, self._line)
            self._call("page_take", len(part))

    def read(self, most: int, timeout: float) -> bytes:
        found = bytes(self._answers[:most])
        del self._answers[:most]
        return found

    def close(self) -> None:
        self._store.close()


def open_wasm(program: Program, **options: Any) -> LinkDevice:
    """A device that is a WebAssembly module."""
    return LinkDevice(WasmChannel(build_module(program)), program, **options)


def wasmtime() -> Any:
    try:
        return importlib.import_module("wasmtime")
    except ImportError as e:
        raise needs("wasmtime", "web", "running WebAssembly here") from e
