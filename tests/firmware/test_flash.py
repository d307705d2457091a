"""What is written to flash: three formats with the same bytes, and a first block that an RP2040's ROM takes."""

import struct

import pytest

from insitu.boards import find_board
from insitu.firmware import Firmware, build_firmware
from insitu.firmware.flash import ERASED, flashed, images, intel_hex, uf2

from .images import program

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)

FAMILY = 0xE48BFF56


def rom_crc(data: bytes) -> int:
    """As the data sheet of the RP2040 has it: not reflected, begun with ones, nothing done at the end."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
    return crc


@pytest.fixture(scope="module")
def pico() -> Firmware:
    board = find_board("pico")
    assert board.port is not None
    return build_firmware(program("conv"), board, port=board.port)


def test_the_first_block_has_the_checksum_that_the_rom_wants(pico):
    origin, data = flashed(pico.image.data)
    assert origin == 0x10000000 and struct.unpack_from("<I", data, 252)[0] == rom_crc(data[:252])
    top, start = struct.unpack_from("<II", data, 256)
    assert top == pico.image.by_name["stack_top"].address and start == pico.image.by_name["reset"].address | 1


def test_a_uf2_holds_the_same_bytes_in_numbered_blocks(pico):
    made = images(pico.image.data, FAMILY)
    origin, data = flashed(pico.image.data)
    blocks = [made[".uf2"][at : at + 512] for at in range(0, len(made[".uf2"]), 512)]
    content = b""
    for number, block in enumerate(blocks):
        first, second, flags, address, count, at, total, family, page, last = struct.unpack("<8I476sI", block)
        assert (first, second, last) == (0x0A324655, 0x9E5D5157, 0x0AB16F30)
        assert (flags, count, at, total, family) == (0x2000, 256, number, len(blocks), FAMILY)
        assert address == origin + 256 * number
        content += page[:count]
    assert content == data.ljust(len(content), ERASED) and made[".bin"] == data


@pytest.mark.parametrize("origin", (0, 0x0800FFF8, 0x1000FFFF))
@pytest.mark.parametrize("count", (1, 16, 17, 70_000))
def test_hex_lines_never_cross_a_64_kb_border(origin, count):
    data = bytes(i % 251 for i in range(count))
    upper, found = 0, {}
    for line in intel_hex(origin, data).decode().splitlines():
        record = bytes.fromhex(line[1:])
        address, kind, content = int.from_bytes(record[1:3], "big"), record[3], record[4:-1]
        assert sum(record) % 256 == 0 and address + len(content) <= 0x10000
        upper = int.from_bytes(content, "big") << 16 if kind == 4 else upper
        found |= {upper + address + i: byte for i, byte in enumerate(content)} if kind == 0 else {}
    assert bytes(found[origin + i] for i in range(count)) == data and len(found) == count


@pytest.mark.parametrize("data", (b"", b"\x7fELF\x02\x01" + bytes(60), b"text"))
def test_what_is_no_image_is_refused(data):
    with pytest.raises(ValueError, match="is not a 32-bit ELF image"):
        flashed(data)


def test_a_uf2_of_nothing_is_nothing():
    assert uf2(0x10000000, b"", FAMILY) == b""
