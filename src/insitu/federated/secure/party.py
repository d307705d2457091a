"""One device in a round of secure aggregation (Bonawitz et al. 2017).

    mine = Party.new()                                   1. its public keys go to the server
    letters = mine.letters(roster, threshold, terms)     2. shares of its secrets, sealed for each other device
    masked = mine.masked(numbers, letters_to_me, bits)   3. its numbers under masks that cancel in the sum
    shares = mine.reveal(alive)                          4. what takes the masks off the sum, and off nothing else

Each pair of devices shares a mask that one adds and the other subtracts; each device adds one more of its own. For a
device that sent its masked numbers, the others reveal shares of its own mask; for one that left, of the key of its
pairwise masks. Never both, and only once: either alone leaves its numbers hidden.

What a device was told (everybody's keys, the threshold, and the terms: the model's hash and how to learn) is part of
every letter's key. A server that tells two devices different things, to make all changes but one known to it, gets
letters that do not open. docs/federated-secure.md says what is not covered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from insitu.errors import DataError
from insitu.federated.secure.secrets import (
    SECRET_BYTES,
    SHARE_BYTES,
    agreed,
    expand,
    mask_of,
    new_key,
    opened,
    public_of,
    seal,
    split,
)

LETTERS, MASKS = b"insitu letters", b"insitu masks"
LEAST = 3  # devices: of two, each knows the other's change from the sum
MOST = 1 << 16  # devices: sums of 16-bit numbers then fit 32 bits


@dataclass(frozen=True)
class Public:
    """What everybody knows of a device."""

    letters: bytes
    masks: bytes

    @property
    def packed(self) -> bytes:
        return self.letters + self.masks


def unpack_public(data: object) -> Public:
    if not isinstance(data, bytes) or len(data) != 2 * SECRET_BYTES:
        raise DataError("are not two public keys", where="keys")
    return Public(data[:SECRET_BYTES], data[SECRET_BYTES:])


def checked_public(data: object) -> Public:
    """Two public keys with which others can agree on something: a key of small order gives zeros with every other."""
    found, mine = unpack_public(data), new_key()
    for key in (found.letters, found.masks):
        agreed(mine, key, b"")
    return found


def check_roster(roster: Sequence[bytes]) -> list[bytes]:
    """Everybody's keys, if no key is there twice: one device in two places counts as two that hide others."""
    keys = [unpack_public(each) for each in roster]
    for name in ("letters", "masks"):
        if len({getattr(k, name) for k in keys}) != len(keys):
            raise DataError("a key is in the server's list twice", where="secure aggregation")
    if len(keys) > MOST:
        raise DataError(f"{len(keys):,} devices are too many for one sum", where="secure aggregation")
    return [k.packed for k in keys]


@dataclass
class Party:
    """A device's secrets in one round."""

    letter_key: bytes
    mask_key: bytes
    seed: bytes  # of its own mask
    roster: list[bytes] = field(default_factory=list)  # everybody's public keys, in the server's order
    threshold: int = 0
    about: bytes = b""  # a hash of everything that this device was told
    model: bytes = b""  # what it masked a change of
    wrote: list[int] = field(default_factory=list)  # devices whose letters arrived: masks are shared with these
    shares: dict[int, bytes] = field(default_factory=dict)  # of their two secrets, one after the other
    revealed: bool = False

    @classmethod
    def new(cls) -> Party:
        return cls(new_key(), new_key(), new_key())

    @property
    def public(self) -> Public:
        return Public(public_of(self.letter_key), public_of(self.mask_key))

    @property
    def place(self) -> int:
        """Where this device is in the roster."""
        if self.roster.count(self.public.packed) != 1:
            raise DataError("this device is not in the server's list exactly once", where="secure aggregation")
        return self.roster.index(self.public.packed)

    def letters(self, roster: Sequence[bytes], threshold: int, terms: bytes = b"") -> dict[int, bytes]:
        """Shares of this device's secrets, sealed for each other device that was told the same."""
        if self.roster:
            raise DataError("the server asks for shares twice", where="secure aggregation")
        check_threshold(len(roster), threshold)
        self.roster, self.threshold = check_roster(roster), threshold
        self.about = told(self.roster, threshold, terms)
        seeds, keys = (split(secret, len(roster), threshold) for secret in (self.seed, self.mask_key))
        self.shares[self.place] = seeds[self.place] + keys[self.place]
        others = [i for i in range(len(roster)) if i != self.place]
        return {i: seal(self._letter_key(i, self.place, i), seeds[i] + keys[i]) for i in others}

    def _letter_key(self, other: int, sender: int, receiver: int) -> bytes:
        """The key of the letter from sender to receiver: another one in each direction, so that each is used once."""
        purpose = LETTERS + self.about + sender.to_bytes(4, "little") + receiver.to_bytes(4, "little")
        return agreed(self.letter_key, unpack_public(self.roster[other]).letters, purpose)

    def masked(self, numbers: np.ndarray, letters: Mapping[int, bytes], bits: int) -> np.ndarray:
        """The numbers modulo 2^bits under the masks of this device and of everybody whose letter arrived."""
        if self.wrote or not self.roster:
            raise DataError("the server asks for the masked change twice, or too early", where="secure aggregation")
        for i, letter in letters.items():
            self.shares[i] = self._read(i, letter)
        self.wrote = sorted(self.shares)
        if len(self.wrote) < self.threshold:
            raise too_few(len(self.wrote), self.threshold)
        total = numbers.astype(np.int64).astype(np.uint32) + expand(self.seed, numbers.size, bits)
        for i in self.wrote:
            total = total + self._pair(i, numbers.size, bits)
        return total & mask_of(bits)

    def _read(self, sender: int, letter: bytes) -> bytes:
        if not 0 <= sender < len(self.roster) or sender == self.place:
            raise DataError(f"a letter comes from {sender}, which is not in the list", where="secure aggregation")
        found = opened(self._letter_key(sender, sender, self.place), letter)
        if len(found) != 2 * SHARE_BYTES:
            raise DataError("a letter has another length", where="secure aggregation")
        return found

    def _pair(self, other: int, count: int, bits: int) -> np.ndarray:
        """The mask shared with another device: one of the two adds it, the other subtracts it."""
        if other == self.place:
            return np.zeros(count, np.uint32)
        return pair_mask(self.mask_key, self.place, unpack_public(self.roster[other]).masks, other, count, bits)

    def reveal(self, alive: Sequence[int]) -> dict[int, bytes]:
        """For each device that is alive a share of its own mask's seed, for each other one of its mask key."""
        if self.revealed or not self.wrote:
            raise DataError("the server asks for shares twice, or too early", where="secure aggregation")
        if not set(alive) <= set(self.wrote) or self.place not in alive or len(set(alive)) < self.threshold:
            raise too_few(len(set(alive) & set(self.wrote)), self.threshold)
        self.revealed = True
        return {i: self.shares[i][:SHARE_BYTES] if i in alive else self.shares[i][SHARE_BYTES:] for i in self.wrote}

    def check_terms(self, terms: bytes) -> None:
        """Refuse what differs from what this device's letters said."""
        if self.about != told(self.roster, self.threshold, terms):
            raise DataError("the server changed the round after it began", where="secure aggregation")

    # between messages -------------------------------------------------------------------------

    def kept(self) -> bytes:
        """What the device keeps until the next message, for itself alone."""
        return json.dumps(asdict(self), default=bytes.hex).encode()

    @classmethod
    def keep(cls, data: bytes) -> Party:
        found = json.loads(data)
        secrets = {name: bytes.fromhex(found[name]) for name in ("letter_key", "mask_key", "seed", "about", "model")}
        roster = [bytes.fromhex(each) for each in found["roster"]]
        shares = {int(i): bytes.fromhex(share) for i, share in found["shares"].items()}
        return cls(**{**found, **secrets, "roster": roster, "shares": shares})


def told(roster: Sequence[bytes], threshold: int, terms: bytes) -> bytes:
    """A hash of what a device was told about a round."""
    return hashlib.sha256(threshold.to_bytes(4, "little") + hashlib.sha256(b"".join(roster)).digest() + terms).digest()


def pair_mask(key: bytes, place: int, public: bytes, other: int, count: int, bits: int) -> np.ndarray:
    """What the device at `place` adds for the one at `other`; the two cancel."""
    low, high = sorted((place, other))
    seed = agreed(key, public, MASKS + low.to_bytes(4, "little") + high.to_bytes(4, "little"))
    mask = expand(seed, count, bits)
    return mask if place < other else np.uint32(0) - mask


def least_threshold(count: int) -> int:
    """Two thirds: no server gets both secrets of a device by telling some that it is alive and others that it left."""
    return max(LEAST, 2 * count // 3 + 1)


def check_threshold(count: int, threshold: int) -> None:
    if not least_threshold(count) <= threshold <= count:
        words = f"{threshold} of {count} devices is not enough to hide one, {least_threshold(count)} are needed"
        raise DataError(words, where="secure aggregation", hint=f"at least {LEAST} devices")


def too_few(found: int, wanted: int) -> DataError:
    return DataError(f"only {found} devices are left, {wanted} are needed to hide one", where="secure aggregation")
