"""Files that appear complete or not at all, arrays read from untrusted files, and the cache's folder."""

from __future__ import annotations

import io
import os
import re
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from insitu.errors import DataError

UNREADABLE = (OSError, ValueError, LookupError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What reading a damaged archive of arrays can raise."""
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
SPECIAL = "it is a device, pipe or socket"
SYSTEMS_OWN = ("__macosx", "@eadir", "$recycle.bin", "system volume information", "lost+found", "thumbs.db",
               "desktop.ini")  # fmt: skip
"""What systems and network drives put beside a user's files, also into archives, without a dot in its name."""


def write_whole(path: str | Path, data: bytes) -> Path:
    """Write a file atomically: readers find the old file or the new one, and writers do not interfere."""
    with replacing(path) as part, part.open("wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    return Path(path)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary file beside this one that replaces it when the block ends without an error."""
    target = check_target(path)
    try:
        with _part_of(target) as part:
            yield part
            part.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
            part.replace(target)
    except OSError as e:
        raise DataError(f"cannot be written: {e.strerror or e}", where=str(path)) from e


@contextmanager
def _part_of(target: Path) -> Iterator[Path]:
    """A new file of this writer. A lock file beside it tells others that the writer is alive, and ends with it."""
    _sweep(target)
    held, lock = _new_lock(target)
    part = lock.with_suffix("")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield part
    finally:
        _remove(part, lock)
        os.close(held)


def _sweep(target: Path) -> None:
    """Remove what killed writers of the same file left behind: the parts whose lock is free."""
    ours = re.compile(rf"\.{re.escape(target.name[:100])}\.[a-z0-9_]{{8}}\.part\.lock")
    with suppress(OSError):
        for lock in [path for path in target.parent.iterdir() if ours.fullmatch(path.name)]:
            held = os.open(lock, os.O_RDWR)
            if _locked(held, wait=False) and os.fstat(held).st_nlink:
                _remove(lock.with_suffix(""), lock)
            os.close(held)


def _new_lock(target: Path) -> tuple[int, Path]:
    while True:
        held, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".part.lock", dir=target.parent)
        _locked(held, wait=True)
        if os.fstat(held).st_nlink:
            return held, Path(name)
        os.close(held)  # another writer took it for a leftover before it was locked


def _locked(held: int, wait: bool) -> bool:
    """Lock an open file until it is closed; False if another process has it, or if there are no locks here."""
    try:
        import fcntl

        fcntl.flock(held, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    except (ImportError, OSError):
        return False


def _remove(*paths: Path) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def check_target(path: str | Path) -> Path:
    """The file that writing to this path would replace: a link is followed. A DataError if it cannot be written.

    A device, a pipe or a socket is never replaced by a file.
    """
    try:
        target = Path(os.path.realpath(path))
        problem = _problem(target) if str(path) else "a file needs a name"
    except (OSError, ValueError) as e:  # a name that no file can have: too long, or with a zero byte
        problem = getattr(e, "strerror", None) or str(e)
    if problem:
        raise DataError(f"cannot be written: {problem}", where=str(path))
    return target


def _problem(target: Path) -> str:
    if target.is_symlink():
        return "the links of its path lead in a circle"  # else realpath would have followed them
    if target.exists() and not target.is_file():
        return "it is a folder" if target.is_dir() else SPECIAL
    if not target.parent.is_dir():
        return f"there is no folder {target.parent}"
    if not os.access(target.parent, os.W_OK | os.X_OK):
        return f"the folder {target.parent} is read-only"
    return ""


def check_source(path: str | Path) -> None:
    """A DataError if no file can have this path, or if reading it could wait forever: nobody need ever write into a
    pipe."""
    if not str(path).strip():
        raise DataError("a file needs a name", where=repr(str(path)))
    try:
        kind = Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return  # whoever reads it says so
    except (OSError, ValueError) as e:  # a name that no file can have
        raise DataError(f"cannot be read: {getattr(e, 'strerror', None) or e}", where=f"{str(path)[:60]!r}") from e
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise DataError(f"cannot be read: {SPECIAL}", where=str(path))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_array(data: bytes) -> np.ndarray:
    """The array of an .npy file. Its size is compared with the bytes of the file before anything is allocated."""
    stream = io.BytesIO(data)
    check_array(stream, len(data))
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def check_array(stream: IO[bytes], size: int, where: str = "") -> None:
    """Refuse an .npy file of `size` bytes whose header declares another size."""
    try:
        shape, _, dtype = HEADERS[np.lib.format.read_magic(stream)](stream)
    except Exception as e:  # numpy parses its header as Python text, which fails in many ways
        raise DataError(
            f"is not an .npy file that can be read ({type(e).__name__}: {str(e)[:100]})", where=where
        ) from e
    if dtype.hasobject:
        raise DataError("contains Python objects, which are not supported", where=where)
    left = size - stream.tell()
    if any(n < 0 for n in shape) or prod(shape) * dtype.itemsize != left:
        raise DataError(f"declares the shape {shape}, but has {left:,} bytes of data", where=where)


def check_arrays(path: Path) -> None:
    """The same for an .npy file, or for every array of an .npz; an .npz must also fit this machine's memory."""
    if path.suffix.lower() != ".npz":
        with path.open("rb") as f:
            return check_array(f, path.stat().st_size, str(path))
    with zipfile.ZipFile(path) as z:
        total = sum(info.file_size for info in z.infolist())
        if total > memory_bytes():
            raise DataError(f"unpacks to {total:,} bytes, more than this machine's memory", where=str(path))
        for info in z.infolist():
            with z.open(info) as member:
                check_array(member, info.file_size, f"{path}: {info.filename.removesuffix('.npy')}")
    return None


def memory_bytes() -> int:
    """Of this machine; no limit if that is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def cache_folder() -> Path:
    """Where insitu keeps its own files on this machine: `INSITU_CACHE`, or the user's cache folder."""
    given = os.environ.get("INSITU_CACHE")  # an empty word counts as none, as the XDG rules say
    root = given or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "insitu"
    return Path(root)


def files_in(folder: str | Path, suffixes: Collection[str] = ()) -> list[Path]:
    """The files of a folder and of the folders in it that are not hidden; with `suffixes`, those that end so. A folder
    that cannot be read is an error: nobody would notice what is missing."""
    found: list[Path] = []
    for root, folders, names in os.walk(folder, onerror=_unreadable):
        folders[:] = [name for name in folders if not _hidden(name)]
        found += [Path(root, name) for name in names if not _hidden(name)]
    return sorted(p for p in found if not suffixes or p.suffix.lower() in suffixes)


def _unreadable(e: OSError) -> None:
    raise DataError(f"cannot be read: {e.strerror or e}", where=str(e.filename)) from e


def contents(path: str | Path) -> bytes:
    """All bytes of a file; a DataError that says why it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as e:
        raise DataError(f"cannot be read: {e.strerror or e}", where=str(path)) from e


def subfolders(folder: str | Path) -> list[Path]:
    """The folders in a folder that are not hidden, in the order of their names."""
    return sorted(p for p in Path(folder).iterdir() if p.is_dir() and not _hidden(p.name))


def _hidden(name: str) -> bool:
    """Other systems' own files count as hidden."""
    return name.startswith(".") or name.lower() in SYSTEMS_OWN
