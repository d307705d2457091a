"""Every byte of an image belongs to one class, and anything that does not belong in memory is named."""

import io
import shutil
from dataclasses import replace
from itertools import pairwise

import pytest

from insitu.codegen.device import device_arena_bytes
from insitu.errors import BudgetError
from insitu.firmware import account, build, build_firmware
from insitu.firmware.account import constants_by_layer

from .images import CORES, KINDS, board, changed, firmware, program

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)

GCC = "arm-none-eabi-gcc"
COMPILERS = ("zig", pytest.param(GCC, marks=pytest.mark.skipif(not shutil.which(GCC), reason=f"no {GCC}")))


def allocated(data: bytes) -> list[tuple[int, int]]:
    """Where the allocated sections lie, according to pyelftools: first byte, and one past the last."""
    from elftools.elf.elffile import ELFFile

    found = [s for s in ELFFile(io.BytesIO(data)).iter_sections() if s["sh_flags"] & 2 and s["sh_size"]]
    return sorted((s["sh_addr"], s["sh_addr"] + s["sh_size"]) for s in found)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("core", CORES)
def test_the_classes_add_up_to_the_elf(core, compiler):
    if compiler != "zig" and not board(core).core.arm:
        pytest.skip("gcc here is for Arm")
    made = firmware("linear", core, compiler)
    for memory, counted in ((made.board.sram, made.account.sram), (made.board.flash, made.account.flash)):
        places = [(a, b) for a, b in allocated(made.image.data) if memory.origin <= a < memory.end]
        assert all(a[1] <= b[0] for a, b in pairwise(places))
        assert sum(counted.values()) == places[-1][1] - places[0][0]
        assert places[0][0] == memory.origin
        assert counted["alignment"] < 32 * len(places)
    assert len(allocated(made.image.data)) == len(made.image.sections)


@pytest.mark.parametrize("kind", KINDS)
def test_arena_state_and_stack_are_what_the_plan_says(kind):
    made, wanted = firmware(kind), program(kind)
    assert made.account.sram["arena"] == device_arena_bytes(wanted)
    assert made.account.sram["state"] == wanted.state_bytes
    assert made.account.sram["stack reserve"] == made.stack.bytes
    assert made.account.flash["constants"] >= wanted.const_bytes


def test_the_protocol_takes_no_more_than_two_kilobytes_of_sram():
    assert 512 <= firmware().account.sram["protocol"] <= 2048


def test_constants_are_told_by_layer():
    found = constants_by_layer(firmware().account, {"l0_weight": "0", "l0_bias": "0"})
    assert sum(found.values()) == firmware().account.flash["constants"]


STRAYS = {
    "static int32_t stray_word;": ".bss",
    "static int32_t stray_word = 7;": ".data",
    "int32_t stray_word[100];": ".bss",
}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("stray", STRAYS)
def test_a_stray_variable_of_the_model_is_named(stray, compiler):
    files = changed("(*(volatile int32_t *)&stray_word)++;", stray)
    with pytest.raises(BudgetError, match=rf"{STRAYS[stray]} are in no class: stray_word"):
        build_firmware(program(), board("M7"), extra=files, compiler=compiler)


def test_a_stray_variable_of_a_kernel_is_named(monkeypatch):
    real = build.firmware_sources

    def with_stray(*arguments):
        sources = real(*arguments)
        text, headers = sources["kernels/crc32_bytes.o"]
        body = text.index("{\n", text.index("crc32_bytes("))
        stray = "static volatile uint32_t calls_of_crc32;\n"
        start = text.rindex("\n\n", 0, body)
        text = text[:start] + "\n" + stray + text[start : body + 2] + "    calls_of_crc32++;\n" + text[body + 2 :]
        return {**sources, "kernels/crc32_bytes.o": (text, headers)}

    monkeypatch.setattr(build, "firmware_sources", with_stray)
    with pytest.raises(BudgetError, match="in no class: .*calls_of_crc32"):
        build_firmware(program(), board("M7"))


def test_bytes_of_sram_that_no_symbol_covers_are_an_error():
    image = firmware().image
    nameless = replace(image, symbols=tuple(s for s in image.symbols if s.section != ".protocol_ram"))
    with pytest.raises(BudgetError, match="belong to no symbol"):
        account(nameless)


def test_a_hole_between_sections_cannot_pass_for_alignment():
    image = firmware().image
    moved = [replace(s, address=s.address + 4096) if s.name == ".protocol_ram" else s for s in image.sections]
    symbols = [replace(s, address=s.address + 4096) if s.section == ".protocol_ram" else s for s in image.symbols]
    with pytest.raises(BudgetError, match="between"):
        account(replace(image, sections=tuple(moved), symbols=tuple(symbols)))
