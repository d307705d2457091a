"""Constants as bytes that the assembler includes: the arrays of the C, with hardly any text for a compiler to read."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from insitu.codegen import Program, emit_program
from insitu.codegen.constants import Constants
from insitu.codegen.embedded import MACHO, embedded_source
from insitu.devices.host import open_host, open_program
from insitu.firmware import build_firmware
from insitu.firmware.image import Image, Symbol
from insitu.graph import Graph, build, f32, lookup
from insitu.planner import plan
from insitu.toolchain import compiler
from insitu.toolchain.compiler import build_library
from insitu.toolchain.sources import C_FOLDER
from insitu.toolchain.zig import zig_command

from ..firmware.images import board, program

NUMBERS = 300_000
ARRAYS = {
    "bytes": np.arange(-128, 128).astype(np.int8),
    "odd": np.array([-3, 7, 1], np.int8),
    "halves": np.array([-32768, 5, 32767], np.int16),
    "words": np.array([-(2**31), 2**31 - 1, 0, 9], np.int32),
    "floats": np.array([0.1, -0.0, 3e38, 1e-45, np.inf], np.float32),
    "flags": np.array([True, False, True]),
    "empty": np.zeros(0, np.float32),
}


def constants() -> Constants:
    made = Constants("net")
    for name, array in ARRAYS.items():
        made.array(name, name, array)
    return made


def graph() -> Graph:
    """A network whose weights are most of it."""
    weight = np.random.default_rng(0).standard_normal((100, NUMBERS // 100)).astype(np.float32)
    with build("g") as b:
        x = b.input("x", f32(1, NUMBERS // 100))
        y = lookup("linear")(x, b.constant("w", weight), b.constant("b", np.ones(100, np.float32)), name="y")
    return b.graph(y)


def large() -> Program:
    return emit_program(plan(graph()))


def read_back(path: Path) -> dict[str, bytes]:
    library = ctypes.CDLL(str(path))
    return {n: bytes((ctypes.c_uint8 * a.nbytes).in_dll(library, f"net_{n}")) for n, a in ARRAYS.items()}


def test_arrays_of_every_type_have_the_bytes_that_they_have_in_python():
    text, data = embedded_source(constants(), 64)
    header = {"net_weights.h": constants().header()}
    assert read_back(build_library({**header, "net_weights.c": text, **data}, ())) == {
        name: array.tobytes() for name, array in ARRAYS.items()
    }


def test_the_same_constants_give_the_same_files_and_others_give_another_name():
    one, two = embedded_source(constants(), 64), embedded_source(constants(), 64)
    other = constants()
    other.arrays[0] = ("net_bytes", np.flip(ARRAYS["bytes"]).copy(), "")
    assert one == two and not set(one[1]) & set(embedded_source(other, 64)[1])
    assert one[0] != embedded_source(other, 64)[0]  # a text is the key of an object


@pytest.fixture
def texts(monkeypatch, tmp_path):
    """An empty cache, and every C file that the compiler gets from here on."""
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path / "cache"))
    found, real = [], compiler.compile_c

    def noted(arguments):
        found.extend(Path(a).read_text() for a in arguments if a.endswith(".c"))
        real(arguments)

    monkeypatch.setattr(compiler, "compile_c", noted)
    return found


def test_no_compiler_reads_the_numbers_of_a_large_network_as_text(texts):
    open_program(large())
    assert texts and sum(map(len, texts)) < NUMBERS / 4  # as text, each would have more than ten characters


def test_sanitizers_see_arrays_that_they_know(texts):
    files = {"net_weights.h": constants().header()}
    text, data = embedded_source(constants(), 64)
    build_library({**files, "net_weights.c": text, **data}, (), ("-fsanitize=undefined",),
                  plain=lambda: {**files, "net_weights.c": constants().source()})  # fmt: skip
    assert not any("incbin" in text for text in texts)


REFUSES = """#!{shell}
for file in "$@"; do
    case "$file" in *.c) if {grep} -q incbin "$file"; then echo "error: unknown directive" >&2; exit 1; fi;; esac
done
exec {command} "$@"
"""
PREDICTS = """
import sys
from tests.toolchain.test_embedded import open_program, large
import numpy as np
x = np.random.default_rng(1).standard_normal((1, 3000)).astype(np.float32)
sys.stdout.write(open_program(large()).predict(x).tobytes().hex())
"""


def predicted(cc: str, cache: Path, **settings: str) -> str:
    """The bytes of a prediction by a process with this compiler."""
    settings = {**os.environ, "CC": cc, "INSITU_CACHE": str(cache), **settings}
    done = subprocess.run([sys.executable, "-c", PREDICTS], env=settings, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.skipif(not (shutil.which("sh") and shutil.which("grep")), reason="needs sh and grep")
def test_a_compiler_that_cannot_include_bytes_gets_text(tmp_path):
    command = " ".join(compiler.find_compiler())
    script = tmp_path / "cc"
    script.write_text(REFUSES.format(shell=shutil.which("sh"), grep=shutil.which("grep"), command=command))
    script.chmod(0o755)
    assert predicted(str(script), tmp_path / "text") == predicted(command, tmp_path / "bytes")


@pytest.mark.skipif(not zig_command(), reason="needs zig")
def test_with_no_compiler_on_the_path_zig_gives_the_bytes_of_the_plain_program(tmp_path):
    zig = " ".join((*zig_command(), "cc"))
    script = tmp_path / "cc"
    script.write_text(REFUSES.format(shell=shutil.which("sh"), grep=shutil.which("grep"), command=zig))
    script.chmod(0o755)
    nothing = {"PATH": str(tmp_path / "nothing")}
    assert predicted("", tmp_path / "bytes", **nothing) == predicted(str(script), tmp_path / "text")


@pytest.mark.skipif(not zig_command(), reason="needs zig")
def test_the_form_for_macos_has_its_names_and_its_bytes(tmp_path):
    text, data = embedded_source(constants(), 64, MACHO)
    compiler.write_files(tmp_path, {"net_weights.c": text, "net_weights.h": constants().header(), **data,
                                    "kernels.h": "#include <stdint.h>\n"})  # fmt: skip
    for target in ("aarch64-macos", "x86_64-macos"):
        made = tmp_path / f"{target}.o"
        command = [*zig_command(), "cc", "-target", target, "-I", str(tmp_path), "-I", str(C_FOLDER), "-c"]
        subprocess.run([*command, str(tmp_path / "net_weights.c"), "-o", str(made)], check=True)
        for name, array in ARRAYS.items():
            assert f"\0_net_{name}\0".encode() in made.read_bytes() and array.tobytes() in made.read_bytes()


def named(image: Image) -> list[Symbol]:
    return [s for s in image.symbols if not s.section.startswith(".debug")]


@pytest.mark.parametrize("core", ["M7", "M0+", "RISC-V"])
def test_a_firmware_is_the_same_image_as_with_plain_c(core, monkeypatch):
    pytest.importorskip("elftools")
    whole = build_firmware(program("conv"), board(core)).image
    monkeypatch.setattr(Program, "embedded", lambda self: self.files)
    plain = build_firmware(program("conv"), board(core)).image
    assert whole.segments == plain.segments and named(whole) == named(plain)
    assert len(whole.data) != len(plain.data)  # the debug information differs: both were built


def test_a_network_predicts_what_its_graph_says():
    x = np.random.default_rng(1).standard_normal((1, NUMBERS // 100)).astype(np.float32)
    got = open_host(graph()).predict(x)
    np.testing.assert_allclose(got, x @ graph().constants["w"].T + 1, rtol=1e-4, atol=1e-4)
