"""A generated program alone on an emulated Cortex-M: built with zig, run in Unicorn, counted call by call.

No firmware and no protocol: only the kernels are examined. Counts instructions, not cycles. devices/emulator.py
emulates the whole device.
"""

from __future__ import annotations

import ctypes
import io
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from insitu.boards.cpu import CPUS
from insitu.codegen import Program
from insitu.firmware.build import ALONE, FLAGS, ZIG, Tools, compile_all, hand_written, link, runtime
from insitu.graph import Value
from insitu.toolchain.prototypes import kernels_header
from insitu.toolchain.sources import EVERYTHING, closure, kernel_path
from insitu.toolchain.zig import zig_command

CODE, DATA, END = 0x08000000, 0x20000000, 0x0A000000
MEGABYTE = 1 << 20
CPU = {"m7": "cortex-m7", "m4": "cortex-m4", "m0": "cortex-m0plus"}  # whose runtime is linked
CORES = {
    "m7": ("thumb-freestanding-eabihf", "cortex_m7+fp_armv8d16", "UC_CPU_ARM_CORTEX_M7"),
    "m4": ("thumb-freestanding-eabihf", "cortex_m4+vfp4d16sp", "UC_CPU_ARM_CORTEX_M4"),
    "m0": ("thumb-freestanding-eabi", "cortex_m0plus", "UC_CPU_ARM_CORTEX_M0"),
}
COUNTER = """
#include <stdint.h>
typedef struct { uint64_t low, high, site, *counts; } range;
void count(void *uc, uint64_t address, uint32_t size, void *user)
{
    range *r = user;
    (void)uc, (void)size;
    if (address >= r->low && address < r->high) {
        r->site = (address - r->low) / 2;
    }
    r->counts[r->site]++;
}
"""
LINK = """ENTRY(bench)
MEMORY { flash (rx) : ORIGIN = 0x08000000, LENGTH = 8M  ram (rwx) : ORIGIN = 0x20000000, LENGTH = 8M }
SECTIONS { .text : { KEEP(*(.text.bench*)) *(.text*) *(.rodata*) *(.data*) } > flash
           .ARM.exidx : { *(.ARM.exidx*) } > flash
           .bss (NOLOAD) : { *(.bss*) *(COMMON) } > ram }
"""


@dataclass(frozen=True)
class Image:
    data: bytes  # of the ELF file
    symbols: dict[str, tuple[int, int]]  # name -> address, bytes
    core: str

    def bytes_of(self, names: Sequence[str]) -> int:
        return sum(self.symbols[n][1] for n in names if n in self.symbols)


def zig() -> list[str]:
    return [*zig_command(), "cc"]


def folder() -> Path:
    return Path(os.environ.get("INSITU_CACHE", Path.home() / ".cache" / "insitu")) / "bare"


def build(
    programs: Sequence[Program], core: str = "m7", flags: Sequence[str] = ("-O2",), join: Callable = dict
) -> Image:
    """The programs, with a function `bench_<prefix>_<verb>` per verb that takes its inputs from fixed places.

    `join` may merge several files into one: starting one process per file takes time.
    """
    made = {name: text for program in programs for name, text in program.files.items()}
    kernels = closure(tuple({k for program in programs for k in program.kernels}))
    files = {**join(made), "bench.c": stage(programs), EVERYTHING: kernels_header(kernels)}
    headers = {name: text for name, text in files.items() if name.endswith(".h")}
    sources = {f"model/{name[:-2]}.o": (text, headers) for name, text in files.items() if name.endswith(".c")}
    sources |= {f"kernels/{name}.o": hand_written(kernel_path(name)) for name in kernels}
    level, *others = flags
    tools = tools_for(core, level)
    own = runtime(tools, CPUS[CPU[core]])
    tools = replace(tools, link=(*tools.link, *ALONE)) if own else tools
    data = link(compile_all(sources, tools, tuple(others)) | own, tools, LINK)
    return Image(data, symbols(data), core)


def tools_for(core: str, level: str) -> Tools:
    """As for firmware, so that both use the same runtime: zig takes seconds to build its own for a core and a level."""
    target, cpu, _ = CORES[core]
    command, linking = (*zig(), "-target", target, f"-mcpu={cpu}"), ("-O2", "-Wl,--entry=bench")
    return Tools("zig", command, (*FLAGS, level, *ZIG), linking)


def stage(programs: Sequence[Program]) -> str:
    """C that defines inputs, outputs, state and arena under names that the harness finds."""
    arena = max(program.arena_bytes for program in programs)
    lines = [f"_Alignas(16) unsigned char bench_arena[{max(arena, 1)}];"]
    calls = []
    for program in programs:
        p = program.prefix
        lines.append(f'#include "{p}.h"')
        if program.state:
            lines += [f"{p}_state bench_{p}_state;", f"void bench_{p}_init(void) {{ {p}_init(&bench_{p}_state); }}"]
            calls.append(f"bench_{p}_init();")
        for verb in program.plans:
            lines += verb_stage(program, verb)
            calls.append(f"bench_{p}_{verb}();")
    return "\n".join([*lines, f"void bench(void) {{ {' '.join(calls)} }}", ""])  # the linker keeps only what is called


def verb_stage(program: Program, verb: str) -> list[str]:
    graph, p = program.plans[verb].graph, program.prefix
    args = [f"&bench_{p}_state"] if program.state else []
    args.append("bench_arena")
    lines = []
    for kind, values in (("in", graph.inputs), ("out", graph.outputs)):
        for i, v in enumerate(values):
            name = f"bench_{p}_{verb}_{kind}{i}"
            lines.append(f"_Alignas(16) {v.type.ctype} {name}[{max(v.type.size, 1)}];")
            args.append(name if v.shape or kind == "out" else f"{name}[0]")
    return [*lines, f"void bench_{p}_{verb}(void) {{ {p}_{verb}({', '.join(args)}); }}"]


def symbols(data: bytes) -> dict[str, tuple[int, int]]:
    from elftools.elf.elffile import ELFFile

    table: Any = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
    return {s.name: (s["st_value"] & ~1, s["st_size"]) for s in table.iter_symbols() if s.name}


class Machine:
    """A core with an image loaded."""

    def __init__(self, image: Image):
        import unicorn
        from elftools.elf.elffile import ELFFile
        from unicorn import arm_const
        from unicorn.unicorn_py3 import Uc

        self.image, self.arm = image, arm_const
        self.uc: Any = Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB, getattr(arm_const, CORES[image.core][2]))
        self.uc.mem_map(CODE, 8 * MEGABYTE)
        self.uc.mem_map(DATA, 8 * MEGABYTE)
        self.uc.mem_map(END, 4096)
        for segment in ELFFile(io.BytesIO(image.data)).iter_segments():
            if segment["p_type"] == "PT_LOAD" and CODE <= segment["p_paddr"] < END and segment["p_filesz"]:
                self.uc.mem_write(segment["p_paddr"], segment.data())
        if image.core != "m0":
            self.uc.reg_write(arm_const.UC_ARM_REG_FPEXC, 0x40000000)
        self.hooked = False

    def write(self, name: str, array: np.ndarray) -> None:
        self.uc.mem_write(self.image.symbols[name][0], np.ascontiguousarray(array).tobytes())

    def read(self, name: str, value: Value) -> np.ndarray:
        data = self.uc.mem_read(self.image.symbols[name][0], value.type.bytes)
        return np.frombuffer(bytes(data), value.type.numpy).reshape(value.shape)

    def call(self, function: str, within: str = "") -> np.ndarray:
        """Run it; returns the instructions of each halfword of `within`, including those of the functions it calls."""
        low, size = self.image.symbols[within or function]
        counts = np.zeros(size // 2 + 1, np.uint64)
        bounds = _Range(low, low + size, 0, counts.ctypes.data)
        handle = self._hook(bounds)
        self.enter(function)
        uclib().uc_hook_del(self.uc._uch, handle)
        return counts

    def enter(self, function: str) -> None:
        """Run it without counting, which is many times faster."""
        self.uc.reg_write(self.arm.UC_ARM_REG_SP, DATA + 8 * MEGABYTE - 64)
        self.uc.reg_write(self.arm.UC_ARM_REG_LR, END | 1)
        self.uc.emu_start(self.image.symbols[function][0] | 1, END)

    def _hook(self, bounds: _Range):
        from unicorn import UC_HOOK_CODE

        handle = ctypes.c_size_t()
        user = ctypes.cast(ctypes.pointer(bounds), ctypes.c_void_p)
        function = ctypes.cast(counter().count, ctypes.c_void_p)
        status = uclib().uc_hook_add(
            self.uc._uch,
            ctypes.cast(ctypes.byref(handle), uclib().uc_hook_add.argtypes[1]),
            UC_HOOK_CODE,
            function,
            user,
            1,
            0,
        )
        if status:
            raise RuntimeError(f"uc_hook_add: {status}")
        self.keep = bounds
        return handle.value

    def run(self, program: Program, verb: str, *inputs: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Call a verb of a program; returns the counts per halfword of its own function, and its outputs."""
        name = self._fed(program, verb, inputs)
        counts = self.call(name, within=f"{program.prefix}_{verb}")
        return counts, self._outputs(program, verb, name)

    def outputs(self, program: Program, verb: str, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Call a verb of a program; returns its outputs and counts nothing."""
        name = self._fed(program, verb, inputs)
        self.enter(name)
        return self._outputs(program, verb, name)

    def _fed(self, program: Program, verb: str, inputs: Sequence[np.ndarray]) -> str:
        name = f"bench_{program.prefix}_{verb}"
        for i, x in enumerate(inputs):
            self.write(f"{name}_in{i}", x)
        return name

    def _outputs(self, program: Program, verb: str, name: str) -> tuple[np.ndarray, ...]:
        values = program.plans[verb].graph.outputs
        return tuple(self.read(f"{name}_out{i}", v) for i, v in enumerate(values))


class _Range(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("low", "high", "site", "counts")]


def uclib() -> Any:
    from unicorn.unicorn_py3.unicorn import uclib as found

    return found


@cache
def counter() -> ctypes.CDLL:
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    path = place / "count.so"
    with tempfile.TemporaryDirectory(dir=place) as temporary:
        source, made = Path(temporary) / "count.c", Path(temporary) / "count.so"
        source.write_text(COUNTER)
        subprocess.run([*zig(), "-O2", "-shared", "-fPIC", str(source), "-o", str(made)], check=True)
        made.replace(path)
    return ctypes.CDLL(str(path))
