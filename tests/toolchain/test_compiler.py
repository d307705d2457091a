"""Building on a machine with problems: each gives an error that says what is wrong and what to do, no traceback."""

import os
import shlex
import subprocess
import sys

import numpy as np
import pytest

import insitu.ops  # noqa: F401
from insitu.boards import find_board
from insitu.devices.host import open_host
from insitu.errors import ToolError
from insitu.firmware.build import find_tools
from insitu.graph import build, f32, lookup
from insitu.toolchain import cache
from insitu.toolchain.compiler import STRICT, build_library, compile_c, find_compiler
from insitu.toolchain.prototypes import kernels_header
from insitu.toolchain.sources import C_FOLDER, closure, kernel_path

TRY = """
import sys
from insitu.toolchain.compiler import build_library
from insitu.errors import ToolError
try:
    build_library({"a.c": "int a(void) { return 1; }"}, ())
except ToolError as e:
    sys.exit(f"ToolError: {e}")
"""


# a library that the process has loaded globally has a function with the name of one of our kernels
OTHERS = """
import ctypes, sys
import numpy as np
import insitu.ops
from insitu.toolchain.compiler import build_library
from insitu.devices.host import open_host
from insitu.graph import build, f32, lookup
others = build_library({"a.c": "void copy_bytes(void) { __builtin_trap(); }"}, ())
ctypes.CDLL(str(others), mode=ctypes.RTLD_GLOBAL)
with build("g") as b:
    y = lookup("reshape")(b.input("x", f32(1, 4)), shape=(2, 2), name="y")
assert open_host(b.graph(y)).predict(np.ones((1, 4), np.float32)).sum() == 4
"""


def attempt(**settings: str) -> str:
    """The output of a process with these settings that builds a library."""
    done = subprocess.run(
        [sys.executable, "-c", TRY], env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return done.stderr


BUILT = """
import ctypes
from insitu.toolchain.compiler import build_library
exit(ctypes.CDLL(str(build_library({"a.c": "int a(void) { return ANSWER; }"}, ()))).a())
"""


def test_flags_in_the_variable_of_the_compiler_are_part_of_the_cache_key(tmp_path):
    def answer(number: int) -> int:
        command = shlex.join((*find_compiler(), f"-DANSWER={number}"))
        settings = {**os.environ, "CC": command, "INSITU_CACHE": str(tmp_path)}
        return subprocess.run([sys.executable, "-c", BUILT], env=settings, check=False).returncode

    assert [answer(number) for number in (3, 4, 3)] == [3, 4, 3]


@pytest.mark.parametrize("cc", ["true", "false", "/nonexistent/cc", "'unclosed"])
def test_a_compiler_that_is_none_is_named_with_what_to_do(cc, tmp_path):
    said = attempt(CC=cc, INSITU_CACHE=str(tmp_path))
    assert said.startswith("ToolError") and cc in said and "try: set CC" in said


def test_without_a_cross_compiler_the_extra_that_brings_one_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ToolError, match="no cross compiler") as e:
        find_tools("zig", find_board("stm32f746").core)
    assert e.value.hint == 'pip install "insitu[emulate]"'


def test_a_file_where_the_cache_should_be_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    said = attempt(INSITU_CACHE=str(tmp_path / "file"))
    assert said.startswith("ToolError") and str(tmp_path / "file") in said and "try: set INSITU_CACHE" in said


def test_a_cache_that_cannot_be_written_is_an_error():
    said = attempt(INSITU_CACHE="/proc/insitu")  # no user can write there
    assert said.startswith("ToolError") and "try: set INSITU_CACHE" in said


def test_a_full_disk_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path))

    def make(path):
        raise OSError(28, "No space left on device")

    with pytest.raises(ToolError, match="No space left"):
        cache.cached("kind", "key", ".o", make)
    assert not list((tmp_path / "kind").iterdir())


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:99] + b"x" + b[100:]])
def test_a_damaged_library_is_built_again(damage, tmp_path, monkeypatch):
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path))
    with build("g") as b:
        y = lookup("relu")(b.input("x", f32(1, 4)), name="y")
    x = np.array([[-1, 2, -3, 4]], np.float32)
    open_host(b.graph(y))
    (library,) = (tmp_path / "library").iterdir()
    whole = library.read_bytes()
    library.unlink()  # the loaded one keeps its bytes
    library.write_bytes(damage(whole))
    np.testing.assert_array_equal(open_host(b.graph(y)).predict(x), [[0, 2, 0, 4]])  # type: ignore
    assert cache.sealed(library)


def test_damaged_objects_are_built_again(tmp_path, monkeypatch):
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path))
    build_library({"a.c": "int a(void) { return 1; }"}, ("copy_bytes",))
    objects = {path: path.read_bytes() for path in (tmp_path / "kernel").iterdir()}
    assert objects
    for path, whole in objects.items():
        path.write_bytes(whole[:100])
    build_library({"a.c": "int a(void) { return 2; }"}, ("copy_bytes",))
    assert {path: len(path.read_bytes()) for path in objects} == {path: len(whole) for path, whole in objects.items()}


DAMAGES = {"cut": lambda b: b[: len(b) // 2], "empty": lambda b: b"", "changed": lambda b: b[:99] + b"x" + b[100:]}


@pytest.mark.parametrize("how", DAMAGES)
def test_every_damaged_entry_is_made_again_before_it_is_used(how, tmp_path, monkeypatch):
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path))
    for kind in ("cross", "emulator", "library", "firmware"):
        path = cache.cached(kind, "key", ".o", lambda to: to.write_bytes(bytes(200)))
        path.write_bytes(DAMAGES[how](bytes(200)))
        again = cache.cached(kind, "key", ".o", lambda to: to.write_bytes(bytes(200)))
        assert again == path and path.read_bytes() == bytes(200) and cache.sealed(path)


def test_an_entry_that_others_can_write_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path))
    path = cache.cached("kernel", "key", ".o", lambda to: to.write_bytes(b"ours"))
    path.chmod(0o666)
    assert not cache.sealed(path)
    assert cache.sealed(cache.cached("kernel", "key", ".o", lambda to: to.write_bytes(b"ours")))


def test_a_folder_that_others_can_write_is_refused_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path))
    cache.cached("kernel", "key", ".o", lambda to: to.write_bytes(b"ours"))
    (tmp_path / "kernel").chmod(0o777)
    with pytest.raises(ToolError, match=r"can be written by other users\n  try: chmod go-w"):
        cache.cached("kernel", "key", ".o", lambda to: to.write_bytes(b"ours"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_an_entry_of_another_user_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path))
    path = cache.cached("kernel", "key", ".o", lambda to: to.write_bytes(b"ours"))
    os.chown(path, 12345, 12345)
    with pytest.raises(ToolError, match=r"belongs to another user[\s\S]*INSITU_CACHE"):
        cache.cached("kernel", "key", ".o", lambda to: to.write_bytes(b"ours"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other linkers refuse it without being asked")
def test_a_function_that_is_nowhere_is_an_error_while_building():
    with pytest.raises(ToolError, match="missing"):
        build_library({"a.c": "int missing(void);\nint a(void) { return missing(); }"}, ())


def test_a_library_of_the_process_with_the_same_names_is_not_called():
    done = subprocess.run([sys.executable, "-c", OTHERS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("level", ["-O0", "-Os", "-O2"])
def test_no_kernel_needs_libm_whatever_the_flags(level, tmp_path):
    """Square roots and fused products are written so that they set no errno."""
    chosen = closure(("adam_f32", "batch_norm_train_f32", "conv2d_dw_s8", "depthwise2d_dx_s8", "layer_norm_f32",
                      "rsqrt_f32", "sgd_residual_s8", "sqrt_f32"))  # fmt: skip
    assert {"clip_factor", "matrix_s8"} & set(chosen) and len(chosen) > 8
    (tmp_path / "kernels.h").write_text(kernels_header(chosen))
    for extra in ((), ("-DINSITU_SCALAR",), ("-march=native",)):
        for name in chosen:
            flags = ["-std=c99", "-ffp-contract=off", level, *STRICT, *extra, "-I", str(C_FOLDER), "-I", str(tmp_path)]
            compile_c([*flags, "-c", str(kernel_path(name)), "-o", str(tmp_path / f"{name}.o")])
    objects = b"".join(p.read_bytes() for p in tmp_path.glob("*.o"))
    assert b"\0sqrtf\0" not in objects and b"\0fmaf\0" not in objects


MAKES = """
import sys, time
from pathlib import Path
from insitu.toolchain.cache import cached

def make(path):
    with Path(sys.argv[1]).open("a") as made:
        made.write("made\\n")
    time.sleep(0.3)
    path.write_text("content")

assert cached("kind", "key", ".txt", make).read_text() == "content"
"""


def test_processes_that_need_the_same_file_make_it_once(tmp_path):
    environment = {**os.environ, "INSITU_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", MAKES, str(tmp_path / "made")]
    for process in [subprocess.Popen(command, env=environment) for _ in range(3)]:
        assert process.wait(60) == 0
    assert (tmp_path / "made").read_text() == "made\n"
    assert sorted(p.name for p in (tmp_path / "cache" / "kind").iterdir()) == ["key.txt"]
