"""CAST and GATHER: how bytes become real numbers or positions in a table. Other uses of them are refused.

    CAST u8 -> f32, SUB mean, DIV std           pixels that a float network normalises: `normalize`
    CAST -> s32, ADD offset, GATHER table       a function of one int8 value: `lut_s8`
    the same with a table per channel           `normalize` to int8, in files that insitu wrote

A CAST makes no node by itself. What it stands for waits in `Pending` until the operators behind it are known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from insitu.errors import Error, Unsupported
from insitu.graph import Value
from insitu.importers.tflite.read import Step
from insitu.ops._rules import ROUNDINGS
from insitu.ops.activation import lut_s8
from insitu.ops.normalize import normalize, table

INTEGERS = ("INT32", "INT64")


@dataclass(frozen=True, eq=False)
class Pending:
    """A cast byte: a real number (x - mean) / std, or the position x + offset."""

    x: Value
    name: str
    real: bool
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    offset: np.ndarray | None = None

    def made(self) -> Value:
        """The real number as a value."""
        if not self.real:
            raise Unsupported("integers that are computed from bytes are only supported as positions in a table")
        return normalize(self.x, mean=self.mean, std=self.std, name=self.name)


def cast(s: Step) -> Pending:
    x, kind = s.x(0), s.output.type
    if x.dtype == "u8" and kind == "FLOAT32":
        return Pending(x, s.name, real=True)
    if x.dtype in ("u8", "s8") and kind in INTEGERS:
        return Pending(x, s.name, real=False)
    raise Unsupported(f"a CAST from {x.type} to {kind} is not supported")


def continued(s: Step) -> Pending | None:
    """SUB and DIV of pixels, ADD to a position; None for any other operator."""
    first = s.operator.inputs[0] if s.operator.name in ("ADD", "SUB", "DIV") and s.operator.inputs else -1
    found = s.importer.pending.get(first)
    constant = s.known(1) if found else None
    if found is None or constant is None or s["activation"] != "NONE":
        return None
    if not found.real:
        return replace(found, offset=constant, name=s.name) if s.operator.name == "ADD" else None
    many = tuple(map(float, constant.reshape(-1)))
    last = constant.size == 1 or constant.shape[-1:] == (constant.size,) == found.x.shape[-1:]
    if not last or found.std != (1.0,):
        return None
    if s.operator.name == "SUB" and found.mean == (0.0,):
        return replace(found, mean=many, name=s.name)
    if s.operator.name == "DIV" and min(many) > 0 and len(found.mean) in (1, len(many)):
        return replace(found, mean=found.mean * (len(many) // len(found.mean)), std=many, name=s.name)
    return None


def gather(s: Step) -> Value:
    """entries[x + offset]"""
    found, entries = s.importer.pending.get(s.tensor(1).index), s.known(0)
    if found is None or found.real or entries is None or entries.ndim != 1 or s["axis"] or s["batch_dims"]:
        raise Unsupported("GATHER is only supported as the lookup of one byte in a constant table")
    offset = np.zeros(1, np.int32) if found.offset is None else found.offset
    if entries.dtype != np.int8 or s.out.dtype != "s8":
        raise Unsupported(f"a lookup in a table of {entries.dtype} is not supported")
    if found.x.dtype == "u8":
        return _pixels(s, found.x, entries)
    if offset.size != 1 or int(offset.reshape(())) != 128 or entries.size != 256:
        raise Unsupported(f"a lookup in {entries.size} entries from {offset.reshape(-1)[0]} is not supported")
    return lut_s8(found.x, s.builder.constant(f"{s.name}.table", entries), name=s.name, out=s.out)


def _pixels(s: Step, x: Value, entries: np.ndarray) -> Value:
    """The normalisation whose table this is, as the file says; without a word of it, it is not known."""
    try:
        mean, std, axis = s.importer.origin.pixels[s.output.name]
        for rounding in ROUNDINGS:
            if np.array_equal(table(mean, std, s.out, rounding).reshape(-1), entries):
                how = {"mean": tuple(mean), "std": tuple(std), "axis": axis, "rounding": rounding}
                return normalize(x, **how, name=s.name, out=s.out)
    except (KeyError, ValueError, ZeroDivisionError, Error):
        pass
    raise Unsupported("a lookup of bytes in a table is only supported in files that insitu wrote")
