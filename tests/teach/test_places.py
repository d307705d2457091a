"""Which examples are tested on: never one that was learned from, whatever happens to the folder or the options."""

import dataclasses

import numpy as np
import pytest

from insitu.errors import DataError
from insitu.learner.lesson import KINDS, MARKS, Lesson, mark
from insitu.teach import teach
from insitu.teach.material import kept, look


def folder(root, **counts):
    for name, count in counts.items():
        (root / name).mkdir()
        for k in range(count):
            (root / name / f"{k}.png").write_bytes(b"")
    return root


def with_names(names):
    """The marks of examples whose contents are their names."""
    return np.array([(mark(name), mark(f"contents of {name}")) for name in names], np.uint64)


def test_examples_of_an_earlier_lesson_keep_their_place():
    names, test = ["a", "b", "c", "d"], np.array([True, False, False, True])
    lesson = Lesson().after(with_names(names), test)
    other = np.array([False, True, True, True])  # as another seed would have it
    assert lesson.place(with_names(names), other).tolist() == [True, False, False, True]
    assert lesson.place(with_names(["e", "f"]), np.array([True, False])).tolist() == [True, False]


def test_an_example_is_known_by_its_name_and_by_its_contents():
    lesson = Lesson().after(with_names(["a", "b"]), np.array([False, True]))
    moved = np.array([(mark("elsewhere"), mark("contents of a")), (mark("a"), mark("edited"))], np.uint64)
    assert not lesson.place(moved, np.array([True, True])).any()


def test_a_tiny_class_never_moves_what_was_learned_to_the_test(tmp_path):
    """Without a record, the example that is learned although its mark says otherwise goes back when others come."""
    for seed in range(12):
        root = tmp_path / str(seed)
        root.mkdir()
        folder(root, wave=4, rest=4)
        first = look(root, share=0.7, seed=seed)
        lesson = Lesson(share=0.7, seed=seed).after(first.marks, first.test)
        learned = {file.name + file.parent.name for file, test in zip(first.files, first.test) if not test}
        for k in range(4, 9):
            (root / "wave" / f"{k}.png").write_bytes(b"%d" % k)
        second = look(root, before=lesson)
        tested = {file.name + file.parent.name for file, test in zip(second.files, second.test) if test}
        assert not learned & tested


def test_equal_files_are_all_learned_or_all_tested(tmp_path):
    for name in ("wave", "rest"):
        (tmp_path / name).mkdir()
        for k in range(30):
            (tmp_path / name / f"{k}.png").write_bytes(b"%s %d" % (name.encode(), k % 10))
    found = look(tmp_path)
    for contents in np.unique(found.marks[:, 1]):
        assert len(set(found.test[found.marks[:, 1] == contents])) == 1


def test_a_second_folder_with_other_names_is_not_tested_on_what_was_learned(motion, tmp_path):
    taught = teach(motion)
    for file, test in zip(taught.material.files, taught.material.test):
        if not test:
            (tmp_path / file.parent.name).mkdir(exist_ok=True)
            (tmp_path / file.parent.name / f"again_{file.name}").write_bytes(file.read_bytes())
    further = teach(tmp_path, go_on=taught.learner)
    assert further.tested == 0 and "every example here was learned from" in str(further)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_what_was_kept_for_the_test_stays_there_when_examples_are_added(share):
    labels = np.arange(1000) % 4
    keys = [f"{k}.jpg" for k in range(1000)]
    few = kept(keys[:200], labels[:200], share)
    lesson = Lesson().after(with_names(keys[:200]), few)
    many = lesson.place(with_names(keys), kept(keys, labels, share, each=False))
    assert np.array_equal(few, many[:200])
    assert abs(many[200:].mean() - share) < 0.05


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_every_class_gives_the_same_share_to_the_test(share):
    labels = np.repeat(np.arange(6), [10, 20, 30, 40, 50, 60])
    test = kept([f"{k}.jpg" for k in range(210)], labels, share)
    assert [test[labels == c].sum() for c in range(6)] == [round(share * n) for n in (10, 20, 30, 40, 50, 60)]
    assert len({tuple(np.flatnonzero(kept([f"{s}:{k}" for k in range(210)], labels, share))) for s in range(5)}) == 5


def test_equal_examples_are_on_the_same_side_even_in_two_classes():
    twins = np.array([0, 1, 2, 3, 4, 0, 5, 6, 7, 8])
    for seed in range(20):
        test = kept([f"{seed}:{k}" for k in range(10)], np.repeat([0, 1], 5), 0.4, twins=twins)
        assert test[0] == test[5]


def test_the_smallest_classes_have_examples_on_both_sides():
    for seed in range(20):
        test = kept([f"{seed}:{k}" for k in range(8)], np.repeat([0, 1], 4), 0.2)
        assert 1 <= test[:4].sum() <= 3 and 1 <= test[4:].sum() <= 3


def test_material_that_cannot_be_learned_says_what_is_missing(tmp_path, iris):
    with pytest.raises(DataError, match="no such folder"):
        look(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no subfolders"):
        look(tmp_path)
    (tmp_path / "one").mkdir()
    with pytest.raises(DataError, match="only one class, wave"):
        look(folder(tmp_path / "one", wave=5))
    (tmp_path / "few").mkdir()
    with pytest.raises(DataError, match=r"too few examples of rest \(2\)"):
        look(folder(tmp_path / "few", wave=5, rest=2))
    (tmp_path / "numbers.csv").write_text("\n".join(f"{k},{k / 3}" for k in range(100)))
    assert look(tmp_path / "numbers.csv").kind == "quantities"
    (tmp_path / "numbers.csv").write_text("1,2\n3,4.5\n")
    with pytest.raises(DataError, match="too few examples"):
        look(tmp_path / "numbers.csv")


def test_an_empty_class_folder_is_left_out_with_a_note(tmp_path):
    (tmp_path / "empty").mkdir()
    found = look(folder(tmp_path, wave=5, rest=5))
    assert found.names == ("rest", "wave") and "empty" in found.notes[0]


def test_every_field_of_a_lesson_is_checked_when_it_is_read():
    assert set(KINDS) | set(MARKS) == {field.name for field in dataclasses.fields(Lesson)}
