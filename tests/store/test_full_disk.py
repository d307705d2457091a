"""A disk that takes nothing more: every call fails as a whole, and the life goes on with what it had.

Files are limited in size (RLIMIT_FSIZE), which Linux answers with the error of a write; or a bank cannot be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.errors import DataError
from insitu.learner.rows import rows_in_use
from insitu.store.banks import read_banks
from tests.learners import imported
from tests.store.lives import bytes_of, model_of, samples

resource = pytest.importorskip("resource")
X, Y = samples(model_of("mlp head"), 400)
NAMES = ["a", "b", "c", "d"]


def made() -> insitu.Learner:
    return insitu.compile(imported(), classes=NAMES, max_classes=6, scheme="head", precision="float")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def content(one: insitu.Learner) -> tuple:
    life = one.life
    return bytes_of(one), one.names, dict(life.store.ledger.records), life.record.sequence, life.record.bout


def largest(folder: Path) -> int:
    return max(p.stat().st_size for p in folder.iterdir())


def test_a_sample_that_was_not_kept_is_not_counted(tmp_path: Path):
    """It was: a bout then looked for samples that were not in the file."""
    with made() as one:
        one.keep(tmp_path / "life")
        one.observe(X[:100], Y[:100])
        before = content(one)
        with files_of_at_most(largest(tmp_path / "life")):
            with pytest.raises(DataError, match=r"the disk refuses\n.*ulimit"):
                one.observe(X[100:], Y[100:])
            assert content(one) == before and one.statistics()["records"] == 100
        assert one.rehearse(steps=32).finished
        assert one.observe(X[100:], Y[100:])[0] == 101


@pytest.mark.parametrize("bout", [False, True])
def test_a_class_that_could_not_be_forgotten_is_still_there(bout: bool, tmp_path: Path):
    """It was half gone: without a row, and with samples that the next bout learned."""
    with made() as one:
        one.keep(tmp_path / "life")
        one.observe(X[:100], Y[:100])
        one.rehearse(steps=64, seconds=0.0 if bout else None)
        before, abandoned = content(one), one.statistics()["abandoned"]
        with files_of_at_most(1000), pytest.raises(DataError):
            one.forget("b")
        assert content(one) == before and rows_in_use(one)[1] and one.statistics()["abandoned"] == abandoned
        assert one.rehearse(steps=64).finished
        assert one.forget("b") == (Y[:100] == 1).sum() and not rows_in_use(one)[1]
    with made() as again:
        again.keep(tmp_path / "life")
        assert again.names[1] == "" and not any(r.label == 1 for r in again.life.store.ledger.records.values())


def test_what_a_full_disk_did_not_take_is_saved_later(tmp_path: Path):
    with made() as one:
        one.keep(tmp_path / "life")
        one.observe(X[:100], Y[:100])
        old = bytes_of(one)
        with files_of_at_most(1000), pytest.raises(DataError):
            one.rehearse(steps=64)
        state = bytes_of(one)
        assert state != old
    with made() as again:
        again.keep(tmp_path / "life")
        assert bytes_of(again) == state


def test_a_failed_checkpoint_does_not_move_on_to_the_bank_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The store names one bank; two failures in a row, and a cut, left only banks that it did not name."""
    with made() as one:
        life = one.keep(tmp_path / "life")
        one.observe(X[:100], Y[:100])
        named = life.record.sequence
        for _ in range(2):
            with monkeypatch.context() as patch, pytest.raises(DataError, match="no room"):
                patch.setattr(type(life.store), "used", refused)  # the bank is written, the store's transaction fails
                one.rehearse(steps=32)
        assert life.record.sequence == named
        assert named in [point.sequence for point in read_banks(tmp_path / "life")[0]]


def refused(*_: object) -> None:
    raise DataError("there is no room left")


def test_a_class_for_which_the_head_grew_is_not_there_without_room_for_it(tmp_path: Path, monkeypatch):
    one = insitu.compile(imported(), classes=4, scheme="head", precision="float")
    with one:
        life = one.keep(tmp_path / "life")
        one.observe(X[:60], Y[:60])
        one.rehearse(steps=64, seconds=0.0)
        state = one.device.state()["head.weight"]

        def full(*_):
            raise DataError("no space left", where="bank0")

        with monkeypatch.context() as patch, pytest.raises(DataError, match="no space"):
            patch.setattr("insitu.store.life.write_bank", full)
            one.add_class("new")
        assert life.record.bout is None and not life.record.fresh and not any(one.names)
        np.testing.assert_array_equal(one.device.state()["head.weight"][:4], state)
        assert one.rehearse(steps=32).finished
