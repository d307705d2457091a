"""Which headers a board's core reads: kernels include those of every machine under #if, but a folder only needs those
of one.

The preprocessor of the cross compiler tells. Besides the board's own, a folder keeps the headers for plain C
(-DINSITU_SCALAR), because its example also runs on the machine it was made on. Nothing is compiled here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from insitu.boards import Board
from insitu.firmware.build import checked
from insitu.toolchain.cache import cached, key_of
from insitu.toolchain.compiler import SCALAR
from insitu.toolchain.zig import zig_command

EVERY = "every.c"  # includes all sources: one run of the preprocessor


def only_reached(files: Mapping[str, str], board: Board) -> dict[str, str]:
    """These files without the headers that nothing includes; all of them if there is no compiler to ask."""
    if not zig_command():
        return dict(files)
    read = {name for options in (board.core.zig, (*board.core.zig, SCALAR)) for name in reached(files, options)}
    return {name: text for name, text in files.items() if not name.endswith(".h") or name in read}


def reached(files: Mapping[str, str], options: tuple[str, ...]) -> list[str]:
    """The names of the files that are read when every source is preprocessed with these options."""
    command = (*zig_command(), "cc", *options, "-ffreestanding")
    key = key_of(*command[1:], *(part for name in sorted(files) for part in (name, files[name])))

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            sources = [name for name in sorted(files) if name.endswith(".c")]
            every = {**files, EVERY: "".join(f'#include "{name}"\n' for name in sources)}
            for name, text in every.items():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).write_text(text)
            checked([*command, "-I.", "-MM", "-MF", str(path), EVERY], folder)

    words = cached("reached", key, ".d", make).read_text().replace("\\\n", " ").split()
    return [word.removeprefix("./") for word in words[1:]]
