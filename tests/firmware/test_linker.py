"""The linker script puts everything where a board has memory, and the image is what would be flashed."""

import shutil
import struct
import subprocess

import pytest

from insitu.boards import boards, find_board
from insitu.errors import ToolError
from insitu.firmware import build_firmware
from insitu.firmware.build import find_tools
from insitu.firmware.linker import linker_script

from .images import CORES, board, firmware, program

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)

OBJDUMP = "arm-none-eabi-objdump"
LINKED = [name for name, b in boards().items() if b.core.linked]


@pytest.mark.parametrize("name", LINKED)
def test_every_section_lies_in_the_boards_own_memory(name):
    place = find_board(name)
    made = build_firmware(program("conv"), place)  # fits in 8 KB
    for section in made.image.sections:
        memory = place.flash if section.loaded else place.sram
        assert memory.origin <= section.address and section.address + section.bytes <= memory.end, section


@pytest.mark.parametrize("core", [c for c in CORES if c != "RISC-V"])
def test_the_image_starts_with_a_stack_pointer_and_a_reset_vector(core):
    image, place = firmware("linear", core).image, board(core)
    top, start = struct.unpack("<II", image.read(place.flash.origin, 8))
    assert top == image.by_name["stack_top"].address and top % 8 == 0
    assert start == image.by_name["reset"].address | 1


def test_the_stack_lies_below_everything_else_in_sram():
    image = firmware().image
    bottom = image.by_name["stack_bottom"].address
    assert bottom == board("M7").sram.origin
    assert all(s.loaded or s.name == ".stack" or s.address > bottom for s in image.sections)


def test_a_script_without_limits_of_its_own_has_the_boards():
    text = linker_script(find_board("stm32l476"), 512)
    assert "ORIGIN = 0x20000000, LENGTH = 98304" in text or f"LENGTH = {find_board('stm32l476').sram.bytes}" in text
    assert "LENGTH = 4096" in linker_script(find_board("stm32l476"), 512, sram=4096)


def test_the_same_program_gives_the_same_image():
    assert build_firmware(program(), board("M7")).image.segments == firmware().image.segments


def test_a_risc_v_image_begins_with_its_reset():
    image, place = firmware("conv", "RISC-V").image, board("RISC-V")
    assert image.by_name["reset"].address == place.flash.origin


def test_a_compiler_that_is_not_there_is_named():
    with pytest.raises(ToolError, match="no-such-gcc is not on the PATH"):
        find_tools("no-such-gcc", board("M7").core)


DOUBLES = ("__aeabi_d", "__aeabi_f2d", "__aeabi_i2d", "__aeabi_l2d", "df3", "df2", "f64")


@pytest.mark.parametrize("kind", ("linear", "conv"))
@pytest.mark.parametrize("core", [c for c in CORES if board(c).core.fpu])
def test_a_core_with_floats_has_no_routine_for_doubles(core, kind):
    names = [s.name for s in firmware(kind, core).image.functions]
    assert [n for n in names if any(d in n for d in DOUBLES)] == []


@pytest.mark.skipif(not shutil.which(OBJDUMP), reason=f"no {OBJDUMP}")
@pytest.mark.parametrize("compiler", ("zig", "arm-none-eabi-gcc"))
@pytest.mark.parametrize("core", [c for c in CORES if board(c).core.fpu])
def test_a_core_with_floats_executes_no_instruction_on_doubles(core, compiler, tmp_path):
    """An emulated Cortex-M7 has doubles; the chip of the profile does not, and would trap."""
    (tmp_path / "it.elf").write_bytes(firmware("conv", core, compiler).image.data)
    command = [OBJDUMP, "-d", "--no-show-raw-insn", str(tmp_path / "it.elf")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "vmul.f32" in text
    assert [line for line in text.splitlines() if ".f64" in line] == []
