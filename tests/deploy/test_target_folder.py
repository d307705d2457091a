"""A program is never mixed with other files: its folder is new, empty, or has an older program."""

import pytest

from insitu.cli import main
from insitu.deploy.folder import check_folder, write_files
from insitu.errors import DataError

FILES = {"kernels.h": "", "net.c": "int x;"}


def test_a_folder_of_photos_is_refused_before_anything_is_compiled(tmp_path, capsys):
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="1 files that are not of a program"):
        write_files(FILES, tmp_path)
    for verb in (["compile", "nowhere.onnx", "-o"], ["teach", "nowhere", "--build"]):
        with pytest.raises(SystemExit):
            main([*verb, str(tmp_path)])
        assert "for example photo.jpg" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_an_older_program_is_replaced_and_files_beside_it_stay(tmp_path):
    write_files(FILES, tmp_path / "new")
    (tmp_path / "new" / "main.c").write_text("mine")
    write_files({**FILES, "net.c": "int y;"}, tmp_path / "new")
    assert (tmp_path / "new" / "net.c").read_text() == "int y;"
    assert (tmp_path / "new" / "main.c").read_text() == "mine"


def test_a_folder_that_is_empty_but_for_hidden_files_is_taken(tmp_path):
    (tmp_path / ".gitignore").write_text("*")
    assert check_folder(tmp_path) == tmp_path
