"""A training program as a folder to copy into a build: generated files, the kernels they call, and the headers.

cc -std=c99 -O2 -I. *.c kernels/*.c your_main.c
"""

from __future__ import annotations

from pathlib import Path

from insitu.codegen import Program
from insitu.devices.compiler import C_FOLDER, closure, kernel_source
from insitu.errors import ToolError


def bundle_files(program: Program) -> dict[str, str]:
    """Path in the folder -> text."""
    headers = {str(p.relative_to(C_FOLDER)): p.read_text() for p in sorted(C_FOLDER.rglob("*.h"))}
    kernels = {f"kernels/{name}.c": kernel_source(name) for name in closure(program.kernels)}
    return {**program.files, **headers, **kernels}


def write_bundle(program: Program, folder: str | Path) -> list[Path]:
    """Write the folder; what else lies in it stays."""
    written = []
    try:
        for name, text in bundle_files(program).items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            written.append(path)
    except OSError as e:
        raise ToolError(f"cannot be written: {e.strerror or e}", where=str(folder)) from e
    return written
