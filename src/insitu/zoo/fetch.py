"""`insitu zoo get`: brings a file of the zoo into the cache, from its publisher or from a mirror.

A download that was cut off continues where it stopped. Only a file with the right sha256 becomes part of the cache.
`INSITU_ZOO` names a mirror: a folder, or an address below which every file has its name of the table.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from insitu.errors import DataError
from insitu.files import replacing
from insitu.terminal.progress import Report, bar
from insitu.zoo.cache import BLOCK, by_hand, cleared, entry_of, how_to, place_of, sha256, state_of
from insitu.zoo.entries import Entry

MIRROR = "INSITU_ZOO"
TRIES = 5  # connections without a new byte before it gives up
PAUSE = 0.5  # seconds before the second of them, twice as long before each further one
TIMEOUT = 30.0  # seconds without a byte
SAFE = ":/?#[]@!$&'()*+,;=%~"  # characters of an address that mean themselves
OWN_DISK = "make room, then the same again: it goes on where it stopped; INSITU_CACHE names another folder"
FINAL = (400, 401, 403, 404, 405, 410, 451)  # answers that no second try changes


def get(name: str, progress: Report | None = None) -> Path:
    """The verified file of an entry, downloaded if it is not here yet."""
    entry = entry_of(name)
    if state_of(entry) == "here" or (entry.packed and place_of(entry).is_file()):
        return place_of(entry)
    source, target = source_of(entry), cleared(entry)
    with bar(progress) as report, alone(target.with_name(f".{entry.file}.lock")):
        if state_of(entry) == "here":  # another process has just brought it
            return target
        part = target.with_name(f".{entry.file}.get")
        resumed = part.exists()
        bring(source, part, entry, report)
        if resumed and not right(part, entry):  # what was left over belonged to another file
            part.unlink()
            bring(source, part, entry, report)
        take(entry, part, target, source)
    return target


def source_of(entry: Entry) -> str:
    """Where the file comes from: the mirror, or its publisher."""
    mirror = os.environ.get(MIRROR)
    if mirror:
        base = mirror.removeprefix("file://")
        return f"{address_of(base)}/{quote(entry.file)}" if "://" in base else str(Path(base) / entry.file)
    if not entry.url:
        raise DataError(f"{entry.name} cannot be downloaded", hint=how_to(entry))
    return entry.url


def address_of(base: str) -> str:
    """The mirror's address without a slash at its end; an error unless it is one."""
    try:
        parts = urlsplit(base)
        whole = bool(parts.hostname and parts.port != 0)  # a number that is no port is a ValueError
    except ValueError:
        whole = False
    if not whole:
        raise DataError("is not an address", where=f"{MIRROR}={base}", hint="http://HOST/FOLDER, or a folder")
    if parts.scheme not in ("http", "https"):
        raise DataError("only http and https addresses, and folders, are supported", where=f"{MIRROR}={base}")
    return quote(base.rstrip("/"), safe=SAFE)


def bring(source: str, part: Path, entry: Entry, report: Report) -> None:
    if "://" in source:
        download(source, part, entry, report)
    else:
        copy(Path(source), part)


def right(part: Path, entry: Entry) -> bool:
    return entry.packed or sha256(part) == entry.sha256


def take(entry: Entry, part: Path, target: Path, source: str) -> None:
    """Put a complete file into its place, or remove it if its bytes are wrong."""
    if not right(part, entry):
        found = sha256(part)
        part.unlink()
        raise DataError(f"sent other bytes than those of {entry.name}: nothing was kept", where=source,
                        hint=f"expected sha256 {entry.sha256}, found {found}")  # fmt: skip
    part.replace(target)


def copy(path: Path, part: Path) -> None:
    if not path.is_file():
        raise DataError(
            "no such file", where=str(path), hint=f"{MIRROR} is a folder with the zoo's files, or an address"
        )
    with replacing(part) as made:
        shutil.copyfile(path, made)


def download(address: str, part: Path, entry: Entry, report: Report) -> None:
    """Fill `part`. Each connection goes on where the last one ended; several without a new byte are an error."""
    vain, most, problem = 0, 0, ""
    while vain < TRIES:
        have = left_over(part, entry)
        try:
            if receive(address, part, have, entry, report):
                return
            problem = "the connection was closed too early"
        except HTTPError as e:
            if e.code in FINAL:
                raise DataError(f"answered {e.code} ({e.reason})", where=address, hint=by_hand(entry)) from e
            if e.code == 416:  # nothing after what is here: a longer leftover of another file
                part.unlink(missing_ok=True)
            problem = f"answered {e.code} ({e.reason})"
        except (URLError, HTTPException, OSError) as e:
            problem = f"failed: {getattr(e, 'reason', None) or e or type(e).__name__}"
        now = part.stat().st_size if part.exists() else 0
        vain, most = (0, now) if now > max(have, most) else (vain + 1, most)
        if vain and vain < TRIES:
            time.sleep(PAUSE * 2 ** (vain - 1))
    raise _failed(address, problem, entry)


def left_over(part: Path, entry: Entry) -> int:
    """Bytes that an earlier connection brought; more than the file has are not its bytes."""
    if part.exists() and part.stat().st_size > entry.bytes:
        part.unlink()
    return part.stat().st_size if part.exists() else 0


def receive(address: str, part: Path, have: int, entry: Entry, report: Report) -> bool:
    """Append what one connection brings; True once the file is complete. More bytes than expected are an error."""
    if have == entry.bytes and not entry.packed:
        return True  # it was cut off just before the check
    request = Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    with urlopen(request, timeout=TIMEOUT) as answer:
        length = answer.headers.get("Content-Length")
        have = begins(answer, have)
        total = have + int(length) if length and length.isdigit() else entry.bytes
        with written(part), part.open("ab") as f:
            f.truncate(have)
        while block := answer.read1(BLOCK):
            have += len(block)
            if have > max(entry.bytes, total if entry.packed else 0):
                part.unlink()
                raise _failed(address, f"sent more than the {entry.bytes:,} bytes of the file", entry)
            with written(part), part.open("ab") as f:
                f.write(block)
            report(f"getting {entry.name} (KB)", have // 1000, total // 1000)
    return have == (total if entry.packed else entry.bytes)


def begins(answer: HTTPResponse, asked: int) -> int:
    """Where in the file the answer's bytes begin: servers may send another part than was asked for."""
    if answer.status != 206:
        return 0
    told = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range") or "")
    first = int(told[1]) if told else asked
    if first > asked:
        raise HTTPException(f"bytes from {first:,} on, not from {asked:,}")
    return first


@contextmanager
def written(part: Path) -> Iterator[None]:
    """What this machine's own disk refuses is no failure of the connection: a second try would not help."""
    try:
        yield
    except OSError as e:
        raise DataError(f"cannot be written: {e.strerror or e}", where=str(part.parent), hint=OWN_DISK) from e


def _failed(address: str, what: str, entry: Entry) -> DataError:
    return DataError(what, where=address, hint=f"the same again, it goes on where it stopped   or   {by_hand(entry)}")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """One process at a time: a second one waits, and then finds the file."""
    import fcntl

    with path.open("w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield
