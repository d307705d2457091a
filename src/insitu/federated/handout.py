"""How a model reaches devices: whole at first, then as the coded difference from the model that a device has.

    server: handout.next(arrays)              the model of this round: the last one, moved by a coded difference
            handout.blob_for(node)            whole, or a difference if this node has the last one, or a word: the same
    device: received(blob, held, catalogue)   the whole model again, checked by its hash

What the coding of a difference loses is not lost: the server keeps its own arrays, and the next difference is the one
between those and the model that was handed out. Everybody computes the new model from the same bytes, so its hash says
whether a device has it. A device with another model asks for the whole one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from insitu.errors import DataError
from insitu.federated.catalogue import Catalogue
from insitu.federated.coding import CODINGS, decode, encode
from insitu.federated.delta import HASH_BYTES, base_hash, pack_base, unpack_base
from insitu.federated.units import Arrays

MAGIC, VERSION = b"INSB", 1
HEAD = "<4sBB2x8s8s"  # magic, version, kind, the model it starts from, the model it gives
HEAD_BYTES = struct.calcsize(HEAD)
WHOLE, SAME, STEP = 0, 1, 2  # kinds; a difference in coding k is STEP + k
NOBODY = bytes(HASH_BYTES)


class OtherBase(DataError):
    """A difference from a model that this device does not have."""


@dataclass(frozen=True, eq=False)
class Base:
    """A model as it is handed out: its bytes, their hash, and the arrays they stand for."""

    packed: bytes
    arrays: Arrays

    @property
    def id(self) -> bytes:
        return base_hash(self.packed)


def base_of(arrays: Mapping[str, np.ndarray], catalogue: Catalogue) -> Base:
    packed = pack_base(arrays)
    return Base(packed, unpack_base(packed, catalogue.shapes))


@dataclass
class Handout:
    """The server's side: the model of the round, and which devices have which."""

    catalogue: Catalogue
    coding: str = "int8"
    base: Base | None = None
    step: bytes = b""  # the difference that led to it
    before: bytes = b""  # the model that the difference starts from
    source: Mapping[str, np.ndarray] | None = None  # the server's own arrays at that time
    held: dict[int, bytes] = field(default_factory=dict)  # node -> the model that it has

    def next(self, arrays: Mapping[str, np.ndarray], exact: bool = False) -> Base:
        """The model for these arrays; exact: in 16 bits, not by a coded difference from the last one."""
        if self.base is not None and self.is_for(arrays):
            return self.base
        if self.base is None or exact:
            made, self.before, self.step = base_of(arrays, self.catalogue), b"", b""
        else:
            body = write_step({n: arrays[n] - a for n, a in self.base.arrays.items()}, self.coding)
            made = stepped(self.base, body, self.coding, self.catalogue)
            self.before, self.step = self.base.id, body
        self.base, self.source = made, {n: np.array(a) for n, a in arrays.items()}
        return made

    def is_for(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Was the model of the round made for these arrays?"""
        return self.source is not None and all(np.array_equal(a, self.source[n]) for n, a in arrays.items())

    def ahead(self) -> Arrays:
        """What the server's arrays have and the model that was handed out does not."""
        assert self.base is not None and self.source is not None  # next() was called
        return {n: np.asarray(a - self.base.arrays[n], np.float32) for n, a in self.source.items()}

    def blob_for(self, node: int, whole: bool = False) -> bytes:
        """What this node needs; until it answers (`has`), nobody knows whether it arrived."""
        assert self.base is not None  # next() was called
        had = b"" if whole else self.held.pop(node, b"")
        if had == self.base.id:
            return _head(SAME, had, had)
        if had and had == self.before and len(self.step) < len(self.base.packed):
            return _head(STEP + CODINGS.index(self.coding), had, self.base.id) + self.step
        return whole_blob(self.base.packed)

    def has(self, node: int) -> None:
        """This node answered about the model of the round."""
        assert self.base is not None  # next() was called
        self.held[node] = self.base.id


def _head(kind: int, start: bytes, end: bytes) -> bytes:
    return struct.pack(HEAD, MAGIC, VERSION, kind, start, end)


def whole_blob(packed: bytes) -> bytes:
    return _head(WHOLE, NOBODY, base_hash(packed)) + packed


def write_step(change: Mapping[str, np.ndarray], coding: str) -> bytes:
    return b"".join(encode(change[n], coding) for n in sorted(change))


def stepped(base: Base, body: bytes, coding: str, catalogue: Catalogue) -> Base:
    """The model after a coded difference. Server and devices come to the same bytes: only +, * and rounding."""
    found: Arrays = {}
    at = 0
    for name, shape in sorted(catalogue.shapes.items()):
        change, used = decode(body[at:], shape, coding)
        found[name] = base.arrays[name].astype(np.float64) + change
        at += used
    if at != len(body):
        raise DataError(f"has {len(body)} bytes, not {at}", where="base")
    return base_of(found, catalogue)


def received(data: object, held: bytes, catalogue: Catalogue) -> bytes:
    """The packed model that a device was sent; `held` is the one that it has."""
    if not isinstance(data, bytes) or len(data) < HEAD_BYTES:
        raise DataError("is missing, or too short", where="base")
    magic, version, kind, start, end = struct.unpack_from(HEAD, data)
    if magic != MAGIC or version != VERSION or kind >= STEP + len(CODINGS):
        raise DataError("is not a model that this version knows", where="base", hint="update insitu on both sides")
    packed = _made(kind, start, data[HEAD_BYTES:], held, catalogue)
    if base_hash(packed) != end:
        raise OtherBase("does not give the model that it should", where="base")
    return packed


def _made(kind: int, start: bytes, body: bytes, held: bytes, catalogue: Catalogue) -> bytes:
    if kind == WHOLE:
        return body
    if base_hash(held) != start:
        raise OtherBase("is a difference from a model that this device does not have", where="base")
    if kind == SAME:
        return held
    base = Base(held, unpack_base(held, catalogue.shapes))
    return stepped(base, body, CODINGS[kind - STEP], catalogue).packed
