"""The cache of built files: a folder addressed by content, safe for several processes at once.

Code from it is loaded and linked, so every file is sealed with a hash when it is made, and checked on every use. A file
that was truncated or changed is made again. A file that another user owns, or could write, is not used at all.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from insitu.errors import ToolError
from insitu.files import cache_folder

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

HINT = "set INSITU_CACHE to a writable folder on a disk with free space"
OWN = "set INSITU_CACHE to a folder of your own: its files are run as code"
SEALS = ".seals"
SETTLED = 2_000_000_000  # nanoseconds


def key_of(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def cached(kind: str, key: str, suffix: str, make: Callable[[Path], None]) -> Path:
    """The file for this key; `make(path)` writes it the first time, and again if it has changed.

    A process that needs a file which another one is making waits for it. A file is written elsewhere and renamed into
    place: a rename is atomic, so no process ever sees half a file.
    """
    wanted = place_of(kind, key, suffix)
    folder = wanted.parent
    try:
        _trusted_folder(folder)
        if sealed(wanted):
            return wanted
        with one_at_a_time(wanted), tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as temporary:
            if sealed(wanted):
                return wanted
            made = Path(temporary) / f"made{suffix}"
            make(made)
            made.chmod(0o755 if os.access(made, os.X_OK) else 0o644)
            _seal(made, wanted)
    except OSError as e:
        raise ToolError(f"the cache cannot be used: {e.strerror or e}", where=str(cache_folder()), hint=HINT) from e
    return wanted


@contextmanager
def one_at_a_time(place: Path) -> Iterator[None]:
    """One process makes this file, and others wait. Where files cannot be locked, several may make it."""
    lock = place.with_name(f".lock-{place.name}")
    _trusted_folder(place.parent)
    with lock.open("w") as file:
        if fcntl:
            with suppress(OSError):  # some network disks have no locks
                fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)  # a process that has it open still waits for it, and finds the file made


def place_of(kind: str, key: str, suffix: str) -> Path:
    """Where the file for this key is, or will be."""
    return cache_folder() / kind / f"{key}{suffix}"


def sealed(path: Path) -> bool:
    """Is this file complete and unchanged since it was made?"""
    try:
        found = path.stat()
        _check_owner(path, found)
        return not _writable_by_others(found) and _seal_of(path).read_text() == _hash(path)
    except (OSError, ValueError):
        return False


def _seal(made: Path, wanted: Path) -> None:
    """Put a file in its place, and then its hash. Until both are there, the file counts as damaged."""
    seal = made.with_name("seal")
    seal.write_text(_hash(made))
    seal.chmod(0o644)
    _trusted_folder(_seal_of(wanted).parent)
    made.replace(wanted)
    seal.replace(_seal_of(wanted))


def _seal_of(path: Path) -> Path:
    return path.parent.parent / SEALS / path.parent.name / path.name


def _hash(path: Path) -> str:
    """The hash of a file's content; a file that has not been touched for a while is read once per process."""
    found = path.stat()
    settled = time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > SETTLED  # else one stamp may be two contents
    return (_settled_hash if settled else _new_hash)(
        path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    )


def _new_hash(path: Path, *_: int) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=32).hexdigest()


_settled_hash = lru_cache(maxsize=4096)(_new_hash)


# ownership --------------------------------------------------------------------------------------


def _trusted_folder(folder: Path) -> None:
    """Create the folder if it is missing. Raises an error if other users could put files there."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
    found = folder.stat()
    _check_owner(folder, found)
    if _writable_by_others(found):
        raise ToolError("can be written by other users", where=str(folder), hint=f"chmod go-w {folder}; or {OWN}")


def _check_owner(path: Path, found: os.stat_result) -> None:
    if hasattr(os, "geteuid") and found.st_uid not in (os.geteuid(), 0):
        raise ToolError(f"belongs to another user (number {found.st_uid})", where=str(path), hint=OWN)


def _writable_by_others(found: os.stat_result) -> bool:
    mode = stat.S_IMODE(found.st_mode)
    shared = hasattr(os, "getegid") and found.st_gid != os.getegid()
    return os.name == "posix" and bool(mode & stat.S_IWOTH or (shared and mode & stat.S_IWGRP))


def forget(*paths: Path) -> None:
    """Remove files from the cache, so that they are made again."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as e:
            raise ToolError(f"is damaged and cannot be removed: {e.strerror or e}", where=str(path), hint=HINT) from e
