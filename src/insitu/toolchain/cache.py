"""The cache of built files: a folder addressed by content, safe for several processes at once."""

from __future__ import annotations

import hashlib
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

from insitu.errors import ToolError
from insitu.folders import cache_folder

HINT = "set INSITU_CACHE to a writable folder on a disk with free space"


def key_of(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def cached(kind: str, key: str, suffix: str, make: Callable[[Path], None]) -> Path:
    """The file for this key; `make(path)` writes it the first time.

    Two processes may both make it: each writes its own file and renames it into place. A rename is
    atomic, so nobody ever sees half a file.
    """
    folder = cache_folder() / kind
    wanted = folder / f"{key}{suffix}"
    try:
        if wanted.exists():
            return wanted
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as temporary:
            made = Path(temporary) / f"made{suffix}"
            make(made)
            made.replace(wanted)
    except OSError as e:
        raise ToolError(f"the cache cannot be used: {e.strerror or e}", where=str(cache_folder()), hint=HINT) from e
    return wanted


def seal(path: Path) -> None:
    """Append a checksum, which the dynamic loader ignores: mapping half a library would kill the process."""
    with path.open("ab") as f:
        f.write(_sum(path.read_bytes()))


def sealed(path: Path) -> bool:
    """Is this file complete and unchanged since it was sealed?"""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return len(data) > SUM_BYTES and data[-SUM_BYTES:] == _sum(data[:-SUM_BYTES])


SUM_BYTES = 10


def _sum(data: bytes) -> bytes:
    return b"insitu" + zlib.crc32(data).to_bytes(4, "little")


def forget(*paths: Path) -> None:
    """Remove damaged files from the cache, so that they are built again."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as e:
            raise ToolError(f"is damaged and cannot be removed: {e.strerror or e}", where=str(path), hint=HINT) from e
