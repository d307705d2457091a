"""Board profiles: which there are, what a user's own may contain, and what the program listing says about them."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from insitu.boards import boards, find_board
from insitu.boards.cpu import CPUS
from insitu.cli import main
from insitu.cli.boards import to_text
from insitu.errors import BoardError
from insitu.toolchain.zig import zig_command

PAGE = Path(__file__).parent.parent / "docs" / "boards.md"
# from their makers' data sheets
KNOWN = {
    "stm32f746": ("cortex-m7", 320, 1024),
    "stm32h743": ("cortex-m7", 512, 2048),
    "stm32f405": ("cortex-m4", 192, 1024),
    "stm32f205": ("cortex-m3", 128, 1024),
    "stm32f100": ("cortex-m3", 8, 128),
    "lm3s6965": ("cortex-m3", 64, 256),
    "nrf51822": ("cortex-m0", 16, 256),
    "nano33ble": ("cortex-m4", 256, 1024),
    "nrf52840": ("cortex-m4", 256, 1024),
    "stm32l476": ("cortex-m4", 96, 1024),
    "rp2040": ("cortex-m0plus", 264, 2048),
    "pico": ("cortex-m0plus", 264, 2048),
    "nrf5340": ("cortex-m33", 512, 1024),
    "stm32u5": ("cortex-m33", 768, 2048),
    "esp32c3": ("rv32imc", 400, 4096),
    "corstone300": ("cortex-m55", 512, 512),
}
GOOD = {
    "cpu": "cortex-m4", "sram": {"origin": "0x20000000", "bytes": 65536},
    "flash": {"origin": "0x08000000", "bytes": 262144}, "clock_mhz": 64,
}  # fmt: skip
WRONG = {
    "no cpu": ({"cpu": None}, "cpu is None"),
    "an unknown cpu": ({"cpu": "z80"}, "cpu is 'z80'"),
    "no sram": ({"sram": None}, "sram needs origin and bytes"),
    "a size for a memory": ({"flash": 262144}, "flash needs origin and bytes"),
    "a misspelled origin": ({"sram": {"orgin": 0, "bytes": 65536}}, "sram needs origin and bytes"),
    "a word for bytes": ({"sram": {"origin": 0, "bytes": "64K"}}, "sram: invalid literal"),
    "memory past the end": ({"sram": {"origin": "0xffff0000", "bytes": 131072}}, "sram at 0xffff0000"),
    "no memory": ({"flash": {"origin": 0, "bytes": 0}}, "flash at 0x0 cannot have 0 bytes"),
    "negative memory": ({"flash": {"origin": -4096, "bytes": 8192}}, "flash at"),
    "no clock": ({"clock_mhz": None}, "clock_mhz must be a number > 0, not None"),
    "a clock that stands": ({"clock_mhz": 0}, "clock_mhz must be a number > 0, not 0"),
    "a truth for energy": ({"mw_per_mhz": True}, "mw_per_mhz must be a number > 0, not True"),
    "memories that overlap": ({"flash": {"origin": "0x20000000", "bytes": 65536}}, "flash and sram overlap"),
    "a list of cpus": ({"cpu": ["cortex-m4"]}, "cpu is ['cortex-m4']"),
    "half a byte": ({"sram": {"origin": 0, "bytes": 65536.5}}, "sram: 'float' object"),
    "memory without end": ({"sram": {"origin": 0, "bytes": float("inf")}}, "sram: 'float' object"),
    "vectors at an odd place": ({"flash": {"origin": "0x08000004", "bytes": 262144}}, "flash starts at 0x8000004"),
    "a stack at an odd place": ({"sram": {"origin": "0x20000004", "bytes": 65536}}, "sram starts at 0x20000004"),
    "a name that ends a comment": ({"name": "mine */ int x;"}, "name must be one line of text, not 'mine */ int x;'"),
    "a title of two lines": ({"title": "one\ntwo"}, "title must be one line of text, not 'one\\ntwo'"),
    "a port without a chip": ({"port": {"driver": "nrf"}}, "port needs driver and chip"),
    "a port by name": ({"port": "uart"}, "port needs driver and chip"),
    "an unknown driver": ({"port": {"driver": "i2c", "chip": "nrf52840"}}, "port: unknown driver 'i2c'"),
    "an unknown chip": ({"port": {"driver": "nrf", "chip": "../x"}}, "port: unknown chip '../x'"),
    "a list of chips": ({"port": {"driver": "nrf", "chip": ["nrf52840"]}}, "port: unknown chip ['nrf52840']"),
    "a word for a baud rate": ({"port": {"driver": "nrf", "chip": "nrf52840", "baud": "fast"}}, "port: baud must be"),
    "a misspelled field": ({"clock_mzh": 64}, "unknown field clock_mzh"),
}


def test_the_boards_there_are():
    found = {n: (b.cpu, b.sram.bytes // 1024, b.flash.bytes // 1024) for n, b in boards().items()}
    assert set(found) == set(KNOWN)
    assert {n: v[0] for n, v in found.items()} == {n: v[0] for n, v in KNOWN.items()}
    for name, (_, sram, flash) in KNOWN.items():  # never more than the chip has
        assert found[name][1] <= sram and found[name][2] <= flash


def test_what_is_published_of_the_boards_of_the_contract():
    sizes = {n: (b.sram.bytes, b.flash.bytes) for n, b in boards().items()}
    assert sizes["stm32f746"] == (320 << 10, 1 << 20) and sizes["nrf52840"] == (256 << 10, 1 << 20)
    assert sizes["rp2040"][0] == 264 << 10


@pytest.mark.parametrize("name", KNOWN)
def test_a_profile_reads_back_as_it_was_written(name, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(find_board(name).to_json()))
    assert find_board(path) == find_board(name)


def test_a_profile_of_ones_own_needs_few_fields(tmp_path):
    path = tmp_path / "badge.json"
    path.write_text(json.dumps(GOOD))
    board = find_board(path)
    assert (board.name, board.core.title, board.sram.end) == ("badge", "Cortex-M4F", 0x20010000)
    assert board.millijoules(1000) is None and board.milliseconds(64_000) == 1.0


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_in_a_profile_is_named(what, tmp_path):
    change, says = WRONG[what]
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(BoardError, match=re.escape(says)) as e:
        find_board(path)
    assert "wrong.json" in str(e.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        pytest.param("[" * 100_000, "is not JSON", id="deep"),
        ("[]", "must be a JSON object"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_no_profile_is_told_so(text, says, tmp_path):
    if text is not None:
        (tmp_path / "it.json").write_text(text)
    with pytest.raises(BoardError, match=says):
        find_board(tmp_path / "it.json")


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(BoardError, match="there is no board 'arduino'") as e:
        find_board("arduino")
    assert "stm32f746" in e.value.hint


def test_the_listing_says_where_each_firmware_runs(capsys):
    assert main(["boards"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "emulated" in lines["esp32c3"] and "QEMU" in lines["corstone300"]
    assert all("emulated" in lines[n] for n, b in boards().items() if b.core.emulator == "unicorn")


def test_one_board_is_shown_as_a_profile(capsys):
    assert main(["boards", "stm32f746", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sram"] == {"origin": "0x20000000", "bytes": 327680}


def test_the_page_has_the_table_the_command_prints():
    assert to_text(boards().values()) in PAGE.read_text()


def test_every_core_says_how_it_is_compiled_by_both_compilers():
    for cpu in CPUS.values():
        assert any(part.startswith("-mcpu=") for part in cpu.zig) and cpu.gcc[0].startswith("-m")
        assert cpu.fpu == ("-mfloat-abi=hard" in cpu.gcc)


@pytest.mark.parametrize("name", [name for name, cpu in CPUS.items() if cpu.arm])
def test_a_core_has_the_dsp_extension_for_the_compiler_if_and_only_if_it_says_so(name):
    if not zig_command():
        pytest.skip("no zig")
    command = [*zig_command(), "cc", *CPUS[name].zig, "-dM", "-E", "-x", "c", "/dev/null"]
    macros = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert ("__ARM_FEATURE_DSP 1" in macros) == CPUS[name].dsp
