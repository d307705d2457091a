"""Every register, field and address in a driver and its chip's header is the one that the chip's vendor describes."""

import re

import pytest

from insitu.boards import DRIVERS, boards, chips, drivers, find_board

from .svd import expanded, interrupts, pins, said, vectors, vendors

# board -> the vendor's file for its chip; three have no file in any package (docs/flashing.md)
FILES = {
    "stm32f405": "STM32F40x.svd", "stm32f205": "STM32F20x.svd", "stm32f100": "STM32F100xx.svd",
    "stm32l476": "STM32L4x6.svd", "stm32f746": "STM32F7x6.svd", "stm32h743": "STM32H743x.svd",
    "stm32u5": "STM32U575.svd", "nrf51822": "nrf51.svd", "nrf52840": "nrf52840.svd", "nano33ble": "nrf52840.svd",
}  # fmt: skip
OTHERS = {"GPIO_": ("GPIO_", "GPIOA_", "GPIOB_", "GPIOD_", "P0_"), "FLASH_": ("FLASH_",)}
FAMILIES = {
    "stm32f405": "stm32f4-05_07_15_17", "stm32f205": "stm32f2-05_07_15_17", "stm32f746": "stm32f7-45_46_50_56",
    "stm32h743": "stm32h7-42_43_50_53", "stm32l476": "stm32l4-76_86", "stm32u575": "stm32u5-75_85",
}  # fmt: skip
CORE = "SCB_"  # Arm's, in no vendor's file


def found(registers: dict, name: str):
    """The vendor's register of this name; a name of ours may stand for one of several ports."""
    for ours, theirs in OTHERS.items():
        if name.startswith(ours):
            return next((registers[t + name[len(ours) :]] for t in theirs if t + name[len(ours) :] in registers), None)
    return registers.get(name)


@pytest.mark.parametrize("name", FILES)
def test_every_register_is_where_the_vendor_says(name):
    bases, registers = vendors(FILES[name])
    ours = said(find_board(name))
    assert len(ours.addresses) > 8
    for peripheral, base in ours.bases.items():
        assert bases[peripheral] == base, peripheral
    for register, address in ours.addresses.items():
        if not register.startswith(CORE):
            theirs = found(registers, register)
            assert theirs is not None, f"{register} is unknown to the vendor"
            assert theirs.address == address, f"{register}: {address:#x}, the vendor has {theirs.address:#x}"


@pytest.mark.parametrize("name", FILES)
def test_every_field_is_at_the_bit_the_vendor_says(name):
    _, registers = vendors(FILES[name])
    ours = said(find_board(name))
    for field, bit in ours.fields.items():
        register = max((r for r in ours.addresses if field.startswith(f"{r}_")), key=len)
        theirs, last = found(registers, register), field[len(register) + 1 :]
        assert theirs is not None, register
        at = theirs.fields.get(last, theirs.fields.get(f"{last}0"))  # some files have every bit by itself
        assert at == bit, f"{field}: bit {bit}, the vendor has {at} of {theirs.fields}"


@pytest.mark.parametrize("name", FILES)
def test_the_interrupt_that_wakes_a_board_is_its_uarts(name):
    port = find_board(name).port
    text = (DRIVERS.parent / port.source).read_text() + expanded(port.chip)
    number = int(re.search(r"#define UART0?_INTERRUPT (\d+)u", text)[1])
    uart = match[1] if (match := re.search(r"#define UART (\w+)", text)) else "UART0"
    assert number in {n for name, n in interrupts(FILES[name]).items() if uart in name.split("_")}


@pytest.mark.parametrize("chip", FAMILIES)
def test_the_interrupt_that_wakes_a_chip_is_its_usarts(chip):
    text = expanded(chip)
    uart, number = (re.search(rf"#define {name} (\w+?)u?$", text, re.M)[1] for name in ("UART", "UART_INTERRUPT"))
    assert vectors(FAMILIES[chip])[uart] == int(number)


@pytest.mark.parametrize("chip", FAMILIES)
def test_the_pins_of_a_chip_are_those_of_its_usart(chip):
    text, known = expanded(chip), pins(FAMILIES[chip])
    uart = re.search(r"#define UART (\w+)", text)[1]
    used = re.findall(r"stm32_pin\(GPIO(\w), (\d+), (\d+)\);", text)
    functions = [known[port.lower(), int(pin)] for port, pin, _ in used]
    assert [f[f"{uart}_{way}"] for f, way in zip(functions, ("tx", "rx"))] == [int(af) for *_, af in used]


def test_a_chip_without_a_model_says_that_it_never_ran():
    for name in chips():
        head = (DRIVERS / "chips" / f"{name}.h").read_text().split("*/")[0]
        assert ("never run" in head) != bool(re.search(r"Runs\s+(\*\s+)?on\s+(\*\s+)?(QEMU|rp2040js)", head)), name


def test_every_driver_and_chip_belongs_to_a_board():
    ports = [b.port for b in boards().values() if b.port]
    assert {p.driver for p in ports} == set(drivers()) and {p.chip for p in ports} == set(chips())
