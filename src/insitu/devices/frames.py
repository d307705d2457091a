"""The data on the line: requests and answers, stuffed into frames. docs/protocol.md says what they mean.

requests.py decides who asks, how often, and how long to wait for an answer.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from zlib import crc32

from insitu.codegen.device import CRC_BYTES, FRAME_BYTES

HEAD = "<BBBBHHI"  # kind, verb or status, index, 0, sequence, count, offset or done
ANSWER = 0x80
KINDS = ("ping", "info", "write", "run", "output", "state_out", "state_in", "state_commit", "counters", "reset",
         "observe", "label", "rehearse", "checkpoint", "rollback", "add_class", "forget", "statistics",
         "records", "erase", "latents")  # fmt: skip
(OK, DAMAGED, TOO_LONG, UNKNOWN, NO_SUCH, OUTSIDE, GAP, NOT_READY, LABEL, NOT_FINITE, STATELESS) = range(11)
STATE, BETWEEN = 10, 15  # the first plus the result of <prefix>_load
FAULTED = 16  # not an answer: the device sends it unasked (faults.py)
NO_SAMPLE, NO_ROOM, BUSY, NOTHING, LACKS, FLASH = 17, 18, 19, 20, 21, 22


def stuff(data: bytes) -> bytes:
    """COBS: the same bytes without zeros. Each block starts with the distance to the next zero."""
    blocks, pieces = [], data.split(b"\0")
    for i, piece in enumerate(pieces):
        while len(piece) >= 254:  # no zero follows a full block
            blocks.append(b"\xff" + piece[:254])
            piece = piece[254:]
            if not piece and i == len(pieces) - 1:
                return b"".join(blocks)
        blocks.append(bytes([len(piece) + 1]) + piece)
    return b"".join(blocks)


def unstuff(data: bytes) -> bytes | None:
    """The original bytes, or None if these are not stuffed bytes."""
    out, at = bytearray(), 0
    while at < len(data):
        code = data[at]
        block = data[at + 1 : at + code]
        if not code or len(block) != code - 1 or 0 in block:
            return None
        out += block
        at += code
        if code < 255 and at < len(data):
            out.append(0)
    return bytes(out)


def frame(body: bytes) -> bytes:
    """The form on the line: with a CRC-32, stuffed, between zeros."""
    return b"\0" + stuff(body + crc32(body).to_bytes(CRC_BYTES, "little")) + b"\0"


def unframe(data: bytes) -> bytes | None:
    """The body of the bytes between two zeros, or None if they are damaged."""
    whole = unstuff(data)
    if whole is None or not CRC_BYTES <= len(whole) <= FRAME_BYTES:
        return None
    body, crc = whole[:-CRC_BYTES], whole[-CRC_BYTES:]
    return body if crc32(body) == int.from_bytes(crc, "little") else None


def request(kind: str | int, sequence: int, verb: int = 0, index: int = 0, offset: int = 0, data: bytes = b"",
            count: int | None = None) -> bytes:  # fmt: skip
    """The body of a request. In reads, `count` is the number of bytes wanted."""
    number = KINDS.index(kind) if isinstance(kind, str) else kind
    return struct.pack(HEAD, number, verb, index, 0, sequence, len(data) if count is None else count, offset) + data


@dataclass(frozen=True)
class Answer:
    kind: int
    status: int
    sequence: int
    done: int  # calls, loads and resets since the device started
    data: bytes


DAMAGED_FRAME = Answer(0, DAMAGED, 0, 0, b"")  # in place of an answer: the request did not arrive intact


def read_answer(body: bytes) -> Answer | None:
    """The answer in a body, or None if it is not an answer."""
    size = struct.calcsize(HEAD)
    if len(body) < size:
        return None
    kind, status, _, _, sequence, count, done = struct.unpack(HEAD, body[:size])
    if not kind & ANSWER or count != len(body) - size:
        return None
    return Answer(kind & ~ANSWER, status, sequence, done, body[size:])
