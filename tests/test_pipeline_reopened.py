"""compile() of a learner or its file: what `insitu compile learner.insitu` does, in Python."""

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.errors import DataError, ModelError

from .learners import data, learner, state_of


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A learner that has learned something, and its file."""
    made = learner()
    made.fit(*data(40), epochs=2, rate=0.02)
    return made, made.save(tmp_path_factory.mktemp("learner") / "learned.insitu")


@pytest.mark.parametrize("kind", ["file", "learner"])
def test_it_is_the_same_learner(saved, kind):
    made, path = saved
    found = insitu.compile(path if kind == "file" else made)
    assert found is not made and state_of(found) == state_of(made) and found.names == made.names


def test_it_is_linked_for_a_board_as_the_command_does(saved, tmp_path):
    pytest.importorskip("ziglang")
    _, path = saved
    insitu.compile(str(path), board="nrf52840").write(tmp_path / "python")
    assert main(["compile", str(path), "--board", "nrf52840", "-o", str(tmp_path / "shell")]) == 0
    for name in ("emulator.elf", "src/net.h", "src/net_train_step.c"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "shell" / name).read_bytes(), name


def test_it_may_train_another_scheme(saved):
    made, path = saved
    found = insitu.compile(path, scheme="head")
    assert found.parts.scheme.name == "head" != made.parts.scheme.name
    assert (found.predict(data(8)[0]) == made.predict(data(8)[0])).all()


@pytest.mark.parametrize(
    "options",
    [
        {"classes": 9},
        {"example": np.zeros((1, 6))},
        {"head_init": "zero"},
        {"recipe": insitu.Recipe(loss="mse")},
        {"batch": 2},
        {"rounding": "litert"},
    ],
)
def test_what_would_change_it_is_refused(saved, options):
    with pytest.raises(DataError, match=f"is already compiled: {next(iter(options))} would change it"):
        insitu.compile(saved[1], **options)


def test_what_it_has_anyway_may_be_given(saved, capsys):
    made, path = saved
    found = insitu.compile(path, classes=made.classes, recipe=made.recipe, data=data(8))
    assert state_of(found) == state_of(made)
    found = insitu.compile(path, precision="float", batch=1, head_init="own")
    assert state_of(found) == state_of(made)
    assert main(["compile", str(path), "--precision", "float", "--head-init", "own"]) == 0
    assert main(["compile", str(path), "--precision", "float", "--batch", "2"]) == 1
    assert "--batch would change it" in capsys.readouterr().err


def test_an_int8_learner_does_not_become_a_float_one(tmp_path):
    path = learner(precision="int8", data=data(20)).save(tmp_path / "learned.insitu")
    with pytest.raises(DataError, match="precision would change it"):
        insitu.compile(path, precision="float")


def test_a_learner_is_not_a_model_and_the_error_says_what_to_call(saved):
    with pytest.raises(ModelError, match="is a learner, not a model") as e:
        insitu.load(saved[0])
    assert "insitu.compile(learner" in e.value.hint


def test_a_boards_folder_is_not_a_model_either(tmp_path):
    (tmp_path / "insitu.json").write_text("{}")
    with pytest.raises(ModelError, match="is a board's folder") as e:
        insitu.compile(tmp_path)
    assert "insitu.open(" in e.value.hint
