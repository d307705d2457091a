"""Numeric arguments from the user: a wrong type or range is a DataError that names the argument, before any work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from numbers import Integral, Real

import numpy as np

from insitu.errors import DataError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


def whole(value, name: str, least: int = 0) -> int:
    """The value as an integer >= `least`; 2.0 and True are refused."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise DataError(f"{name} must be an integer >= {least}, not {value!r}")
    return int(value)


def optional(value, name: str, least: int = 0) -> int | None:
    return None if value is None else whole(value, name, least)


def number(value, name: str, most: float = np.inf) -> float:
    """The value as a float >= 0 that fits into single precision."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= most:
        allowed = "a number >= 0" if np.isinf(most) else f"a number from 0 to {most:g}"
        raise DataError(f"{name} must be {allowed}, not {value!r}")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float32(value)):
            raise DataError(f"{name} must fit into single precision, not {value!r}", hint="at most 3e38")
    return float(value)


def flag(value, name: str) -> bool:
    """The value as True or False; also of 0 and 1."""
    if not isinstance(value, Integral | np.bool_) or value not in (0, 1):
        raise DataError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def one_of(value, name: str, known: Sequence[str | None]) -> str | None:
    """The one of these words that the user means, in upper or lower case."""
    found = next((k for k in known if k == (value.lower() if isinstance(value, str) else value)), ...)
    if found is ...:
        words = [str(k) for k in known]
        near = get_close_matches(str(value).lower(), words, 1)
        raise DataError(f"{name} must be one of {', '.join(words)}, not {value!r}", hint=near[0] if near else "")
    return found


def byte_count(value, name: str) -> int | None:
    """Bytes: 262144, or "256K", where K is 1,024."""
    if value is None or not isinstance(value, str):
        return optional(value, name, 1)
    m = re.fullmatch(r"([0-9]+)([KM]?)B?", value.strip().upper())
    if not m or int(m[1]) < 1:
        raise DataError(f"{name} must be a number of bytes, not {value!r}", hint='262144 or "256K"')
    return int(m[1]) * UNITS[m[2]]
