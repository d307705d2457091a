"""Which subfolders are classes: not what other systems leave, and not the parts of a data set."""

import os
from pathlib import Path

import pytest

from insitu.cli import main
from insitu.data import read_samples
from insitu.data.class_folders import class_folders
from insitu.data.sound import read_wav
from insitu.data.tables import read_table
from insitu.errors import DataError
from insitu.files import files_in
from insitu.teach.material import look

from .test_reading import PICTURE


def folders(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True)
    return root


def names(path: Path) -> list[str]:
    return [p.name for p in class_folders(path)]


def test_folders_that_other_systems_leave_are_no_classes(tmp_path):
    made = folders(tmp_path, "cat", "dog", "__MACOSX/cat", "@eaDir", "System Volume Information", ".git")
    assert names(made) == ["cat", "dog"]


@pytest.mark.parametrize("parts", [("train", "test"), ("Training", "Valid"), ("train", "val", "test"), ("train",)])
def test_the_parts_of_a_data_set_are_not_learned_as_classes(parts, tmp_path):
    made = folders(tmp_path, *(f"{part}/{name}" for part in parts for name in ("cat", "dog")))
    with pytest.raises(DataError, match=f"parts of a data set, not classes.*\n.*{made / parts[0]}"):
        class_folders(made)
    assert names(made / parts[0]) == ["cat", "dog"]


@pytest.mark.parametrize("classes", [("bus", "train"), ("test", "val"), ("test", "train")])
def test_classes_that_are_called_so_are_classes(classes, tmp_path):
    assert names(folders(tmp_path, *classes)) == sorted(classes)


def test_every_verb_that_takes_a_folder_says_so(tmp_path, capsys):
    made = folders(tmp_path, "train/cat", "train/dog", "test/cat")
    (made / "train" / "cat" / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match="parts of a data set"):
        look(made)
    assert main(["info", str(made)]) == 1
    assert str(made / "train") in capsys.readouterr().err


def photos(root: Path, *files: str) -> Path:
    Image = pytest.importorskip("PIL.Image")
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(root / name)
    return root


def refuse(monkeypatch, place: Path) -> None:
    """This folder cannot be listed, as if it were another user's; the tests may run as root, who may do everything."""
    listed = os.scandir

    def refused(path):
        if Path(path) == place:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refused)


def test_a_folder_that_cannot_be_read_is_not_left_out_silently(tmp_path, monkeypatch):
    made = photos(tmp_path, "cat/1.png", "cat/more/2.png", "dog/3.png")
    refuse(monkeypatch, made / "cat" / "more")
    with pytest.raises(DataError, match="more: cannot be read: Permission denied"):
        files_in(made)


def test_a_hidden_folder_need_not_be_readable(tmp_path, monkeypatch):
    made = photos(tmp_path, "cat/1.png", "lost+found/2.png")
    refuse(monkeypatch, made / "lost+found")
    assert [p.name for p in files_in(made)] == ["1.png"]


def test_links_to_photos_that_are_gone_are_left_out_with_the_reason(tmp_path):
    made = photos(tmp_path, *(f"{name}/{k}.png" for name in ("cat", "dog") for k in range(5)))
    (made / "cat" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    assert len(look(made)) == 11
    found = read_samples(made, PICTURE)
    assert len(found) == 10 and "cat/gone.png (cannot be read: No such file or directory)" in found.notes[0]


@pytest.mark.parametrize("suffix", [".csv", ".wav"])
def test_a_recording_that_is_gone_is_an_error_of_ours(suffix, tmp_path):
    gone = tmp_path / f"gone{suffix}"
    with pytest.raises(DataError, match="cannot be read: No such file"):
        {".csv": read_table, ".wav": read_wav}[suffix](gone)
