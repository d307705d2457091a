"""Numbers a user gives: one of the wrong kind or range is a DataError that names it, before anything is done."""

from __future__ import annotations

import re
from numbers import Integral, Real

import numpy as np

from insitu.errors import DataError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


def whole(value, name: str, least: int = 0) -> int:
    """A whole number; 2.0 and True are none."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise DataError(f"{name} is {value!r}, a whole number from {least} on is wanted")
    return int(value)


def optional(value, name: str, least: int = 0) -> int | None:
    return None if value is None else whole(value, name, least)


def number(value, name: str, most: float = np.inf) -> float:
    """A number from zero on that single precision can hold."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= most:
        limit = "" if np.isinf(most) else f" to {most:g}"
        raise DataError(f"{name} is {value!r}, a number from 0 on{limit} is wanted")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float32(value)):
            raise DataError(f"{name} is {value!r}: single precision cannot hold that", hint="up to 3e38")
    return float(value)


def byte_count(value, name: str) -> int | None:
    """Bytes: 262144, or "256K", where K is 1,024."""
    if value is None or not isinstance(value, str):
        return optional(value, name, 1)
    m = re.fullmatch(r"([0-9]+)([KM]?)B?", value.strip().upper())
    if not m or int(m[1]) < 1:
        raise DataError(f"{name} is {value!r}, a number of bytes is wanted", hint='262144 or "256K"')
    return int(m[1]) * UNITS[m[2]]
