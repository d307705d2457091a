"""A board's folder is complete, or it is refused: whatever interrupts the writing of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import insitu
from insitu.cli.info import of_folder
from insitu.deploy.folder import MANIFEST, OLD, check_files, hashes, write_files
from insitu.deploy.manifest import read_manifest
from insitu.errors import DataError


def program(word: str, *more: str) -> dict[str, str]:
    files = {f"src/{name}.c": f"{word} {name}" for name in ("net", "kernel", *more)} | {"README.md": word}
    return {**files, MANIFEST: json.dumps({"word": word, "files": hashes(files)})}


def content(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def accepted(folder: Path) -> bool:
    """As `insitu run` reads it: a manifest, and the files that it describes."""
    if not (folder / MANIFEST).is_file():
        return False
    try:
        check_files(folder, json.loads((folder / MANIFEST).read_text())["files"])
    except DataError:
        return False
    return True


class Stopped(BaseException):
    """Like Ctrl-C, or the end of a process."""


def test_a_folder_is_written_over_an_older_one_and_keeps_what_is_not_ours(tmp_path):
    write_files(program("old", "gone", "edited"), tmp_path)
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "src" / "edited.c").write_text("by hand")
    write_files(program("new"), tmp_path)
    assert content(tmp_path) == {**program("new"), "mine.txt": "mine", "src/edited.c": "by hand"}
    assert accepted(tmp_path)


@pytest.mark.parametrize("verb", ["write_bytes", "replace", "unlink"])
def test_a_mix_of_old_and_new_is_never_accepted(verb, tmp_path, monkeypatch):
    """Stopped before every single file operation in turn."""
    whole, real, accepted_at = {"old": program("old", "gone"), "new": program("new")}, getattr(Path, verb), []
    for stop_at in range(100):
        folder, count = tmp_path / str(stop_at), iter(range(1000))
        write_files(whole["old"], folder)

        def stopping(self, *args, count=count, stop_at=stop_at, **named):
            if next(count) == stop_at:
                raise Stopped
            return real(self, *args, **named)

        with monkeypatch.context() as patched:
            patched.setattr(Path, verb, stopping)
            try:
                write_files(whole["new"], folder)
            except Stopped:
                accepted_at.append(accepted(folder))
                if accepted(folder):
                    found = content(folder)
                    assert any(all(found.get(k) == v for k, v in made.items()) for made in whole.values())
            else:
                break
        write_files(whole["new"], folder)
        assert content(folder) == whole["new"]
    assert (1 < stop_at < 99 and not all(accepted_at)) or verb == "write_bytes"


@pytest.mark.parametrize("reads", [insitu.open, insitu.prove, read_manifest, of_folder])
def test_a_folder_that_was_half_written_says_so(reads, tmp_path):
    write_files(program("old"), tmp_path)
    (tmp_path / MANIFEST).replace(tmp_path / OLD)  # as if stopped while files took their places
    with pytest.raises(DataError, match="is half written: that was interrupted\n  try: write it again"):
        reads(tmp_path)


def test_a_file_that_was_changed_is_refused_by_name(tmp_path):
    write_files(program("new"), tmp_path)
    known = json.loads((tmp_path / MANIFEST).read_text())["files"]
    (tmp_path / "README.md").write_text("notes of mine")
    check_files(tmp_path, known)
    (tmp_path / "src" / "net.c").write_text("changed")
    with pytest.raises(DataError, match="net.c: is not the file that insitu.json describes"):
        check_files(tmp_path, known)
