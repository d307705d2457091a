"""Find zig, the C compiler for every target that `pip install ziglang` brings."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


def zig_command() -> tuple[str, ...]:
    """The program itself, to be followed by `cc`; empty if it is not installed.

    Not `python -m ziglang` if the program can be started directly: starting Python takes as long as a small kernel.
    """
    spec = importlib.util.find_spec("ziglang")
    if not spec or not spec.origin:
        return ()
    program = Path(spec.origin).parent / ("zig.exe" if os.name == "nt" else "zig")
    return (str(program),) if program.is_file() else (sys.executable, "-m", "ziglang")
