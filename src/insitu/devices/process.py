"""The firmware as a process of this machine: the same C as on a board, with standard input and output as its line.

Used by the tests and the fuzzer; `devices/host.py`, which calls the program directly, is the reference.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
from pathlib import Path

from insitu.codegen import Program
from insitu.codegen.device import KERNELS, SOURCES, emit_device, main_source
from insitu.devices.link import LinkDevice
from insitu.errors import DeviceError
from insitu.terminal.wording import either
from insitu.toolchain.cache import cached, key_of
from insitu.toolchain.compiler import (
    FLAGS,
    NATIVE,
    STRICT,
    compile_c,
    compiler_version,
    kernel_objects,
    object_of,
    write_files,
)
from insitu.toolchain.joined import joined
from insitu.toolchain.prototypes import kernels_header
from insitu.toolchain.sources import C_FOLDER, EVERYTHING, depends

PORT = "device/ports/stdio.c"
PATIENCE = 10.0  # seconds that a program may take to end


class ProcessChannel:
    """A program's standard input and output."""

    def __init__(self, command: list[str], **options):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **options)
        assert self.process.stdin and self.process.stdout
        self._in, self._out = self.process.stdin, self.process.stdout

    def write(self, data: bytes) -> None:
        try:
            while data:
                data = data[self._in.write(data) :]
        except OSError as e:
            raise self.gone() from e

    def read(self, most: int, timeout: float) -> bytes:
        if not select.select([self._out], [], [], max(timeout, 0))[0]:
            return b""
        data = os.read(self._out.fileno(), most)
        if not data:
            raise self.gone()
        return data

    def gone(self) -> DeviceError:
        return DeviceError("has gone", where="device")

    def close(self) -> None:
        """The end of input ends the firmware."""
        self._in.close()
        self._out.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:  # it hangs
            self.process.kill()
            self.process.wait()


def build_firmware(program: Program, flags: tuple[str, ...] = (NATIVE,)) -> Path:
    """An executable that serves the protocol; cached by content."""
    if program.life:
        hint = either(shell="--on emulator", python='on("emulator"); or learner.keep()')
        raise DeviceError("a program that keeps samples needs a board's flash", hint=hint)
    kernels = (*program.kernels, *KERNELS)
    made = {**program.files, **emit_device(program), "main.c": main_source(program.prefix)}
    files = joined({**made, EVERYTHING: kernels_header(kernels)})
    own = ("-O1", *STRICT, *flags)
    objects = [object_of(C_FOLDER / name, "device", own) for name in (*SOURCES, PORT)]
    objects += kernel_objects(kernels, flags)
    read_by = [part for name, text in sorted(files.items()) for part in (name, text, *depends(text, given=files))]
    key = key_of(compiler_version(), *own, *(o.name for o in objects), *read_by)

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            write_files(folder, files)
            sources = [str(Path(folder) / name) for name in sorted(files) if name.endswith(".c")]
            common = [*FLAGS, *own, "-I", str(C_FOLDER), "-I", folder]
            compile_c([*common, *sources, *map(str, objects), "-o", str(path)])

    return cached("firmware", key, "", make)


def open_process(program: Program, *, flags: tuple[str, ...] = (NATIVE,), **options) -> LinkDevice:
    """A device that is a process."""
    return LinkDevice(ProcessChannel([str(build_firmware(program, flags))]), program, **options)
