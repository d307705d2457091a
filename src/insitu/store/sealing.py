"""Encryption at rest: AES-GCM with a key from the caller. Without a key, data stay as they are.

A sealed piece is 12 random bytes, the encrypted data, and 16 bytes that prove they are unchanged and in their place:
each is bound to words about it (`about`). Nothing here keeps or makes keys.
"""

from __future__ import annotations

import hashlib
import os
import zlib

from insitu.errors import DataError, needs

NONCE, EXTRA = 12, 28  # bytes: the random ones, and all that sealing adds
KEY_SIZES = (16, 24, 32)


class Seal:
    """Seals and opens pieces with a key, or with none."""

    def __init__(self, key: bytes | None = None):
        self.extra = EXTRA if key else 0
        found = checked(key) if key is not None else None
        self._cipher = None if found is None else _cipher(found)
        self._hash = None if found is None else hashlib.blake2b(digest_size=7, key=found)  # copied for each use

    @property
    def locked(self) -> bool:
        return self._cipher is not None

    def seal(self, data: bytes, about: str) -> bytes:
        if self._cipher is None:
            return data
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, data, about.encode())

    def open(self, data: bytes, about: str) -> bytes | None:
        """The data; None if they were changed, or sealed with another key."""
        if self._cipher is None:
            return data
        try:
            return self._cipher.decrypt(data[:NONCE], data[NONCE:], about.encode())
        except Exception:  # InvalidTag; ValueError for a piece that is too short
            return None

    def mark(self, data: bytes) -> int:
        """A number that tells data apart: CRC-32, or with a key one that says nothing without the key."""
        if self._hash is None:
            return zlib.crc32(data)
        own = self._hash.copy()
        own.update(data)
        return int.from_bytes(own.digest(), "little")

    def likeness(self, data: bytes) -> int:
        """A number that equal data share, and others hardly ever: of a CRC-32, so quicker than a mark, and no proof."""
        found = zlib.crc32(data)
        return found if self._hash is None else self.mark(found.to_bytes(4, "little"))


def checked(key: bytes) -> bytes:
    if not isinstance(key, bytes | bytearray) or len(key) not in KEY_SIZES:
        raise DataError("the key must be 16, 24 or 32 bytes", hint="secrets.token_bytes(32), kept outside the store")
    return bytes(key)


def _cipher(key: bytes):
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise needs("cryptography", "store", "encryption at rest") from None
    return AESGCM(key)
