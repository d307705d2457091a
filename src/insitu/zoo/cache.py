"""The zoo's files: where each is, whether its checksum is right, and how to add one by hand."""

from __future__ import annotations

import hashlib
import shutil
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from insitu.errors import DataError
from insitu.files import cache_folder, check_target, replacing
from insitu.terminal.wording import meant
from insitu.zoo.entries import ENTRIES, Entry

PREFIX = "zoo:"
BLOCK = 1 << 20
OTHER = "INSITU_CACHE names another folder"


def zoo_folder() -> Path:
    return cache_folder() / "zoo"


def entry_of(name: str) -> Entry:
    word = str(name).removeprefix(PREFIX)
    if word not in ENTRIES:
        raise DataError(f"the zoo has no {word!r}{meant(word, ENTRIES)}", hint=", ".join(ENTRIES))
    return ENTRIES[word]


def place_of(entry: Entry) -> Path:
    """The path of the file, whether it exists or not."""
    return (entry.package and _packaged(entry)) or zoo_folder() / entry.file


def _packaged(entry: Entry) -> Path | None:
    """The file inside the package that brings it, if that is installed."""
    try:
        found = [f for f in files(entry.package) or () if f.name == entry.file]
    except PackageNotFoundError:
        return None
    return Path(str(found[0].locate())) if found else None


def cleared(entry: Entry) -> Path:
    """Where the file is put into the cache, whose folder is made; an error if it cannot be written there."""
    try:
        zoo_folder().mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DataError(f"cannot be made: {e.strerror or e}", where=str(zoo_folder()), hint=OTHER) from e
    return check_target(zoo_folder() / entry.file)


def state_of(entry: Entry) -> str:
    """`here`, `missing`, or `other`: here, but with other bytes than the known ones."""
    path = place_of(entry)
    if not path.is_file():
        return "missing"
    same = path.stat().st_size == entry.bytes and sha256(path) == entry.sha256
    return "here" if same else "other"


def find(name: str) -> Path:
    """The verified file of an entry; if it is missing or damaged, an error that says how to get it."""
    entry = entry_of(name)
    state, path = state_of(entry), place_of(entry)
    if state == "missing":
        raise DataError(f"the zoo's {entry.name} is not in the cache", where=str(path), hint=how_to(entry))
    if state == "other" and not entry.packed:
        raise DataError(f"does not match {entry.name}: damaged, or another version", where=str(path),
                        hint=f"{how_to(entry)}\n       sha256 {entry.sha256}")  # fmt: skip
    return path


def how_to(entry: Entry) -> str:
    """How the user can get the file into the cache."""
    if entry.package:
        return f"pip install {entry.package}"
    if entry.url:
        return f"insitu zoo get {entry.name} ({entry.bytes:,} bytes), or {by_hand(entry)}"
    steps = f"get {entry.file} ({entry.bytes:,} bytes) from {entry.address}"
    made = "make" if entry.packed else "at"
    return f"{steps}\n       {made}: {entry.where}\n       then: insitu zoo add {entry.file}"


def by_hand(entry: Entry) -> str:
    return f"get {entry.url or entry.address} in another way, then: insitu zoo add {entry.file}"


def add(path: str | Path, name: str | None = None) -> Entry:
    """Copy a file into the cache. The entry is found by its checksum, or by name if the user packed the file."""
    path = Path(path)
    if not path.is_file():
        raise DataError("no such file", where=str(path))
    entry = entry_of(name) if name else _known(path)
    if not entry.packed and sha256(path) != entry.sha256:
        raise DataError(f"is not {entry.name}: its sha256 is {sha256(path)}", where=str(path),
                        hint=f"sha256 {entry.sha256}")  # fmt: skip
    with replacing(cleared(entry)) as part:
        shutil.copyfile(path, part)
    return entry


def _known(path: Path) -> Entry:
    digest = sha256(path)
    by_bytes = [e for e in ENTRIES.values() if e.sha256 == digest]
    by_name = [e for e in ENTRIES.values() if e.packed and e.file == path.name]
    if not by_bytes and not by_name:
        raise DataError(f"is not a file of the zoo: its sha256 is {digest}", where=str(path), hint="insitu zoo")
    return (by_bytes or by_name)[0]


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as f:
        while block := f.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
