"""Types of command-line arguments for argparse; their errors say what is expected."""

from __future__ import annotations

import csv
import math
import os
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from insitu.errors import DataError, ToolError
from insitu.files import check_target
from insitu.graph.file import check_suffix

Setting = int | float | str | None


def count(text: str) -> int:
    """An integer >= 1."""
    return _whole(text, 1)


def index(text: str) -> int:
    """An integer >= 0."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if not re.fullmatch(r"\d{1,18}", text) or int(text) < least:
        raise ArgumentTypeError(f"must be an integer >= {least}, not {text!r}")
    return int(text)


def classes(text: str) -> int | list[str]:
    """How many classes, or their names; one with a comma in it is quoted."""
    return count(text) if text.isdigit() else [name.strip() for name in next(csv.reader([text], skipinitialspace=True))]


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise ArgumentTypeError(f"must be names such as temperature,humidity, not {text!r}")
    return found


def shape(text: str) -> tuple[int, ...]:
    """The sizes of one sample: 3x224x224."""
    if not re.fullmatch(r"[1-9]\d{0,8}(x[1-9]\d{0,8}){0,4}", text):
        raise ArgumentTypeError(f"must be sizes such as 3x224x224, not {text!r}")
    return tuple(int(size) for size in text.split("x"))


def rate(text: str) -> float:
    """A learning rate."""
    found = _number(text)
    if found is None or found <= 0:
        raise ArgumentTypeError(f"must be a number > 0, not {text!r}")
    return found


def amount(text: str) -> float:
    """A number that may be zero: a norm, a decay, epochs of warm-up."""
    found = _number(text)
    if found is None or found < 0:
        raise ArgumentTypeError(f"must be a number >= 0, not {text!r}")
    return found


def share(text: str) -> float:
    found = _number(text)
    if found is None or not 0 < found < 1:
        raise ArgumentTypeError(f"must be between 0 and 1, not {text!r}")
    return found


def size(text: str) -> int:
    """Bytes: 262144, 256K or 1M, where K is 1,024."""
    m = re.fullmatch(r"(\d+)([KM]?)B?", text.upper())
    if not m or int(m[1]) < 1:
        raise ArgumentTypeError(f"must be a number of bytes such as 256K, not {text!r}")
    return int(m[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20}[m[2]]


def numbers(text: str) -> tuple[float, ...]:
    found = tuple(map(_number, text.split(",")))
    if None in found:
        raise ArgumentTypeError(f"must be one number, or one per channel such as 0.48,0.46,0.41, not {text!r}")
    return found  # type: ignore[return-value]


def height_width(text: str) -> tuple[int, int]:
    m = re.fullmatch(r"([1-9]\d{0,5})(?:x([1-9]\d{0,5}))?", text.lower())
    if not m:
        raise ArgumentTypeError(f"must be a height and a width such as 96x128, not {text!r}")
    return int(m[1]), int(m[2] or m[1])


def audio(text: str) -> dict[str, Setting]:
    """Fields of insitu.Audio: `rate=16000,coefficients=13`."""
    from insitu.preprocess import Audio

    return _settings(text, Audio)


def motion(text: str) -> dict[str, Setting]:
    """Fields of insitu.Motion: `rate=100,highpass=0.3`."""
    from insitu.preprocess import Motion

    return _settings(text, Motion)


def _settings(text: str, kind: type) -> dict[str, Setting]:
    """Fields of a dataclass."""
    known, found = {f.name: type(f.default) for f in fields(kind)}, {}
    for part in filter(None, text.split(",")):
        name, equals, value = (word.strip() for word in part.partition("="))
        number = None if value == "none" else value if known.get(name) is str else _number(value)
        if name not in known or not equals or (number is None and value != "none"):
            raise ArgumentTypeError(f"must be NAME=VALUE of {', '.join(known)}, not {part!r}")
        found[name] = int(number) if known[name] is int and isinstance(number, float) else number
    return found


def pixels(text: str) -> tuple[float, float]:
    low, high = (_number(part) for part in (text.partition(":")[0], text.partition(":")[2]))
    if low is None or high is None or low >= high:
        raise ArgumentTypeError(f"must be a range such as 0:1 or -1:1, not {text!r}")
    return low, high


def saved_file(text: str) -> Path:
    """A file that is replaced in one go, which no device or pipe can be; checked before the work starts."""
    try:
        check_target(text)
    except DataError as e:
        why = e.what.removeprefix("cannot be written: ")
        raise ArgumentTypeError(f"cannot write a file to {text}: {why}" if text else why) from e
    return Path(text)


def outputs_file(text: str) -> Path:
    """A file for arrays by name."""
    path = saved_file(text)
    if path.suffix.lower() != ".npz":
        raise ArgumentTypeError(f"the outputs are written as an .npz such as outputs.npz, not {text!r}")
    return path


def model_file(text: str) -> Path:
    """A file for a model."""
    try:
        check_suffix(text)
    except DataError as e:
        raise ArgumentTypeError(f"{e.what}: {e.hint}") from e
    return saved_file(text)


def export_file(text: str) -> Path:
    """A file for another framework: of a known format, whose package is installed."""
    from insitu.exporters.formats import format_of

    try:
        format_of(Path(text), None).load()
    except (DataError, ToolError) as e:
        raise ArgumentTypeError(f"{e.what}: {e.hint}") from e
    return saved_file(text)


def page_file(text: str) -> Path:
    """A file for an HTML page."""
    if Path(text).suffix.lower() not in (".html", ".htm"):
        raise ArgumentTypeError(f"a report is an HTML page such as report.html, not {text!r}")
    return saved_file(text)


def target_folder(text: str) -> Path:
    """A folder for a program, new or with an older one; checked before the work starts, not at its end."""
    from insitu.deploy.folder import check_folder

    return _folder(text, check_folder)


def search_folder(text: str) -> Path:
    """A folder for what a search finds, new or with what an earlier one found or measured."""
    from insitu.reports.front import check_found

    return _folder(text, check_found)


def _folder(text: str, check: Callable[[Path], Path]) -> Path:
    path = Path(text)
    nearest = next(p for p in (path, *path.absolute().parents) if p.exists())
    if not nearest.is_dir():
        raise ArgumentTypeError(f"cannot write a folder to {path}: {nearest} already exists and is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ArgumentTypeError(f"cannot write a folder to {path}: {nearest} is read-only")
    try:
        return check(path)
    except DataError as e:
        raise ArgumentTypeError(f"{path} {e.what}; try {e.hint}") from e


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
