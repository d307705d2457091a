"""What the words of a command line may be: argparse types whose errors say what is wanted."""

from __future__ import annotations

import math
import os
import re
from argparse import ArgumentTypeError
from pathlib import Path


def count(text: str) -> int:
    """A number of something, at least one."""
    return _whole(text, 1)


def index(text: str) -> int:
    """A whole number, zero or more."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if not re.fullmatch(r"\d{1,18}", text) or int(text) < least:
        raise ArgumentTypeError(f"{text!r} is not a whole number, {least} or more")
    return int(text)


def rate(text: str) -> float:
    """A learning rate."""
    found = _number(text)
    if found is None or found <= 0:
        raise ArgumentTypeError(f"{text!r} is not a number above zero")
    return found


def amount(text: str) -> float:
    """A number that may be zero: a norm, a decay, epochs of warm-up."""
    found = _number(text)
    if found is None or found < 0:
        raise ArgumentTypeError(f"{text!r} is not a number, zero or more")
    return found


def share(text: str) -> float:
    found = _number(text)
    if found is None or not 0 < found < 1:
        raise ArgumentTypeError(f"{text!r} is not between 0 and 1")
    return found


def size(text: str) -> int:
    """Bytes: 262144, 256K or 1M, where K is 1,024."""
    m = re.fullmatch(r"(\d+)([KM]?)B?", text.upper())
    if not m or int(m[1]) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number of bytes, such as 256K")
    return int(m[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20}[m[2]]


def numbers(text: str) -> tuple[float, ...]:
    found = tuple(map(_number, text.split(",")))
    if None in found:
        raise ArgumentTypeError(f"{text!r} is not a number, or one a channel such as 0.48,0.46,0.41")
    return found  # type: ignore[return-value]


def height_width(text: str) -> tuple[int, int]:
    m = re.fullmatch(r"([1-9]\d{0,5})(?:x([1-9]\d{0,5}))?", text.lower())
    if not m:
        raise ArgumentTypeError(f"{text!r} is not a height and a width, such as 96x128")
    return int(m[1]), int(m[2] or m[1])


def pixels(text: str) -> tuple[float, float]:
    low, high = (_number(part) for part in (text.partition(":")[0], text.partition(":")[2]))
    if low is None or high is None or low >= high:
        raise ArgumentTypeError(f"{text!r} is not a range, such as 0:1 or -1:1")
    return low, high


def target_file(text: str) -> Path:
    """A file that can be written, found out before the work and not after it."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise ArgumentTypeError(f"{path} is not a file that can be written")
    return path


def target_folder(text: str) -> Path:
    """A folder that is there or can be made, found out before the work and not after it."""
    path = Path(text)
    nearest = next(p for p in (path, *path.absolute().parents) if p.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ArgumentTypeError(f"{path} is not a folder that can be written: {nearest} is in the way")
    return path


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
