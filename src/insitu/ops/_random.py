"""Random numbers as a function of where they are used: (counter, stream, index) -> 32 bits.

There is no state: any element can be drawn alone, in any order, on any machine, and again in the backward pass.
c/numbers/random.h computes the same integers.
"""

from __future__ import annotations

import numpy as np

WEYL = np.uint32(0x9E3779B9)  # 2^32 over the golden ratio, odd: its multiples spread evenly
MIX = (np.uint32(0x7FEB352D), np.uint32(0x846CA68B))  # odd factors; each bit affects about half of the others


def mixed(h: np.ndarray) -> np.ndarray:
    """Each bit of the result depends on each bit of h: shifts and odd products, so a permutation of 32-bit numbers."""
    h = np.asarray(h, np.uint32)
    h = (h ^ (h >> np.uint32(16))) * MIX[0]
    h = (h ^ (h >> np.uint32(15))) * MIX[1]
    return h ^ (h >> np.uint32(16))


def random_u32(counter: int, stream: int, count: int) -> np.ndarray:
    """Numbers 0..count-1 of this counter and stream."""
    with np.errstate(over="ignore"):
        key = mixed(mixed(np.array([counter], np.int32).view(np.uint32)) + np.uint32(stream) * WEYL)
        return mixed(np.arange(count, dtype=np.uint32) * WEYL + key)


def first_count(seed: int) -> np.ndarray:
    """s32[1]: the start of the counter for a seed; neighbouring seeds start far apart."""
    with np.errstate(over="ignore"):
        return mixed(np.array([seed & 0xFFFFFFFF], np.uint32) ^ WEYL).view(np.int32)
