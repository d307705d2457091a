"""Registers as chip vendors describe them (SVD), and as our headers say them.

The vendors' files come from $INSITU_SVD, a folder, or from pyOCD and cmsis-svd, which carry some; which function of a
pin is whose comes from modm-devices, made from ST's own tables. These packages are fetched into the cache and read, not
installed. No package carries files for an STM32F7, H7 or U5 (docs/flashing.md).
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from insitu.boards import DRIVERS, Board
from insitu.files import cache_folder

WHEEL, PINS, SOURCE = "pyocd==0.46.0", "modm-devices==0.13.1", "cmsis-svd==0.4"
INSIDE = "pyocd/debug/svd/svd_data.zip"
BESIDE = "cmsis-svd-0.4/cmsis_svd/data/STMicro/"  # its later versions carry no files
DEFINE = re.compile(r"^#define (\w+)(?:\(([\w, ]+)\))? (.+?)(?: /\*.*)?$", re.MULTILINE)
FIELD = re.compile(r"\((?:1u|\(n\)) << (\d+)\)")


@dataclass(frozen=True)
class Register:
    address: int
    fields: dict[str, int]  # name -> its lowest bit


Registers = dict[str, Register]  # PERIPHERAL_REGISTER, in upper case


@cache
def vendors(name: str) -> tuple[dict[str, int], Registers]:
    """Bases of the peripherals and all registers of a chip; skips where its file is not at hand."""
    return parse(_described(name))


def interrupts(name: str) -> dict[str, int]:
    """The number of each interrupt of a chip."""
    return {_text(i, "name").upper(): _number(i, "value") for i in _described(name).iter("interrupt")}


@cache
def _described(name: str) -> ElementTree.Element:
    text = _own(name) or _carried(name) or _collected(name)
    if text is None:
        pytest.skip(f"no {name}: set INSITU_SVD to a folder that has it")
    return ElementTree.fromstring(text)


def _own(name: str) -> bytes | None:
    folder = os.environ.get("INSITU_SVD")
    path = Path(folder or ".") / name
    return path.read_bytes() if folder and path.exists() else None


def _carried(name: str) -> bytes | None:
    with zipfile.ZipFile(_wheel()) as wheel, zipfile.ZipFile(io.BytesIO(wheel.read(INSIDE))) as files:
        return files.read(name) if name in files.namelist() else None


@cache
def _collected(name: str) -> bytes | None:
    with tarfile.open(_fetched(SOURCE, "cmsis-svd-0.4.tar.gz", "--no-build-isolation")) as files:
        found = files.extractfile(BESIDE + name) if BESIDE + name in files.getnames() else None
        return found and found.read()


def _wheel(package: str = WHEEL) -> Path:
    return _fetched(package, package.replace("==", "-").replace("-devices", "_devices") + "-*.whl")


@cache
def _fetched(package: str, pattern: str, *options: str) -> Path:
    """A package's file in the cache, fetched if it is not there."""
    folder = cache_folder() / "svd"
    if not list(folder.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *options, package, "-d", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not list(folder.glob(pattern)):
            pytest.skip(f"{package} cannot be fetched: {done.stderr.strip()[-200:]}")
    return next(folder.glob(pattern))


def pins(family: str) -> dict[tuple[str, int], dict[str, int]]:
    """Port and pin -> signal of a USART -> the number of its alternate function, as in the vendor's tables."""
    return {(pin.get("port", ""), int(pin.get("pin", ""))): _signals(pin) for pin in _family(family).iter("gpio")}


def vectors(family: str) -> dict[str, int]:
    """The number of each interrupt, as in the vendor's tables."""
    return {v.get("name", ""): int(v.get("position", "")) for v in _family(family).iter("vector")}


@cache
def _family(name: str) -> ElementTree.Element:
    with zipfile.ZipFile(_wheel(PINS)) as wheel:
        return ElementTree.fromstring(wheel.read(f"modm_devices/resources/devices/stm32/{name}.xml"))


def _signals(pin) -> dict[str, int]:
    named = [s for s in pin.iter("signal") if s.get("driver") == "usart" and s.get("af")]
    return {f"USART{s.get('instance')}_{s.get('name')}": int(s.get("af")) for s in named}


# a vendor's file --------------------------------------------------------------------------------


def parse(device: ElementTree.Element) -> tuple[dict[str, int], Registers]:
    bases, registers = {}, {}
    known = {_text(p, "name"): p for p in device.iter("peripheral")}
    for name, peripheral in known.items():
        bases[name.upper()] = base = _number(peripheral, "baseAddress")
        described = known.get(peripheral.get("derivedFrom", ""), peripheral)
        if peripheral.find("registers") is not None:
            described = peripheral
        for register, offset, fields in _registers(described.find("registers")):
            registers[f"{name}_{register}".upper()] = Register(base + offset, fields)
    return bases, registers


def _registers(parent, prefix: str = "", offset: int = 0):
    for item in parent if parent is not None else ():
        name = prefix + _text(item, "name").replace("[%s]", "").replace("%s", "")
        at = offset + (_number(item, "addressOffset") if item.tag in ("register", "cluster") else 0)
        if item.tag == "cluster":
            yield from _registers(item, name, at)
        elif item.tag == "register":
            yield name, at, {_text(f, "name").upper(): _bit(f) for f in item.iter("field")}


def _bit(field) -> int:
    for tag in ("bitOffset", "lsb"):
        if field.find(tag) is not None:
            return _number(field, tag)
    return int(_text(field, "bitRange").strip("[]").split(":")[1])


def _text(item, tag: str) -> str:
    return (item.findtext(tag) or "").strip()


def _number(item, tag: str) -> int:
    return int(_text(item, tag) or "0", 0)


# our headers ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """What a driver and its chip's header say."""

    bases: dict[str, int]
    addresses: dict[str, int]
    fields: dict[str, int]


def said(board: Board) -> Said:
    assert board.port is not None
    text = (DRIVERS.parent / board.port.source).read_text() + expanded(board.port.chip)
    found = {name: (arguments, body) for name, arguments, body in DEFINE.findall(text)}
    bases = {n: int(body[:-1], 16) for n, (_, body) in found.items() if re.fullmatch(r"0x[0-9a-f]+u", body)}
    uart = found["UART"][1] if "UART" in found else ""
    names = {**bases, **({"UART": bases[uart]} if uart else {}), "pin": 0}
    names["port"] = next((b for n, b in bases.items() if n.startswith("GPIO")), 0)
    addresses = {
        name.replace("USART_", f"{uart}_", 1) if name.startswith("USART_") else name: _value(body, names)
        for name, (_, body) in found.items()
        if body.startswith("REG(") and name != "REG"
    }
    fields = {
        name.replace("USART_", f"{uart}_", 1) if name.startswith("USART_") else name: int(match[1])
        for name, (_, body) in found.items()
        if (match := FIELD.fullmatch(body))
    }
    return Said(bases, addresses, fields)


def expanded(chip: str) -> str:
    """The text of a chip's header and of those beside it that it includes."""
    text = (DRIVERS / "chips" / f"{chip}.h").read_text()
    return text + "".join(expanded(name) for name in re.findall(r'#include "boards/chips/(\w+)\.h"', text))


def _value(body: str, names: dict[str, int]) -> int:
    inner = re.sub(r"\b(0x[0-9a-f]+|\d+)u\b", r"\1", body[len("REG") :])
    return eval(inner, {"__builtins__": {}}, names)
