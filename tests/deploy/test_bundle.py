"""A board's folder: builds anywhere without a warning, runs its example, and says what it needs."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest

from insitu.boards import find_board
from insitu.boards.cpu import CPUS
from insitu.codegen.device import interface_of
from insitu.deploy import deploy, limits_of
from insitu.deploy.bundle import board_files, write_board
from insitu.deploy.folder import write_files
from insitu.deploy.manifest import read_manifest
from insitu.errors import BudgetError
from insitu.firmware import read_image
from insitu.firmware.build import compile_all, find_tools, folder_sources
from insitu.firmware.flash import flashed

from ..devices.living import deployed
from ..firmware.images import conv_graphs

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)

STRICT = ["-std=c99", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
GCC = "arm-none-eabi-gcc"
ZIG = f"{sys.executable} -m ziglang cc"


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


# a board with each core: a folder has the headers of its own core only
BOARDS = {
    "cortex-m0": "nrf51822", "cortex-m0plus": "pico", "cortex-m3": "stm32f205", "cortex-m4": "nrf52840",
    "cortex-m7": "stm32f746", "cortex-m33": "stm32u5", "cortex-m55": "corstone300", "rv32imc": "esp32c3",
}  # fmt: skip


@cache
def files_for(core: str) -> dict[str, str | bytes]:
    return board_files(deploy(conv_graphs(), limits_of(BOARDS[core], None, None)))


@pytest.fixture
def cores_folder(core, tmp_path):
    write_files(files_for(core), tmp_path)
    return tmp_path


def compile_folder(folder, compiler: list[str], *, firmware: bool) -> None:
    """Every C file, without a warning."""
    files = [str(p.relative_to(folder)) for p in sorted((folder / "src").rglob("*.c"))]
    if firmware:
        boards = [p for p in (folder / "firmware/boards").glob("*.c") if p.name != "port_own.c"]
        files += ["firmware/main.c", *(str(p.relative_to(folder)) for p in boards)]
    command = [*compiler, *STRICT, "-Isrc", "-Ifirmware", *files]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr[:2000]


# tests/firmware builds the same files for the other cores
QUICK = ("cortex-m0plus", "cortex-m7", "rv32imc")  # with zig
QUICK_GCC = ("cortex-m0", "cortex-m4", "cortex-m55")


def cores(names, quick) -> list:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("core", cores(CPUS, QUICK))
def test_the_folder_compiles_without_a_warning_with_zig(cores_folder, core):
    cpu, folder = CPUS[core], cores_folder
    tools = find_tools("zig", cpu)
    assert {"-Wall", "-Wextra", "-Werror"} <= set(tools.flags)
    own = ("model/", "kernels/", "device/") if not cpu.arm else ("",)
    sources = {name: text for name, text in folder_sources(folder, "emulator").items() if name.startswith(own)}
    assert len(sources) > 20
    compile_all(sources, tools, (), (folder / "src", folder / "firmware"))


@absent(GCC)
@pytest.mark.parametrize("core", cores([name for name, cpu in CPUS.items() if cpu.arm], QUICK_GCC))
def test_the_folder_compiles_without_a_warning_with_gcc_for_arm(cores_folder, core):
    compile_folder(cores_folder, [GCC, *CPUS[core].gcc], firmware=True)


@absent("gcc")
def test_the_folder_compiles_without_a_warning_on_a_host(folder):
    compile_folder(folder, ["gcc", "-DINSITU_SCALAR"], firmware=False)


@absent("gcc")
@pytest.mark.parametrize("board", ("nrf51822", "stm32l476"))  # samples in flash, and in SRAM
def test_each_file_of_a_life_compiles_alone_without_a_warning(board, tmp_path):
    """Not so with zig: there, files are compiled together, and one finds the headers that another includes."""
    write_board(deployed(board), tmp_path)
    assert (tmp_path / "src/device/follow.c").is_file()
    compile_folder(tmp_path, ["gcc", "-DINSITU_SCALAR"], firmware=False)


@absent("gcc")
def test_what_the_readme_says_to_compile_links_with_a_program_that_lives(tmp_path):
    write_board(deployed("stm32l476"), tmp_path)
    told = next(line for line in (tmp_path / "README.md").read_text().splitlines() if "In your own program" in line)
    patterns = re.search(r"compile `([^`]*)`", told)[1].split()  # type: ignore[index]
    options = re.findall(r"`(-[fW][^`]*sections)`", told)
    own = '#include "net_life.h"\nint main(void) { net_life_begin(); return net_rehearse(); }\n'
    (tmp_path / "own.c").write_text(own)
    files = [str(p) for pattern in patterns for p in sorted(tmp_path.glob(pattern))]
    command = ["gcc", "-std=c99", "-DINSITU_SCALAR", *options, "-Isrc", "own.c", *files, "-o", "own"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    assert subprocess.run(["./own"], cwd=tmp_path, check=False).returncode == 0


def expect_example(out: str) -> None:
    lines = dict(line.split(": ") for line in out.splitlines())
    assert set(lines) == {"predict", "train_step", "loaded"}
    assert lines["loaded"] == "0" and float(lines["train_step"]) > 0


@absent("make")
def test_make_gives_each_flag_once(folder):
    said = subprocess.run(["make", "-n"], cwd=folder, check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in said.splitlines() if " -c " in line or "-o example" in line]
    assert len(lines) > 20 and all(line.count("-DINSITU_SCALAR") == 1 for line in lines)
    said = subprocess.run(["make", "-n", "lib", "CROSS=x-"], cwd=folder, check=True, capture_output=True, text=True)
    assert " -c " in said.stdout and "INSITU_SCALAR" not in said.stdout


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
@pytest.mark.parametrize("compiler", (pytest.param("CROSS=arm-none-eabi-", marks=absent(GCC)), f"CC={ZIG}"))
def test_make_builds_what_is_flashed_with_gcc_and_with_zig(folder, compiler, tmp_path):
    shutil.copytree(folder, tmp_path / "it")
    subprocess.run(["make", "-s", "firmware", compiler, f"PYTHON={sys.executable}"], cwd=tmp_path / "it", check=True)
    made = read_image(tmp_path / "it/out/firmware.elf")
    assert {"reset", "port_start", "port_write"} <= set(made.by_name)
    start = find_board("nrf52840").flash.origin
    assert (tmp_path / "it/out/firmware.bin").read_bytes()[:64] == made.read(start, 64)
    assert (tmp_path / "it/out/firmware.hex").read_bytes().startswith(b":02000004")


@absent("cmake")
@absent("gcc")
def test_cmake_builds_the_example_and_it_runs(folder, tmp_path):
    for command in (["cmake", "-S", str(folder), "-B", "."], ["cmake", "--build", "."]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(["./example"], cwd=tmp_path, check=True, capture_output=True, text=True)
    expect_example(done.stdout)


@absent(GCC)
def test_the_firmware_links_with_the_script_of_the_folder(folder, tmp_path):
    """As docs/boards.md says: src/, firmware/ and the driver of the UART."""
    shutil.copytree(folder, tmp_path / "it")
    files = [*(tmp_path / "it/src").rglob("*.c"), *(tmp_path / "it/firmware").glob("*.c")]
    files += [tmp_path / "it/firmware/boards" / name for name in ("startup.c", "uart_nrf.c")]
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


def test_the_folder_has_no_header_of_another_core(folder):
    machines = {p.parent.name for p in (folder / "src" / "isa").rglob("*.h")}
    assert machines == {"isa", "dsp"}


def test_the_same_deployment_gives_the_same_folder(deployment):
    again = deploy(conv_graphs(), deployment.limits)
    assert board_files(deployment) == board_files(again)


def test_the_manifest_describes_the_firmware_without_the_model(deployment, folder):
    found = read_manifest(folder)
    assert found.board == deployment.limits.board and found.figures == deployment.figures()
    assert found.interface.info() == interface_of(deployment.program).info()
    assert found.elf.read_bytes() == deployment.firmware.image.data
    assert (folder / "firmware.elf").read_bytes() == deployment.flashable.image.data


def test_the_images_to_flash_hold_the_same_bytes(deployment, folder):
    origin, data = flashed((folder / "firmware.elf").read_bytes())
    assert origin == find_board("nrf52840").flash.origin and (folder / "firmware.bin").read_bytes() == data
    assert from_hex((folder / "firmware.hex").read_text()) == (origin, data)
    assert "port_start" in deployment.flashable.image.by_name


def from_hex(text: str) -> tuple[int, bytes]:
    """Read back as a programmer does: checksums, upper halves of addresses, an end."""
    upper, found = 0, {}
    for line in text.splitlines():
        record = bytes.fromhex(line.removeprefix(":"))
        assert sum(record) % 256 == 0 and len(record) == record[0] + 5
        address, kind, content = int.from_bytes(record[1:3], "big"), record[3], record[4:-1]
        if kind == 4:
            upper = int.from_bytes(content, "big") << 16
        elif kind == 0:
            found |= {upper + address + i: byte for i, byte in enumerate(content)}
    assert text.endswith(":00000001FF\n")
    return min(found), bytes(found[a] for a in range(min(found), max(found) + 1))


def test_the_folder_has_the_driver_of_its_own_uart_and_no_other(folder):
    found = {p.relative_to(folder / "firmware").as_posix() for p in (folder / "firmware").rglob("*.[ch]")}
    assert found == {
        "main.c", "chip.h", "boards/startup.c", "boards/startup.h", "boards/mmio.h", "boards/sleep.h",
        "boards/uart_nrf.c", "boards/chips/nrf52840.h",
    }  # fmt: skip


def test_an_image_that_fits_only_without_its_driver_is_refused(deployment):
    limits = replace(deployment.limits, flash=deployment.flash_bytes)
    with pytest.raises(BudgetError, match="with the driver of its UART, the firmware needs") as e:
        board_files(replace(deployment, limits=limits))
    assert "flash=" in e.value.hint


def test_a_board_without_a_driver_is_given_the_functions_to_write(tmp_path):
    made = deploy(conv_graphs(), limits_of("corstone300", None, None))
    write_board(made, tmp_path)
    assert made.flashable is None and not (tmp_path / "firmware.elf").exists()
    assert "port_own.c" in (tmp_path / "README.md").read_text()
    assert "#error" in (tmp_path / "firmware/boards/port_own.c").read_text()


@pytest.mark.parametrize("core", ["rv32imc"])
def test_a_chip_that_its_vendors_tools_link_gets_no_startup_and_no_linker_script(cores_folder):
    assert [p.name for p in (cores_folder / "firmware").rglob("*") if p.is_file()] == ["main.c"]
    assert "firmware/main.c" in (cores_folder / "README.md").read_text()
    assert "CROSS=riscv32-esp-elf-" in (cores_folder / "Makefile").read_text()


def test_a_board_that_is_not_linked_gets_a_folder_with_estimates(tmp_path, monkeypatch):
    monkeypatch.setitem(CPUS, "rv32imc", replace(CPUS["rv32imc"], emulator=""))
    made = deploy(conv_graphs(), limits_of("esp32c3", None, None))
    write_board(made, tmp_path)
    assert "estimates" in (tmp_path / "README.md").read_text()
    assert not (tmp_path / "firmware.elf").exists() and made.fits
