"""The runtime that firmware is linked with if the compiler's own is not needed."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from insitu.firmware import build, build_firmware, soft
from insitu.toolchain.cache import cached
from insitu.toolchain.compiler import compile_c
from insitu.toolchain.sources import C_FOLDER
from insitu.toolchain.zig import zig_command

from .images import board, program

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)

# in a function that startup keeps
DOUBLE = """
void fault(void);
void fault(void)
{
    volatile double x = 3;
    x = x * x;
    for (;;) {
    }
}
"""


@pytest.fixture(scope="module")
def runtime(tmp_path_factory) -> ctypes.CDLL:
    """The same C on this machine, under unique names."""
    made: Path = tmp_path_factory.mktemp("runtime") / "runtime.so"
    others = [f"-D{name}=our_{name}" for name in ("memset", "memcpy", "memmove")]
    source = str(C_FOLDER / "boards" / "runtime.c")
    compile_c(["-std=c99", "-O2", "-ffreestanding", "-shared", "-fPIC", *others, source, "-o", str(made)])
    return ctypes.CDLL(str(made))


@pytest.mark.parametrize("start", range(5))
@pytest.mark.parametrize("size", (0, 1, 3, 4, 5, 8, 19))
def test_bytes_are_set_from_any_place_on(runtime, start, size):
    given = np.arange(32, dtype=np.uint8)
    wanted = given.copy()
    wanted[start : start + size] = 0xA7
    runtime.our_memset(ctypes.c_void_p(given.ctypes.data + start), 0x1A7, ctypes.c_size_t(size))
    np.testing.assert_array_equal(given, wanted)


@pytest.mark.parametrize(("to", "source"), [(0, 5), (5, 0), (3, 3)])
def test_bytes_are_moved_either_way(runtime, to, source):
    given = np.arange(32, dtype=np.uint8)
    wanted = given.copy()
    wanted[to : to + 20] = given[source : source + 20].copy()
    at = given.ctypes.data
    runtime.our_memmove(ctypes.c_void_p(at + to), ctypes.c_void_p(at + source), ctypes.c_size_t(20))
    np.testing.assert_array_equal(given, wanted)


def commands_of(monkeypatch, core: str = "M7", **options) -> list[list[str]]:
    """The command lines that link while a firmware is built."""
    said, real = [], build.run
    monkeypatch.setattr(build, "run", lambda command, folder=None: said.append(command) or real(command, folder))
    build_firmware(program(), board(core), **options)
    monkeypatch.setattr(build, "run", real)
    return [command for command in said if "-Wl,-T,link.ld" in command]


@pytest.fixture
def no_images(monkeypatch, tmp_path):
    """No image is found in the cache."""

    def made(kind, key, suffix, make):
        if kind != "image":
            return cached(kind, key, suffix, make)
        make(tmp_path / f"{key}{suffix}")
        return tmp_path / f"{key}{suffix}"

    monkeypatch.setattr(build, "cached", made)


@pytest.mark.parametrize("core", ("M7", "M0+", "M3", "RISC-V"))
def test_nobody_waits_for_zig_to_build_its_whole_runtime(core, monkeypatch, no_images):
    commands = commands_of(monkeypatch, core)
    assert len(commands) == 2 and all("-nostdlib" in command for command in commands)


def test_what_only_the_compilers_runtime_has_is_linked_from_there(monkeypatch, no_images):
    commands = commands_of(monkeypatch, extra={"fault.c": DOUBLE})
    assert ["-nostdlib" in command for command in commands] == [True, False, False]


def test_an_image_is_linked_once(monkeypatch):
    first = build_firmware(program(), board("M7"))
    assert commands_of(monkeypatch) == []
    assert build_firmware(program(), board("M7")).image.data == first.image.data
    assert build_firmware(program(), board("M4")).image.data != first.image.data


def test_a_runtime_of_other_parts_is_left_whole():
    known = (Path(zig_command()[0]).parent / "lib" / soft.ROOT).read_text()
    assert 0 < len(soft.smaller(known)) < len(known)
    assert soft.smaller(known.replace("addf3", "addsf3")) == soft.smaller("") == ""
