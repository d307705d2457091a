"""A learner for web pages: one JavaScript module (.mjs) with the program as WebAssembly, or one page (.html) to try it.

Both go on learning: they have the training program, not a graph for inference, so they predict and learn the same bytes
as every other device. about.py says what the JavaScript must know of the program; learner.mjs and page.html are
completed here.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from insitu.codegen import Program, emit_program
from insitu.devices.link import LinkDevice
from insitu.devices.wasm import WasmChannel
from insitu.errors import DataError, ModelError
from insitu.exporters.compared import Comparison
from insitu.exporters.samples import compared
from insitu.exporters.web.about import about
from insitu.exporters.written import Options, Written
from insitu.firmware.wasm import build_module
from insitu.learner.file import state_of
from insitu.terminal.wording import either

if TYPE_CHECKING:
    from insitu.learner import Learner

FOLDER = Path(__file__).parent
PARTS = ("ABOUT", "MODULE", "STATE")


def write(learner: Learner, options: Options) -> Written:
    """The JavaScript module."""
    program = _program(learner)
    return Written(script(learner, program).encode(), (_size(program),))


def page(learner: Learner) -> bytes:
    """The page. Its script is the same module; a name must end neither the script nor the title."""
    program = _program(learner)
    name = html.escape(next(iter(program.plans.values())).graph.name or "A learner")
    text = script(learner, program).replace("</", "<\\/")
    return _text("page.html").replace("TITLE", name).replace("SCRIPT", text, 1).encode()


def script(learner: Learner, program: Program) -> str:
    """The text of the JavaScript module: what it knows, then what it does."""
    state = program.state.saved(program.state.pack(state_of(learner))) if program.state else b""
    parts = about(learner, program), _base64(build_module(program)), _base64(state)
    known = "".join(f"const {name} = {json.dumps(part)};\n" for name, part in zip(PARTS, parts))
    return f"// {_line(program)}, as WebAssembly. Made by insitu.\n{known}\n{_text('learner.mjs')}"


def check(data: bytes, learner: Learner, options: Options) -> Sequence[str | Comparison]:
    """Run the file's module in wasmtime, if that is installed, and compare predictions with the learner's."""
    if find_spec("wasmtime") is None:
        return ['not run and compared: wasmtime is not installed (pip install "insitu[web]")']
    graph, found = learner.graphs["predict"], Comparison("wasmtime")
    with opened(data, _program(learner)) as device:
        for sample in compared(graph, options.data):
            pairs = zip(device.run("predict", *sample), learner.device.run("predict", *sample))
            for i, (got, want) in enumerate(pairs):
                found = found.output(got, want, i == 0)
    if found.worst > 0:
        raise ModelError(f"the written file gives other outputs: off by {found.worst:.0%} of the largest",
                         where=graph.name)  # fmt: skip
    return [found.of(learner.recipe)]


def opened(data: bytes, program: Program) -> LinkDevice:
    """The module of a written file, in this process, with the state that the file has."""
    parts = parts_of(data)
    device = LinkDevice(WasmChannel(base64.b64decode(parts["MODULE"])), program)
    if parts["STATE"]:
        device.load_state(base64.b64decode(parts["STATE"]))
    return device


def parts_of(data: bytes) -> dict[str, Any]:
    """What a written file knows."""
    lines = (re.search(rf"^const {name} = (.*);$", data.decode(), re.MULTILINE) for name in PARTS)
    return {name: json.loads(found[1]) for name, found in zip(PARTS, lines) if found}


def _program(learner: Learner) -> Program:
    if learner.parts is None:
        raise DataError("a board's folder has no model to export", hint="save its state, load it where the model is")
    if any(graph.by_rows for graph in learner.graphs.values()):
        hint = either(shell="insitu compile without --rows", python="a learner compiled without rows")
        raise DataError("this program takes its input row by row, which a page does not need", hint=hint)
    return emit_program(learner.plans)


def _line(program: Program) -> str:
    """The network's name, safe in a comment of one line."""
    name = next(iter(program.plans.values())).graph.name
    return re.sub(r"[^\w .()+-]", "_", name) or "a learner"


def _size(program: Program) -> str:
    return f"{len(build_module(program)):,} bytes of WebAssembly; open() gives a learner that predicts and learns"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@cache
def _text(name: str) -> str:
    return (FOLDER / name).read_text()
