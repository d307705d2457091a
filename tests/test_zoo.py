"""The zoo: files are known by their bytes, are added to the cache by hand, and names stand for files."""

import hashlib
from dataclasses import replace

import pytest

import insitu
from insitu.cli import main
from insitu.errors import DataError, ModelError
from insitu.zoo import ENTRIES, add, find, state_of, zoo_folder
from insitu.zoo import cache as zoo_cache

PIPED = b"0123456789" * 1000


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def small(monkeypatch):
    """An entry with known bytes."""
    digest = hashlib.sha256(PIPED).hexdigest()
    entry = replace(ENTRIES["mcunet-5fps"], name="small", file="small.pkl", bytes=len(PIPED), sha256=digest)
    monkeypatch.setitem(ENTRIES, "small", entry)
    return entry


def test_every_entry_says_where_it_comes_from_under_which_licence_and_what_its_bytes_are():
    for name, entry in ENTRIES.items():
        assert entry.name == name and entry.kind in ("model", "data")
        assert entry.address.startswith("https://") and entry.licence and entry.title
        assert len(bytes.fromhex(entry.sha256)) == 32 and entry.bytes > 0
    assert len({e.sha256 for e in ENTRIES.values()}) == len(ENTRIES) == len({e.file for e in ENTRIES.values()})


def test_a_missing_file_is_an_error_that_says_how_to_get_it(small):
    with pytest.raises(DataError) as e:
        find("small")
    assert str(zoo_folder() / "small.pkl") in str(e.value)
    assert small.address in e.value.hint and "insitu zoo add small.pkl" in e.value.hint
    assert "insitu zoo get small" in e.value.hint


def test_a_file_added_by_hand_is_found(small, tmp_path):
    (tmp_path / "download").write_bytes(PIPED)
    assert add(tmp_path / "download").name == "small"  # known by its bytes, whatever its name
    assert find("zoo:small").read_bytes() == PIPED
    assert state_of(small) == "here"


def test_damaged_bytes_are_refused_when_added_and_when_found(small, tmp_path):
    (tmp_path / "damaged").write_bytes(PIPED[:-1] + b"x")
    with pytest.raises(DataError, match="is not small"):
        add(tmp_path / "damaged", "small")
    with pytest.raises(DataError, match="not a file of the zoo"):
        add(tmp_path / "damaged")
    zoo_folder().mkdir(parents=True)
    (zoo_folder() / "small.pkl").write_bytes(PIPED[:-1] + b"x")
    with pytest.raises(DataError, match="does not match"):
        find("small")


def test_a_data_set_that_the_user_packed_may_have_other_bytes(tmp_path):
    (tmp_path / "person.npz").write_bytes(PIPED)
    assert add(tmp_path / "person.npz").name == "person"
    assert find("person").read_bytes() == PIPED
    assert state_of(ENTRIES["person"]) == "other"


def test_data_that_a_package_brings_are_here_without_a_cache():
    pytest.importorskip("seglearn")
    assert state_of(ENTRIES["watch"]) == "here"
    assert find("watch").name == "watch_dataset.npy"


def test_a_name_of_the_zoo_is_loaded_like_a_file(shared_models, tmp_path):
    add(shared_models / "mcunet-5fps.pkl")
    named, direct = insitu.load("zoo:mcunet-5fps"), insitu.load(shared_models / "mcunet-5fps.pkl")
    assert str(named.graph) == str(direct.graph) == str(insitu.load("mcunet-5fps").graph)


def test_the_table_has_the_files_that_the_other_tests_use(shared_models):
    files = {p.name: p for p in shared_models.rglob("*") if p.is_file()}
    known = {e.file: e for e in ENTRIES.values()}
    for name in files.keys() & known.keys():
        assert zoo_cache.sha256(files[name]) == known[name].sha256 and files[name].stat().st_size == known[name].bytes
    assert files.keys() <= known.keys()


def test_a_name_that_is_neither_a_file_nor_in_the_zoo_is_no_such_file():
    with pytest.raises(ModelError, match="no such file"):
        insitu.load("nothing-5fps")
    with pytest.raises(DataError, match="the zoo has no 'nothing'"):
        insitu.load("zoo:nothing")


def test_the_verb_lists_adds_and_checks(small, tmp_path, capsys):
    assert main(["zoo"]) == 0
    assert "small" in capsys.readouterr().out
    assert main(["zoo", "path", "small"]) == 1
    assert "insitu zoo add" in capsys.readouterr().err
    (tmp_path / "download").write_bytes(PIPED)
    assert main(["zoo", "add", str(tmp_path / "download")]) == 0
    assert main(["zoo", "check", "small"]) == 0
    (zoo_folder() / "small.pkl").write_bytes(b"")
    capsys.readouterr()
    assert main(["zoo", "check"]) == 1
    assert "CHECKSUM DIFFERS" in capsys.readouterr().out
