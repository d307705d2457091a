"""An image is read as pyelftools reads it; one that is damaged is an error of ours, whatever is damaged."""

import io
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from insitu.errors import ToolError
from insitu.firmware.image import parse_image

from .images import CORES, board, firmware

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)


@pytest.mark.parametrize("core", CORES)
def test_sections_symbols_and_segments_are_those_of_pyelftools(core):
    from elftools.elf.elffile import ELFFile

    image = firmware("linear", core).image
    elf = ELFFile(io.BytesIO(image.data))
    sections = [s for s in elf.iter_sections() if s["sh_flags"] & 2 and s["sh_size"]]
    assert [(s.name, s.address, s.bytes) for s in image.sections] == [
        (s.name, s["sh_addr"], s["sh_size"]) for s in sections
    ]
    raw = [s for s in elf.get_section_by_name(".symtab").iter_symbols() if s.name and s["st_shndx"] != "SHN_UNDEF"]
    named = [s for s in raw if not s.name.startswith("$")]
    assert [(s.name, s.bytes, s.code) for s in image.symbols] == [
        (s.name, s["st_size"], s["st_info"]["type"] == "STT_FUNC") for s in named
    ]
    thumb = board(core).core.arm
    assert [s.address | (s.code and thumb) for s in image.symbols] == [s["st_value"] for s in named]
    places = [s["st_shndx"] for s in named]
    assert [s.section for s in image.symbols] == [elf.get_section(i).name if isinstance(i, int) else "" for i in places]
    loaded = [p for p in elf.iter_segments() if p["p_type"] == "PT_LOAD" and p["p_filesz"]]
    assert list(image.segments) == [(p["p_paddr"], p.data()) for p in loaded]
    assert (image.entry, len(image.marks)) == (elf["e_entry"], sum(s.name[:2] in ("$t", "$d") for s in raw))


def test_a_damaged_image_is_an_error_of_ours():
    data, draw = firmware().image.data, Random(0)
    for cut in (0, 3, 20, 51, 52, len(data) // 2, len(data) - 1):
        with pytest.raises(ToolError, match="ELF image"):
            parse_image(data[:cut])
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(3):
            changed[draw.randrange(draw.choice((64, len(data))))] = draw.randrange(256)
        try:
            parse_image(bytes(changed))
        except ToolError as e:
            assert "ELF image" in e.what


def test_lines_are_the_same_in_whatever_order_and_thread_they_are_read():
    data, files = firmware("conv").image.data, ("net_train_step.c", "net_predict.c", "nowhere.c", "net_device.c")
    alone = {file: parse_image(data + bytes(i)).lines(file) for i, file in enumerate(files, 1)}  # none is read before
    shared = parse_image(data + bytes(9))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(shared.lines, files * 8))
    assert found == [alone[file] for file in files * 8] and alone["net_predict.c"] and not alone["nowhere.c"]
