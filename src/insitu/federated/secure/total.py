"""The server's side: the sum of masked changes, and the masks taken off it.

It sees public keys, sealed letters, masked numbers, and shares of what takes the masks off the sum. With fewer shares
than the threshold there is no sum, and the round is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from insitu.errors import DataError
from insitu.federated.secure.party import pair_mask, too_few, unpack_public
from insitu.federated.secure.secrets import expand, joined, mask_of, public_of

Shares = Mapping[int, bytes]  # by the device that they are about


def unmasked(masked: Mapping[int, np.ndarray], roster: Sequence[bytes], wrote: Sequence[int],
             revealed: Mapping[int, Shares], threshold: int, bits: int) -> np.ndarray:  # fmt: skip
    """The sum of the numbers of those who sent them (int64). `wrote` are all whose letters were passed on."""
    if len(revealed) < threshold:
        raise too_few(len(revealed), threshold)
    count = next(iter(masked.values())).size
    total = np.zeros(count, np.uint32)
    for numbers in masked.values():
        total = total + numbers
    for i in wrote:
        secret = joined({k: shares[i] for k, shares in revealed.items() if i in shares}, threshold)
        total = total - (expand(secret, count, bits) if i in masked else _left(i, secret, masked, roster, count, bits))
    return signed(total & mask_of(bits), bits)


def _left(gone: int, key: bytes, masked: Mapping[int, np.ndarray], roster: Sequence[bytes], count: int,
          bits: int) -> np.ndarray:  # fmt: skip
    """What is left in the sum of the masks that others share with a device that is gone."""
    if public_of(key) != unpack_public(roster[gone]).masks:
        raise DataError("the shares of a device that left do not fit its key", where="secure aggregation")
    total = np.zeros(count, np.uint32)
    for i in masked:  # the others added the opposite of what it would have added for them
        total = total - pair_mask(key, gone, unpack_public(roster[i]).masks, i, count, bits)
    return total


def signed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Numbers below 2^bits as signed ones."""
    wide = numbers.astype(np.int64)
    return np.where(wide >= 1 << bits - 1, wide - (1 << bits), wide)


def bits_for(devices: int) -> int:
    """Enough for the sum of 16-bit numbers of this many devices: at most 32."""
    return 16 + max(1, (devices - 1).bit_length())
