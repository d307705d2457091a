"""The part of zig's runtime that firmware needs on a core without an FPU: floats, 64-bit integers, bytes copied.

Before zig links for a target it builds all of its runtime, doubles and quadruples and complex numbers too, which takes
longer than compiling a firmware. Here the same sources are built with most of them left out: a function is compiled
only if it is exported. Its code is the same, but for one call that is inlined in a division. Nothing here is required:
without this object, or with something missing from it, zig links its own runtime (build.py).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from insitu.errors import ToolError
from insitu.toolchain.cache import cached, key_of
from insitu.toolchain.sources import read
from insitu.toolchain.zig import zig_command

ROOT = "compiler_rt.zig"
# files of zig's runtime
FILES = ("addf3", "arm", "cmp", "comparef", "count0bits", "divsf3", "extendf", "float_from_int", "int",
         "int_from_float", "memcpy", "memmove", "mulXi3", "mulf3", "shift", "truncf", "udivmod")  # fmt: skip
# parts of the names of functions on types that our C does not use: halves, quadruples, integers of 128 bits and more.
# A fused multiply-add takes doubles there
OTHERS = ("tf", "xf", "hf", "kf", "ti", "ei", "f2h", "h2f", "d2h")
IMPORT = re.compile(r'^ *_ = @import\("compiler_rt/(\w+)\.zig"\);\n', re.MULTILINE)
EXPORT = re.compile(r"^pub inline fn symbol\(.*\) void \{\n", re.MULTILINE)
OPTIONS = ("-ffunction-sections", "-fdata-sections", "-fno-unwind-tables", "-fno-builtin", "-fomit-frame-pointer")
MODES = {"-O2": "-OReleaseFast", "-Os": "-OReleaseSmall"}


def soft_runtime(target: tuple[str, ...], level: str, version: str,
                 run: Callable[[list[str]], None]) -> Path | None:  # fmt: skip
    """The object for a target, given as options of zig; None if this zig's runtime is made of other parts.

    `run` runs a command, or raises a ToolError.
    """
    library = Path(zig_command()[0]).parent / "lib"
    text = smaller(read(library / ROOT)) if (library / ROOT).is_file() else ""
    if not text or level not in MODES:
        return None
    options = (*target, MODES[level], *OPTIONS)

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / ROOT).write_text(text)
            (Path(folder) / Path(ROOT).stem).symlink_to(library / Path(ROOT).stem)
            run([*zig_command(), "build-obj", *options, f"-femit-bin={path}", str(Path(folder) / ROOT)])

    try:
        return cached("cross", key_of(version, *options, text), ".o", make)
    except ToolError:  # these sources do not go together: zig's whole runtime will do
        return None


def smaller(text: str) -> str:
    """The runtime's root file with fewer parts, which exports fewer functions; empty if it is not as expected."""
    if not EXPORT.search(text) or not set(FILES) <= set(IMPORT.findall(text)):
        return ""
    parts = ", ".join(f'"{part}"' for part in OTHERS)
    leave_out = f"""    @setEvalBranchQuota(100_000);
    inline for (.{{ {parts} }}) |part| {{
        if (comptime std.mem.indexOf(u8, name, part) != null) return;
    }}
"""
    text = EXPORT.sub(lambda found: found[0] + leave_out, text)
    return IMPORT.sub(lambda found: found[0] if found[1] in FILES else "", text)
