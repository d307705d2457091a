"""Check a zip file before a framework's loader sees it: `for name, data in parts(path, wanted)`.

Stricter than the format: records tile the file without gaps, overlaps or comments; both records of a member agree;
names are plain relative paths and occur once; sizes are bounded before and while inflating; every checksum is right. So
nearly all damage, and anything that two readers could read differently, ends here as one error that names the byte or
the member. Nothing is written to disk, and at most one small wanted part is in memory.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from insitu.errors import ModelError

MAX_BYTES = 1 << 30  # limit for the file, and for all that it inflates to
MAX_RATIO = 100  # inflated size over stored size of the whole file; weights reach 1.1, deflated zeros 1000
FREE_BYTES = 1 << 20  # a small file may inflate to this size whatever its ratio
MAX_MEMBERS = 20_000
MAX_PART = 8 << 20  # larger parts are checked piece by piece, not handed out
MAX_NAME = 1024
PIECE = 1 << 18

END = struct.Struct("<4s4H2LH")  # disks and counts, bytes and place of the directory, length of a comment
LOCATOR = struct.Struct("<4sLQL")
WIDE_END = struct.Struct("<4sQ2H2L4Q")
ENTRY = struct.Struct("<4s6H3L5H2L")
LOCAL = struct.Struct("<4s5H3L2H")
STORED, DEFLATED = 0, 8
DESCRIBED = 0x0008  # checksum and sizes follow the data
FLAGS = 0x0800 | DESCRIBED | 0x0006  # utf-8 names, and the effort of deflate
LINK, KIND = 0xA000, 0xF000
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]|^.:")  # in a name: control characters, \\, a drive
UNKNOWN = 0xFFFFFFFF  # the number is in the extra field, in 64 bits


@dataclass(frozen=True)
class Member:
    """One file inside, as described by the directory."""

    name: str
    raw: bytes
    version: int  # of zip that is needed to read it
    flags: int
    method: int
    when: tuple[int, int]
    crc: int
    stored: int  # bytes in the zip file
    size: int  # bytes when inflated
    at: int  # of its local record


def parts(path: Path, wanted: Callable[[str], bool] = lambda name: False) -> Iterator[tuple[str, bytes | None]]:
    """The name of each member, with its contents if wanted and small. Raises a ModelError if anything is wrong."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size > MAX_BYTES:
                raise ModelError("is larger than 1 GiB")
            for member, after in _tiles(file, size):
                keep = wanted(member.name) and member.size <= MAX_PART
                yield member.name, _contents(file, member, _data(file, member, after), keep)
    except ModelError as e:
        raise ModelError(e.what, where=": ".join(filter(None, (str(path), e.where))), hint=e.hint) from None
    except OSError as e:
        raise ModelError(f"cannot be read: {e.strerror or e}", where=str(path)) from e


def _tiles(file: BinaryIO, size: int) -> list[tuple[Member, int]]:
    """The members in the order of the file, each with the place where the next one starts."""
    start, length, count = _directory(file, size)
    members = _members(_read(file, start, length, "directory"), count)
    _bound(members, size)
    ordered = sorted(members, key=lambda m: m.at)
    if ordered[0].at != 0:
        raise ModelError(f"{ordered[0].at:,} bytes come before the first member")
    return list(zip(ordered, [*(m.at for m in ordered[1:]), start]))


def _read(file: BinaryIO, at: int, count: int, where: str) -> bytes:
    file.seek(at)
    data = file.read(count)
    if len(data) != count:
        raise ModelError(f"ends at byte {at + len(data):,} of {at + count:,}: truncated", where=where)
    return data


# the directory, at the end of the file


def _directory(file: BinaryIO, size: int) -> tuple[int, int, int]:
    """(place, bytes, members) of the directory, which must reach up to the records that end the file."""
    at = size - END.size
    end = _read(file, at, END.size, "") if at >= 0 else bytes(END.size)
    mark, disk, first, here, count, length, start, comment = END.unpack(end)
    if mark != b"PK\5\6":
        raise ModelError("does not end like a zip file: it is truncated, or another kind of file")
    if disk or first or comment or here != count:
        raise ModelError("is damaged, or belongs to a zip file in several parts", where="its end record")
    wide = _wide_directory(file, at)
    if wide is not None:
        at, found = wide
        if any(a not in (b, top) for a, b, top in zip((count, length, start), found, (0xFFFF, UNKNOWN, UNKNOWN))):
            raise ModelError("its two end records disagree")
        count, length, start = found
    if start + length != at or count > MAX_MEMBERS or length < count * ENTRY.size or not count:
        raise ModelError(
            f"its directory of {count:,} members in {length:,} bytes does not fit", where=f"byte {start:,}"
        )
    return start, length, count


def _wide_directory(file: BinaryIO, at: int) -> tuple[int, tuple[int, int, int]] | None:
    """The 64-bit end record, which torch always writes: its place, and the result of `_directory`."""
    if at < LOCATOR.size + WIDE_END.size:
        return None
    mark, disk, place, disks = LOCATOR.unpack(_read(file, at - LOCATOR.size, LOCATOR.size, ""))
    if mark != b"PK\6\7":
        return None
    if disk or disks != 1 or place != at - LOCATOR.size - WIDE_END.size:
        raise ModelError("its 64-bit end record is not where it says", where=f"byte {at - LOCATOR.size:,}")
    mark, length, _, _, disk, first, here, count, size, start = WIDE_END.unpack(_read(file, place, WIDE_END.size, ""))
    if mark != b"PK\6\6" or length != WIDE_END.size - 12 or disk or first or here != count:
        raise ModelError("its 64-bit end record is damaged", where=f"byte {place:,}")
    return place, (count, size, start)


def _members(directory: bytes, count: int) -> list[Member]:
    members, at = [], 0
    for i in range(count):
        where = f"entry {i} of its directory"
        if at + ENTRY.size > len(directory):
            raise ModelError("lies outside the directory", where=where)
        member, at = _entry(directory, at, where)
        members.append(member)
    if at != len(directory):
        raise ModelError(f"its directory is {len(directory) - at:,} bytes longer than its {count:,} entries")
    seen: set[str] = set()
    for name in (m.name for m in members):
        if name in seen:
            raise ModelError("occurs twice", where=name)
        seen.add(name)
    return members


def _entry(directory: bytes, at: int, where: str) -> tuple[Member, int]:
    fields = ENTRY.unpack_from(directory, at)
    mark, _, version, flags, method, time, date, crc, stored, size, *more = fields
    names, extras, comments, disk, _, outside, place = more
    after = at + ENTRY.size + names + extras
    if mark != b"PK\1\2" or after > len(directory) or comments or disk or names > MAX_NAME:
        raise ModelError("is damaged", where=where)
    raw = directory[at + ENTRY.size : after - extras]
    size, stored, place = _wide(directory[after - extras : after], (size, stored, place), where)
    name = _name(raw, where)
    if (outside >> 16) & KIND == LINK:
        raise ModelError("is a link, not a file", where=name)
    if method not in (STORED, DEFLATED) or flags & ~FLAGS:
        raise ModelError(f"is encrypted or packed in an unusual way (method {method}, flags {flags:#x})", where=name)
    if method == STORED and stored != size:
        raise ModelError(f"is stored uncompressed in {stored:,} bytes, but claims {size:,}", where=name)
    return Member(name, raw, version, flags, method, (time, date), crc, stored, size, place), after


def _name(raw: bytes, where: str) -> str:
    """A plain relative path, with / between its parts."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise ModelError(f"has a name that is not text: {raw[:80]!r}", where=where) from None
    steps = name.removesuffix("/").split("/")  # a folder ends in /
    if FORBIDDEN.search(name) or any(step in ("", ".", "..") for step in steps):
        raise ModelError(f"is named {name[:80]!r}, which is not a plain relative path", where=where)
    return str(PurePosixPath(name))


def _wide(extra: bytes, numbers: tuple[int, ...], where: str) -> list[int]:
    """The numbers; those that are UNKNOWN are read from the 64-bit field."""
    field, at = b"", 0
    while at < len(extra):
        kind, length = struct.unpack_from("<2H", extra, at) if at + 4 <= len(extra) else (0, len(extra))
        if at + 4 + length > len(extra):
            raise ModelError("has an extra field that does not fit", where=where)
        if kind == 1:
            field = extra[at + 4 : at + 4 + length]
        at += 4 + length
    wide = (n for (n,) in struct.iter_unpack("<Q", field[: len(field) // 8 * 8]))
    return [next(wide, UNKNOWN) if n == UNKNOWN else n for n in numbers]


def _bound(members: list[Member], size: int) -> None:
    """Checked before anything is inflated; `_contents` holds each member to the size it declares here."""
    total = sum(m.size for m in members)
    if total > min(MAX_BYTES, FREE_BYTES + MAX_RATIO * size):
        largest = max(members, key=lambda m: m.size)
        raise ModelError(f"{size:,} bytes would inflate to {total:,}: a zip bomb", where=largest.name)


# the members


def _data(file: BinaryIO, member: Member, after: int) -> int:
    """Where a member's data start. Its local record, data and description must fill the space up to `after`."""
    room = after - member.at
    if room < LOCAL.size + len(member.raw) + member.stored:
        raise ModelError(f"overlaps the next member or the directory (byte {member.at:,})", where=member.name)
    fields = LOCAL.unpack(_read(file, member.at, LOCAL.size, member.name))
    mark, version, flags, method, time, date, crc, stored, size, names, extras = fields
    raw = _read(file, member.at + LOCAL.size, names, member.name) if names == len(member.raw) else b""
    start = member.at + LOCAL.size + names + extras
    if start + member.stored > after:
        raise ModelError(f"overlaps the next member or the directory (byte {member.at:,})", where=member.name)
    size, stored = _wide(_read(file, start - extras, extras, member.name), (size, stored), member.name)
    told = mark, raw, version, flags, method, (time, date)
    agree = told == (b"PK\3\4", member.raw, member.version, member.flags, member.method, member.when)
    numbers, described = (crc, stored, size), bool(flags & DESCRIBED)
    if not agree or numbers not in [(member.crc, member.stored, member.size)] + [(0, 0, 0)] * described:
        raise ModelError(f"its record differs from the directory (byte {member.at:,})", where=member.name)
    _check_description(_read(file, start + member.stored, after - start - member.stored, member.name), member)
    return start


def _check_description(found: bytes, member: Member) -> None:
    """Between a member's data and the next record: nothing, or checksum and sizes."""
    numbers = (member.crc, member.stored, member.size)
    forms = [struct.pack(f, b"PK\7\x08", *numbers) for f in ("<4s3L", "<4sL2Q")] if member.flags & DESCRIBED else [b""]
    if found not in forms:
        raise ModelError("is not followed by the expected record", where=member.name)


def _contents(file: BinaryIO, member: Member, start: int, keep: bool) -> bytes | None:
    """Check size and checksum; returns the bytes if they are to be kept."""
    kept, crc, size = [], 0, 0
    for piece in _pieces(file, member, start):
        crc, size = zlib.crc32(piece, crc), size + len(piece)
        if size > member.size:
            raise ModelError(f"inflates to more than the {member.size:,} bytes it declares", where=member.name)
        if keep:
            kept.append(piece)
    if size != member.size or crc != member.crc:
        what = f"its checksum is wrong over {size:,} of {member.size:,} bytes from byte {start:,}: damaged"
        raise ModelError(what, where=member.name)
    return b"".join(kept) if keep else None


def _pieces(file: BinaryIO, member: Member, start: int) -> Iterator[bytes]:
    """The inflated contents, a bounded piece at a time."""
    steps = range(0, member.stored, PIECE)
    raw = (_read(file, start + at, min(PIECE, member.stored - at), member.name) for at in steps)
    try:
        yield from raw if member.method == STORED else _inflated(raw)
    except (zlib.error, EOFError) as e:
        raise ModelError(f"its {member.stored:,} bytes cannot be inflated ({e})", where=member.name) from e


def _inflated(raw: Iterator[bytes]) -> Iterator[bytes]:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    for piece in chain(raw, [b""]):  # the last piece flushes the rest
        if inflate.eof and piece:
            raise EOFError("the data end too early")
        while True:
            yield inflate.decompress(piece, PIECE)
            piece = inflate.unconsumed_tail
            if not piece or inflate.eof:
                break
    if not inflate.eof or inflate.unused_data:
        raise EOFError("the data do not end where they should")
