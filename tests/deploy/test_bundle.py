"""A board's folder: builds anywhere without a warning, runs its example, and says what it takes."""

import shutil
import subprocess
import sys

import pytest

from insitu.boards.cpu import CPUS
from insitu.codegen.device import interface_of
from insitu.deploy import deploy, limits_of
from insitu.deploy.bundle import board_files, write_board
from insitu.deploy.manifest import read_manifest
from insitu.firmware.build import compile_all, find_tools, folder_sources

from ..firmware.images import conv_graphs

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)

STRICT = ["-std=c99", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
GCC = "arm-none-eabi-gcc"


def absent(tool: str):
    return pytest.mark.skipif(not shutil.which(tool), reason=f"no {tool}")


@pytest.fixture(scope="module")
def deployment():
    return deploy(conv_graphs(), limits_of("nrf52840", 65536, None))


@pytest.fixture(scope="module")
def folder(deployment, tmp_path_factory):
    place = tmp_path_factory.mktemp("board")
    write_board(deployment, place)
    return place


def compile_folder(folder, compiler: list[str], *, firmware: bool) -> None:
    """Every C file, without a warning."""
    files = [str(p.relative_to(folder)) for p in sorted((folder / "src").rglob("*.c"))]
    if firmware:
        files += ["firmware/main.c", *(str(p.relative_to(folder)) for p in (folder / "firmware/boards").glob("*.c"))]
    command = [*compiler, *STRICT, "-Isrc", "-Ifirmware", *files]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr[:2000]


# zig is slow to start: the other cores build the same files in tests/firmware, and these are kept by content
QUICK = ("cortex-m0plus", "cortex-m7", "rv32imc")
ZIG_CORES = [core if core in QUICK else pytest.param(core, marks=pytest.mark.slow) for core in CPUS]


@pytest.mark.parametrize("core", ZIG_CORES)
def test_the_folder_compiles_without_a_warning_with_zig(folder, core):
    cpu = CPUS[core]
    tools = find_tools("zig", cpu)
    assert {"-Wall", "-Wextra", "-Werror"} <= set(tools.flags)
    own = ("model/", "kernels/", "device/") if not cpu.arm else ("",)
    sources = {name: text for name, text in folder_sources(folder, "uart").items() if name.startswith(own)}
    assert len(sources) > 20
    compile_all(sources, tools, (), (folder / "src", folder / "firmware"))


@absent(GCC)
@pytest.mark.parametrize("core", [name for name, cpu in CPUS.items() if cpu.arm])
def test_the_folder_compiles_without_a_warning_with_gcc_for_arm(folder, core):
    compile_folder(folder, [GCC, *CPUS[core].gcc], firmware=True)


@absent("gcc")
def test_the_folder_compiles_without_a_warning_on_a_host(folder):
    compile_folder(folder, ["gcc"], firmware=False)


def expect_example(out: str) -> None:
    lines = dict(line.split(": ") for line in out.splitlines())
    assert set(lines) == {"predict", "train_step", "loaded"}
    assert lines["loaded"] == "0" and float(lines["train_step"]) > 0


@absent("make")
def test_make_builds_the_example_and_it_runs(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "it")
    compiler = "gcc" if shutil.which("gcc") else f"{sys.executable} -m ziglang cc"
    subprocess.run(["make", "-s", f"CC={compiler}"], cwd=tmp_path / "it", check=True, capture_output=True)
    done = subprocess.run(["./example"], cwd=tmp_path / "it", check=True, capture_output=True, text=True)
    expect_example(done.stdout)


@absent("make")
@absent(GCC)
def test_make_builds_the_library_for_the_board(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "it")
    options = ["CROSS=arm-none-eabi-", "CFLAGS=" + " ".join(CPUS["cortex-m4"].gcc), "lib"]
    subprocess.run(["make", "-s", *options], cwd=tmp_path / "it", check=True, capture_output=True)
    listed = subprocess.run([f"{GCC[:-3]}nm", "out/libnet.a"], cwd=tmp_path / "it", capture_output=True, text=True)
    assert " T net_train_step" in listed.stdout and " T device_run" in listed.stdout


@absent("make")
@absent(GCC)
def test_make_builds_the_firmware_for_the_board(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "it")
    subprocess.run(["make", "-s", "firmware", "CROSS=arm-none-eabi-"], cwd=tmp_path / "it", check=True)
    listed = subprocess.run([f"{GCC[:-3]}nm", "out/firmware.elf"], cwd=tmp_path / "it", capture_output=True, text=True)
    assert " reset" in listed.stdout and " port_write" in listed.stdout


@absent("cmake")
@absent("gcc")
def test_cmake_builds_the_example_and_it_runs(folder, tmp_path):
    for command in (["cmake", "-S", str(folder), "-B", "."], ["cmake", "--build", "."]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(["./example"], cwd=tmp_path, check=True, capture_output=True, text=True)
    expect_example(done.stdout)


@absent(GCC)
def test_the_firmware_links_with_the_script_of_the_folder(folder, tmp_path):
    """As README says: src/, firmware/ and the port for a UART."""
    shutil.copytree(folder, tmp_path / "it")
    files = [*(tmp_path / "it/src").rglob("*.c"), *(tmp_path / "it/firmware").glob("*.c")]
    files += [tmp_path / "it/firmware/boards" / name for name in ("startup.c", "port_uart.c")]
    flags = ["-O2", "-ffreestanding", "-ffp-contract=off", "-ffunction-sections", "-fdata-sections", "-nostartfiles"]
    command = [GCC, *CPUS["cortex-m4"].gcc, *flags, "-specs=nosys.specs", "-Wl,--gc-sections", "-Isrc", "-Ifirmware"]
    subprocess.run(
        [*command, *map(str, files), "-Wl,-T,firmware/link.ld", "-o", "it.elf"],
        cwd=tmp_path / "it", check=True, capture_output=True,
    )  # fmt: skip
    assert (tmp_path / "it/it.elf").stat().st_size > 10_000


def test_readme_has_the_figures_of_the_deployment(deployment, folder):
    text, figures = (folder / "README.md").read_text(), deployment.figures()
    for name in ("sram_bytes", "sram_budget_bytes", "arena_bytes", "state_bytes", "stack_bytes", "flash_bytes",
                 "flash_budget_bytes", "const_bytes"):  # fmt: skip
        assert f"{figures[name]:,}" in text, name
    assert figures["const_bytes"] == figures["flash"]["constants"]
    assert figures["arena_lower_bound_bytes"] <= figures["arena_bytes"]
    assert len(text.splitlines()) <= 16


def test_the_folder_has_only_the_kernels_it_needs(deployment, folder):
    found = {p.stem for p in (folder / "src" / "kernels").glob("*/*.c")}
    assert set(deployment.program.kernels) <= found and "softmax_s8" not in found
    assert len(found) <= len(deployment.program.kernels) + 12


def test_the_folder_is_an_arduino_library(folder):
    lines = dict(line.split("=", 1) for line in (folder / "library.properties").read_text().splitlines())
    assert {"name", "version", "author", "maintainer", "sentence", "category", "architectures"} <= set(lines)
    sketch = (folder / "examples/train/train.ino").read_text()
    assert "void setup()" in sketch and "void loop()" in sketch and '#include "net.h"' in sketch


def test_the_same_deployment_gives_the_same_folder(deployment):
    again = deploy(conv_graphs(), deployment.limits)
    assert board_files(deployment) == board_files(again)


def test_the_manifest_describes_the_firmware_without_the_model(deployment, folder):
    found = read_manifest(folder)
    assert found.board == deployment.limits.board and found.figures == deployment.figures()
    assert found.interface.info() == interface_of(deployment.program).info()
    assert found.elf.read_bytes() == deployment.firmware.image.data


def test_a_board_that_is_not_linked_gets_a_folder_with_estimates(tmp_path):
    made = deploy(conv_graphs(), limits_of("esp32c3", None, None))
    write_board(made, tmp_path)
    assert "estimates" in (tmp_path / "README.md").read_text()
    assert not (tmp_path / "firmware.elf").exists() and made.fits
