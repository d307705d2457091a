"""docs/flashing.md says of every board with a port where it is and whether it ever ran, as the chip's header does."""

import re
from pathlib import Path

from insitu.boards import DRIVERS, boards

from ..devices.chips import MACHINES

PAGE = Path(__file__).parents[2] / "docs" / "flashing.md"


def rows() -> dict[str, list[str]]:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines()]
    return {name: cells for cells in lines if len(cells) == 5 for name in cells[0].split(", ")}


def test_the_page_has_every_board_with_a_port():
    assert {name for name in rows() if name in boards()} == {b.name for b in boards().values() if b.port}


def test_a_board_without_a_port_says_why_in_its_profile_and_on_the_page():
    said = {b.name for b in boards().values() if "no port: " in b.note}
    assert said == {b.name for b in boards().values() if not b.port}
    assert said == set(re.findall(r"^\* \*\*(\w+)\*\*: .*(?:UART|silicon|ESP-IDF)", PAGE.read_text(), re.M))


def test_the_page_says_with_what_the_registers_of_each_chip_were_compared():
    part = PAGE.read_text().partition("## What the registers were compared with")[2].partition("\n## ")[0]
    named = {
        name for line in part.splitlines() if line.startswith("| ") for name in line[2:].split(" |")[0].split(", ")
    }
    assert {b.name for b in boards().values() if b.port} <= named


def test_what_the_page_says_ran_is_what_the_tests_run():
    for board in boards().values():
        if board.port:
            head = (DRIVERS / "chips" / f"{board.port.chip}.h").read_text().split("*/")[0]
            ran = rows()[board.name][4]
            assert (ran == "never ran") == ("never run" in head), board.name
            assert ran in ("never ran", "rp2040js", f"QEMU's {MACHINES.get(board.name)}"), board.name


def test_the_pins_on_the_page_are_those_in_the_headers():
    for board in boards().values():
        if board.port and board.port.driver.startswith("stm32"):
            text = (DRIVERS / "chips" / f"{board.port.chip}.h").read_text()
            shared = (DRIVERS / "chips" / "stm32_f2f4.h").read_text() if "stm32_f2f4.h" in text else ""
            used = [f"P{port}{pin}" for port, pin in re.findall(r"stm32_pin\(GPIO(\w), (\d+),", text + shared)]
            assert rows()[board.name][2] == ", ".join(used or ["PA9", "PA10"]), board.name
