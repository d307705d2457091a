"""Files that appear whole or not at all, and arrays read from files that nobody vouches for."""

from __future__ import annotations

import io
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path

import numpy as np

from insitu.errors import DataError

HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def write_whole(path: str | Path, data: bytes) -> Path:
    """Write a file in one go: readers find the old one or the new one, and no two writers meet."""
    with replacing(path) as part, part.open("wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    return Path(path)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A file beside this one, with a name of its own, that takes its place when the block ends well."""
    target = Path(os.path.realpath(path))  # a link is followed, not replaced
    part = None
    try:
        _check_plain(target)
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".part", dir=target.parent)
        os.close(descriptor)
        part = Path(name)
        yield part
        part.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
        part.replace(target)
    except OSError as e:
        raise DataError(f"cannot be written: {e.strerror or e}", where=str(path)) from e
    finally:
        if part:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _check_plain(target: Path) -> None:
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "a device, pipe or socket"
        raise DataError(f"cannot be written: it is {kind}", where=str(target))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_array(data: bytes) -> np.ndarray:
    """The array of an .npy file. Its size is held against the bytes that are there before anything is allocated."""
    stream = io.BytesIO(data)
    try:
        shape, fortran, dtype = HEADERS[np.lib.format.read_magic(stream)](stream)
    except Exception as e:  # numpy parses its header as Python text, which fails in a dozen ways
        raise DataError(f"is not an .npy file that can be read ({type(e).__name__}: {str(e)[:100]})") from e
    if dtype.hasobject:
        raise DataError("holds Python objects, which are not read")
    if any(n < 0 for n in shape) or prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise DataError(f"says that it has the shape {shape}, but has {len(data) - stream.tell():,} bytes of data")
    flat = np.frombuffer(data, dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if fortran else "C").copy()
