"""A board's folder on disk: written so that it is never taken for whole while it is half old and half new.

All files are written beside the old ones first. Then the manifest is set aside, the files take their places, those of
an older program go, and the new manifest comes last. A folder without one is not a board's folder, and a file that is
not the one its manifest describes is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from insitu.errors import DataError, ToolError
from insitu.files import check_source
from insitu.terminal.wording import either
from insitu.toolchain.sources import EVERYTHING

MANIFEST = "insitu.json"
LEARNER = "learner.insitu"  # the learner that the folder was written from: insitu prove checks the C against it
STAGE = ".insitu-"  # what a folder is called in which files wait for their places
OLD = ".insitu-old.json"  # the manifest of the program that was here before, until it is gone
LIFE = "store.db"  # in the folder of a life on this machine, which is no board's
OURS = (MANIFEST, OLD, EVERYTHING, f"src/{EVERYTHING}")  # one of them is in every folder that was written here
PROGRAM = ("src/", "emulator.elf", "firmware.", LEARNER)  # what is run: users may change the other files


def check_folder(folder: str | Path, ours: Sequence[str] = OURS, kind: str = "program") -> Path:
    """The folder, if it does not exist, is empty, or has a program of ours (or what else has one of these files): a
    DataError names what else is in it."""
    folder = Path(folder)
    if not folder.is_dir() or any((folder / name).is_file() for name in ours):
        return folder
    there = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if there:
        what = f"has {len(there)} files that are not of a {kind} of insitu, for example {there[0]}"
        raise DataError(what, where=str(folder), hint=f"a new folder, such as {folder / 'build'}")
    return folder


def write_files(files: Mapping[str, str | bytes], folder: str | Path) -> list[Path]:
    """Write these files; one called insitu.json last. Files of other programs must not be in the folder."""
    folder = check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        stage = Path(tempfile.mkdtemp(prefix=STAGE, dir=folder))
        try:
            _staged(files, stage)
            _moved(files, stage, folder)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    except OSError as e:
        raise ToolError(f"cannot be written: {e.strerror or e}", where=str(folder)) from e
    return [folder / name for name in files]


def _staged(files: Mapping[str, str | bytes], stage: Path) -> None:
    for name, content in files.items():
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).write_bytes(as_bytes(content))


def _moved(files: Mapping[str, str | bytes], stage: Path, folder: Path) -> None:
    old = {**_hashes_in(folder / OLD), **_hashes_in(folder / MANIFEST)}
    if MANIFEST in files and (folder / MANIFEST).exists():
        (folder / MANIFEST).replace(folder / OLD)
    for name in sorted(files, key=MANIFEST.__eq__):  # the manifest last
        if name == MANIFEST:
            _removed({k: v for k, v in old.items() if k not in files}, folder)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).replace(folder / name)
    (folder / OLD).unlink(missing_ok=True)


def _removed(old: Mapping[str, str], folder: Path) -> None:
    """Files of the program that was here before, as far as nobody has changed them."""
    for name, known in old.items():
        path = folder / name
        if ".." not in Path(name).parts and path.is_file() and digest(path.read_bytes()) == known:
            path.unlink()


def _sweep(folder: Path) -> None:
    """What an interrupted run left behind."""
    for left in folder.glob(f"{STAGE}*"):
        shutil.rmtree(left, ignore_errors=True)


def _hashes_in(manifest: Path) -> dict[str, str]:
    """What a manifest says of its files; nothing if it cannot be read."""
    with suppress(OSError, ValueError, AttributeError):
        found = json.loads(manifest.read_text()).get("files")
        if isinstance(found, dict):
            return {str(name): str(known) for name, known in found.items()}
    return {}


def hashes(files: Mapping[str, str | bytes]) -> dict[str, str]:
    return {name: digest(as_bytes(content)) for name, content in sorted(files.items())}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def as_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def is_folder(path: str | Path) -> bool:
    """Was a board's program written here, though perhaps not to the end?"""
    check_source(path)
    return any((Path(path) / name).is_file() for name in (MANIFEST, OLD))


def written_again() -> str:
    """How a folder is written anew."""
    how = either(shell="insitu compile MODEL --board NAME -o DIR", python='compile(..., board=NAME).write("DIR")')
    return f"write it again: {how}"


def check_files(folder: Path, known: Mapping[str, str]) -> None:
    """The program's files must be those that the manifest was written with."""
    for name, expected in known.items():
        path = folder / name
        if name.startswith(PROGRAM) and path.is_file() and digest(path.read_bytes()) != expected:
            hint = written_again()
            raise DataError(f"is not the file that {MANIFEST} describes: changed, or from another program",
                            where=str(path), hint=hint)  # fmt: skip
