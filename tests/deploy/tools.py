"""Tools of other build systems, in an environment of their own: they are run here, never imported.

PlatformIO pins click, starlette and uvicorn, and flwr among our own packages has pins, too: in one environment, one of
them would lose. So they are no extra; a test installs each into the cache, once, and skips offline.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from insitu.files import cache_folder

PLATFORMIO, COMPOTE = "platformio==6.1.18", "idf-component-manager==2.2.2"
PATIENCE = 300  # seconds: without a network, pip tries for long


@cache
def tool(package: str, name: str) -> str:
    """The path of a program that comes with a package."""
    folder = cache_folder() / "tools" / package.replace("==", "-")
    done = folder / "installed"  # written last: an environment that was left half-made is made again
    if not done.exists():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], package)
        _run([str(folder / "bin" / "pip"), "install", "-q", package], package)
        done.write_text(f"{package}\n")
    return str(folder / "bin" / name)


def _run(command: list[str], package: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{package} cannot be installed within {PATIENCE} s")
    if done.returncode:
        pytest.skip(f"{package} cannot be installed: {done.stderr.strip()[-200:]}")


# Zephyr ---------------------------------------------------------------------------------------------

# the keys that Zephyr's scripts/zephyr_module.py allows in zephyr/module.yml; unknown ones end its build
MODULE_KEYS = {"name", "build", "tests", "samples", "boards", "blobs"}
BUILD_KEYS = {
    "cmake", "kconfig", "cmake-ext", "kconfig-ext", "sysbuild-cmake", "sysbuild-kconfig", "sysbuild-cmake-ext",
    "sysbuild-kconfig-ext", "depends", "settings",
}  # fmt: skip

# what a module may call, as Zephyr's cmake/modules/extensions.cmake declares it: enough to build a library
STUBS = """cmake_minimum_required(VERSION 3.20)
project(stubs C)
add_library(zephyr_interface INTERFACE)
function(zephyr_library_named name)
  add_library(${name} STATIC "")
  set(ZEPHYR_CURRENT_LIBRARY ${name} PARENT_SCOPE)
  target_link_libraries(${name} PUBLIC zephyr_interface)
endfunction()
function(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_library_compile_options)
  target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_include_directories)
  target_include_directories(zephyr_interface INTERFACE ${ARGN})
endfunction()
add_compile_definitions(INSITU_SCALAR)
set(ZEPHYR_CURRENT_MODULE_DIR "${MODULE}")
add_subdirectory(${MODULE}/zephyr module)
"""


def keys_of(text: str, indent: str = "") -> dict[str, str]:
    """The keys of a mapping in YAML as simple as ours: one line per key."""
    lines = [line for line in text.splitlines() if line.startswith(indent) and not line[len(indent) :].startswith(" ")]
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def write_stubs(folder: Path) -> Path:
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(STUBS)
    return folder
