"""Place every buffer of an ordered graph at a fixed offset in one arena.

Several greedy orders are tried and the lowest arena wins. Nothing here chooses the order of the
graph (order.py) or trusts itself (verify.py).
"""

from __future__ import annotations

from insitu.planner.lifetimes import Buffer

ALIGN = 16

# the order in which buffers are given a place
HEURISTICS = {
    "size": lambda b: (-b.bytes, b.first, b.names),
    "size x time": lambda b: (-b.bytes * (b.last - b.first + 1), b.first, b.names),
    "time": lambda b: (-(b.last - b.first), -b.bytes, b.first, b.names),
    "first use": lambda b: (b.first, -b.bytes, b.names),
    "last use": lambda b: (-b.last, -b.bytes, b.names),
}


def place(buffers: tuple[Buffer, ...], align: int = ALIGN) -> tuple[dict[Buffer, int], int]:
    """Buffer -> offset, and the bytes of the arena."""
    best: tuple[dict[Buffer, int], int] | None = None
    for key in HEURISTICS.values():
        offsets = _greedy(sorted(buffers, key=key), align)
        total = arena_bytes(offsets)
        if best is None or total < best[1]:
            best = offsets, total
    return best if best else ({}, 0)


def lower_bound(buffers: tuple[Buffer, ...]) -> int:
    """The largest sum of bytes alive at one step: no placement can need less."""
    steps = sorted({b.first for b in buffers})
    return max((sum(b.bytes for b in buffers if b.first <= s <= b.last) for s in steps), default=0)


def arena_bytes(offsets: dict[Buffer, int]) -> int:
    return max((offset + b.bytes for b, offset in offsets.items()), default=0)


def _greedy(order: list[Buffer], align: int) -> dict[Buffer, int]:
    """Each buffer at the lowest offset that is free for its whole life."""
    placed: dict[Buffer, int] = {}
    for buffer in order:
        taken = sorted((at, at + b.bytes) for b, at in placed.items() if b.overlaps(buffer))
        placed[buffer] = _first_gap(taken, buffer.bytes, align)
    return placed


def _first_gap(taken: list[tuple[int, int]], size: int, align: int) -> int:
    offset = 0
    for start, end in taken:
        if offset + size <= start:
            break
        offset = max(offset, -(-end // align) * align)
    return offset
