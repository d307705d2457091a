"""Files compiled in one start of the compiler give the code of files compiled one by one."""

import subprocess

import pytest

from insitu.errors import ToolError
from insitu.firmware import build, build_firmware
from insitu.firmware.build import compile_all, find_tools

from .images import board, program

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)


@pytest.fixture
def starts(monkeypatch, tmp_path):
    """An empty cache, and every command that is run from here on."""
    program()  # with the usual cache
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path / "together"))
    commands, run = [], subprocess.run

    def noted(command, **how):
        commands.append(command)
        return run(command, **how)

    monkeypatch.setattr(subprocess, "run", noted)
    return commands


@pytest.mark.parametrize("core", ["M4", "M55"])
def test_code_and_lines_are_the_same_in_a_fraction_of_the_starts(core, starts, tmp_path, monkeypatch):
    together = build_firmware(program(), board(core)).image
    few = len(starts)
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path / "alone"))
    monkeypatch.setattr(build, "compile_together", lambda *_: {})
    alone = build_firmware(program(), board(core)).image
    assert together.segments == alone.segments and together.symbols == alone.symbols
    assert together.lines("net_train_step.c") == alone.lines("net_train_step.c") != {}
    assert few * 3 < len(starts) - few


def test_a_file_with_an_error_is_named_and_the_others_are_kept(starts):
    right, wrong = ("int right(void) { return 1; }\n", {}), ("int wrong(void) { return missing; }\n", {})
    tools = find_tools("zig", board("M4").core)
    with pytest.raises(ToolError, match="wrong.c.*missing"):
        compile_all({"kernels/right.o": right, "kernels/wrong.o": wrong}, tools, ())
    before = len(starts)
    compile_all({"kernels/right.o": right}, tools, ())
    assert len(starts) == before


def test_a_warning_is_an_error_here_too(starts):
    unused = ("void f(void) { int unused; }\n", {})
    with pytest.raises(ToolError, match="unused"):
        compile_all({"kernels/f.o": unused, "kernels/g.o": unused}, find_tools("zig", board("M4").core), ())
