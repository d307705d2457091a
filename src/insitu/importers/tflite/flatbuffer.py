"""Read the tables of a flatbuffer from untrusted bytes.

Every offset, vtable, length and string is checked against the buffer before it is used. References in a flatbuffer
point forwards, so a cycle is impossible. But many references may point at the same table, so that a small file
describes a huge one: the reader counts what it hands out, and stops when that is out of proportion to the file.
Nothing here knows any schema.
"""

from __future__ import annotations

import struct

import numpy as np

from insitu.errors import ModelError

# kinds of fields: struct format, bytes
KINDS = {
    "bool": ("<?", 1),
    "s8": ("<b", 1),
    "u8": ("<B", 1),
    "s32": ("<i", 4),
    "u32": ("<I", 4),
    "u64": ("<Q", 8),
    "f32": ("<f", 4),
}
VECTORS = {"s32": np.dtype("<i4"), "s64": np.dtype("<i8"), "f32": np.dtype("<f4"), "u8": np.dtype("u1")}
MAX_NAME = 1 << 12  # bytes of one string; layer names are shorter, and longer strings are cut
ROOM = 1 << 20  # items that may be read from a file of any size


class Buffer:
    """The bytes, and how much may still be read from them."""

    def __init__(self, data: bytes):
        self.data = data
        self._left = ROOM + 8 * len(data)

    def take(self, position: int, count: int, where: str) -> int:
        """Check that these bytes exist, and return the position."""
        if position < 0 or count < 0 or position + count > len(self.data):
            raise ModelError(f"points outside the file ({len(self.data):,} bytes)", where=where)
        return position

    def spend(self, count: int, where: str) -> None:
        """Count the bytes handed out: sharing must not make a small file describe a huge one."""
        self._left -= count
        if self._left < 0:
            raise ModelError("refers to the same bytes over and over", where=where)

    def unpack(self, kind: str, position: int, where: str):
        form, size = KINDS[kind]
        return struct.unpack_from(form, self.data, self.take(position, size, where))[0]

    def follow(self, position: int, where: str) -> int:
        """The target of the reference at this position: always forwards, never itself."""
        step = self.unpack("u32", position, where)
        if step < 4:
            raise ModelError("a reference points at itself", where=where)
        return self.take(position + step, 4, where)


class Table:
    """One table of the buffer. Fields are looked up by their slot in the schema."""

    def __init__(self, buffer: Buffer, position: int, where: str):
        self.buffer, self.position, self.where = buffer, position, where
        buffer.spend(16, where)
        vtable = position - buffer.unpack("s32", position, where)
        buffer.take(vtable, 4, where)
        self._slots, self._size = struct.unpack_from("<HH", buffer.data, vtable)
        if self._slots < 4 or self._slots % 2 or self._size < 4:
            raise ModelError("has a malformed field table", where=where)
        buffer.take(vtable, self._slots, where)
        buffer.take(position, self._size, where)
        self._vtable = vtable

    def scalar(self, slot: int, kind: str, default=0):
        """A number, or its default if the file omits it."""
        at = self._field(slot, KINDS[kind][1])
        return default if at is None else self.buffer.unpack(kind, at, self.where)

    def table(self, slot: int, name: str) -> Table | None:
        at = self._field(slot, 4)
        if at is None:
            return None
        where = self._inside(name)
        return Table(self.buffer, self.buffer.follow(at, where), where)

    def tables(self, slot: int, name: str, limit: int) -> list[Table]:
        """A vector of tables; empty if missing."""
        found = self._vector(slot, 4, name)
        if found is None:
            return []
        start, count = found
        where = self._inside(name)
        if count > limit:
            raise ModelError(f"has {count:,} entries, more than the limit of {limit:,}", where=where)
        self.buffer.spend(count, where)
        positions = (start + 4 * i for i in range(count))
        names = (f"{where}[{i}]" for i in range(count))
        return [Table(self.buffer, self.buffer.follow(p, n), n) for p, n in zip(positions, names)]

    def numbers(self, slot: int, kind: str, name: str) -> tuple | None:
        """A vector of numbers as a tuple of Python numbers; None if the file omits it."""
        array = self.array(slot, kind, name)
        if array is None:
            return None
        self.buffer.spend(array.size, self._inside(name))
        return tuple(array.tolist())

    def array(self, slot: int, kind: str, name: str) -> np.ndarray | None:
        """A vector of numbers as a view of the file: this costs nothing, however long it is."""
        dtype = VECTORS[kind]
        found = self._vector(slot, dtype.itemsize, name)
        return None if found is None else np.frombuffer(self.buffer.data, dtype, found[1], found[0])

    def string(self, slot: int, name: str) -> str:
        """A string, cut if it is longer than any name; bytes that are not text are replaced."""
        found = self._vector(slot, 1, name)
        if found is None:
            return ""
        start, count = found[0], min(found[1], MAX_NAME)
        self.buffer.spend(count, self._inside(name))
        return bytes(self.buffer.data[start : start + count]).decode("utf-8", "replace")

    def _inside(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name

    def _field(self, slot: int, size: int) -> int | None:
        """The position of a field of `size` bytes, None if the table does not have it."""
        entry = 4 + 2 * slot
        if entry + 2 > self._slots:
            return None
        offset = struct.unpack_from("<H", self.buffer.data, self._vtable + entry)[0]
        if offset == 0:
            return None
        if offset < 4 or offset + size > self._size:
            raise ModelError(f"field {slot} lies outside its table", where=self.where)
        return self.position + offset

    def _vector(self, slot: int, width: int, name: str) -> tuple[int, int] | None:
        """First element and number of elements of a vector."""
        at = self._field(slot, 4)
        if at is None:
            return None
        where = self._inside(name)
        head = self.buffer.follow(at, where)
        count = self.buffer.unpack("u32", head, where)
        return self.buffer.take(head + 4, count * width, where), count


def root(data: bytes, identifier: bytes) -> Table:
    """The root table of a file that carries this identifier."""
    if len(data) < 8 or bytes(data[4:8]) != identifier:
        raise ModelError(f"does not carry the identifier {identifier.decode()}: another kind of file, or a damaged one")
    buffer = Buffer(data)
    return Table(buffer, buffer.follow(0, "root"), "")
