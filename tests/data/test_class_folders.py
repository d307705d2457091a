"""Which subfolders are classes: not what other systems leave, and not the parts of a data set."""

from pathlib import Path

import pytest

from insitu.cli import main
from insitu.data.class_folders import class_folders
from insitu.errors import DataError
from insitu.teach.material import look


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
