"""The four tools of secure aggregation, from well-known parts: nothing here was invented.

    shares = split(secret, 7, threshold=5)         Shamir: any 5 of 7 give the secret back, 4 say nothing about it
    key = agreed(mine, theirs, b"purpose")         X25519, then HKDF-SHA-256
    letter = seal(key, data); opened(key, letter)  ChaCha20-Poly1305
    mask = expand(seed, count, bits)               ChaCha20's key stream as numbers modulo 2^bits

Every key and seed is made for one round and used once, so a nonce of zeros never repeats under a key.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np

from insitu.errors import DataError, needs

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    raise needs("cryptography", "flower", "secure aggregation") from None

SECRET_BYTES = 32
PRIME = 2**256 + 297  # the smallest prime above every secret
SHARE_BYTES = 33
ONCE = bytes(12)  # the nonce: every key is used once


# shares -----------------------------------------------------------------------------------------


def split(secret: bytes, count: int, threshold: int) -> list[bytes]:
    """Points 1 to count of a random polynomial of degree threshold - 1 whose value at 0 is the secret."""
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= count:
        raise DataError(f"cannot be split into {count} shares with threshold {threshold}", where="secret")
    terms = [int.from_bytes(secret, "little"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return [_value(terms, x).to_bytes(SHARE_BYTES, "little") for x in range(1, count + 1)]


def _value(terms: list[int], x: int) -> int:
    found = 0
    for term in reversed(terms):
        found = (found * x + term) % PRIME
    return found


def joined(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret, from shares by their number (from 0). More than enough must agree: a wrong one is found out."""
    if len(shares) < threshold:
        raise DataError(f"{len(shares)} shares are too few, {threshold} are needed", where="secret")
    points = [(i + 1, int.from_bytes(share, "little")) for i, share in sorted(shares.items())]
    if any(len(s) != SHARE_BYTES for s in shares.values()):
        raise DataError("a share has another length", where="secret")
    found = _at_zero(points[:threshold])
    if found >= 2**256 or (len(points) > threshold and _at_zero(points[-threshold:]) != found):
        raise DataError("the shares do not fit together", where="secret")
    return found.to_bytes(SECRET_BYTES, "little")


def _at_zero(points: list[tuple[int, int]]) -> int:
    """Lagrange's formula at 0."""
    total = 0
    for x, y in points:
        above = below = 1
        for other, _ in points:
            if other != x:
                above, below = above * other % PRIME, below * (other - x) % PRIME
        total = (total + y * above * pow(below, -1, PRIME)) % PRIME
    return total


# keys and letters -------------------------------------------------------------------------------


def new_key() -> bytes:
    """A secret key of X25519."""
    return secrets.token_bytes(SECRET_BYTES)


def public_of(key: bytes) -> bytes:
    public = X25519PrivateKey.from_private_bytes(key).public_key()
    return public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def agreed(mine: bytes, theirs: bytes, purpose: bytes) -> bytes:
    """The key that two devices share: each from its own secret and the other's public half."""
    try:
        common = X25519PrivateKey.from_private_bytes(mine).exchange(X25519PublicKey.from_public_bytes(theirs))
    except ValueError as e:
        raise DataError(f"a public key is not valid: {e}", where="secure aggregation") from e
    return HKDF(hashes.SHA256(), SECRET_BYTES, None, purpose).derive(common)


def seal(key: bytes, data: bytes) -> bytes:
    return ChaCha20Poly1305(key).encrypt(ONCE, data, None)


def opened(key: bytes, letter: bytes) -> bytes:
    try:
        return ChaCha20Poly1305(key).decrypt(ONCE, letter, None)
    except InvalidTag as e:
        raise DataError("a letter was changed on its way", where="secure aggregation") from e


# masks ------------------------------------------------------------------------------------------


def expand(seed: bytes, count: int, bits: int) -> np.ndarray:
    """Numbers below 2^bits, uint32, that nobody can tell from random ones without the seed."""
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), None).encryptor().update(bytes(4 * count))
    return np.frombuffer(stream, "<u4") & mask_of(bits)


def mask_of(bits: int) -> np.uint32:
    return np.uint32(2**bits - 1)
