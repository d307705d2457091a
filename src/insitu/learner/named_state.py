"""A state in a file: the bytes that a board loads and, after them, the names of its classes.

A board knows no files: it gets the bytes only, as many as their header says (codegen/state.py). Without names, a file
is these bytes alone. With them, a state is never loaded into a learner whose classes are others, or in another order.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

import numpy as np

from insitu.codegen.state import COMPLAINTS, DAMAGED, HEADER_BYTES, MAGIC
from insitu.errors import DataError
from insitu.graph.classes import checked, listed
from insitu.terminal.wording import either

NAMED = b"INSN"  # before the CRC-32 and the text of the names
SHOWN = 8  # names in an error


def with_names(state: bytes, names: Sequence[str]) -> bytes:
    """The content of a state's file."""
    if not any(names):
        return state
    text = json.dumps(list(names), ensure_ascii=False).encode()
    return state + NAMED + zlib.crc32(text).to_bytes(4, "little") + text


def split(content: bytes, where: str) -> tuple[bytes, tuple[str, ...]]:
    """The state in a file, and the names of its classes; other bytes stay as they are, for `load` to refuse."""
    end = _end(content)
    if content[end : end + len(NAMED)] != NAMED:
        return content, ()
    crc, text = content[end + 4 : end + 8], content[end + 8 :]
    if int.from_bytes(crc, "little") != zlib.crc32(text):
        raise DataError(COMPLAINTS[DAMAGED], where=where)
    return content[:end], _names(text, where)


def _end(content: bytes) -> int:
    """Where the state ends that these bytes begin with; behind them if they are none."""
    if len(content) < HEADER_BYTES:
        return len(content)
    magic, _, size, _ = (int(n) for n in np.frombuffer(content[:HEADER_BYTES], "<u4"))
    return HEADER_BYTES + size if magic == MAGIC else len(content)


def _names(text: bytes, where: str) -> tuple[str, ...]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise DataError(COMPLAINTS[DAMAGED], where=where)
    return checked(found)


def agreed(own: Sequence[str], saved: Sequence[str], count: int, where: str) -> tuple[str, ...]:
    """The names of a learner's `count` classes once it has loaded a state of these; a DataError if they are others."""
    if not any(saved):
        return tuple(own)
    mine = tuple(own) or ("",) * count
    if len(mine) != len(saved) or any(a and b and a != b for a, b in zip(mine, saved)):
        known = listed(mine, SHOWN) if any(mine) else f"{count} without names"
        raise DataError(f"was saved with the classes {listed(saved, SHOWN)}; those of this learner: {known}",
                        where=where, hint=_same(saved))  # fmt: skip
    return tuple(a or b for a, b in zip(mine, saved))


def _same(names: Sequence[str]) -> str:
    if len(names) > SHOWN or not all(names) or any("," in name for name in names):
        return "compile it with the same classes, in the same order"
    return either(shell=f"--classes {','.join(names)}", python=f"insitu.compile(..., classes={list(names)})")
