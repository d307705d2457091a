"""Where built things are kept: a folder addressed by content, safe for several processes at once."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """`INSITU_CACHE`, or the user's cache folder."""
    root = os.environ.get("INSITU_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "insitu"
    return Path(root)


def key_of(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def cached(kind: str, key: str, suffix: str, make: Callable[[Path], None]) -> Path:
    """The file for this key; `make(path)` writes it the first time.

    Two processes may both make it: each writes a file of its own and renames it into place, and a
    rename is atomic, so nobody ever sees half of one.
    """
    folder = cache_folder() / kind
    wanted = folder / f"{key}{suffix}"
    if wanted.exists():
        return wanted
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as temporary:
        made = Path(temporary) / f"made{suffix}"
        make(made)
        made.replace(wanted)
    return wanted
