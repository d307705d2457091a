"""What the command line says about options it does not have."""

from __future__ import annotations

import pytest

import insitu
from insitu.cli import main
from insitu.learner.lesson import Lesson
from insitu.teach import teach

from .learners import learner


def test_an_unknown_option_points_to_the_help_of_its_verb(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["run", "build", "--samples", "3"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "insitu run: unknown: --samples 3\n  try: insitu run --help\n"


@pytest.mark.parametrize(
    "words, near",
    [(["train", "m.onnx", "--data", "x", "--epoch5", "3"], "--epochs"), (["fleet", "report", "x", "--jsn"], "--json")],
)
def test_a_slip_of_the_pen_is_told(words, near, capsys):
    with pytest.raises(SystemExit):
        main(words)
    assert f"did you mean {near}?" in capsys.readouterr().err


@pytest.mark.parametrize("word, said", [("tech", " (did you mean teach?)"), ("xyzzy", "")])
def test_an_unknown_verb_is_told_with_the_nearest_one(word, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([word, "icons"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"insitu: there is no verb {word!r}{said}\n  try: insitu --help\n"


@pytest.mark.parametrize("word, said", [("evaluate", "insitu predict FILE --data TEST"), ("fit", "insitu teach DATA")])
def test_a_verb_of_other_tools_is_told_with_the_command_here(word, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([word, "m.insitu"])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_an_unknown_board_is_told_with_the_nearest_one(capsys):
    assert main(["teach", "icons", "--board", "nrf52804"]) == 1
    assert "there is no board 'nrf52804' (did you mean nrf52840?)" in capsys.readouterr().err


def test_a_learner_that_goes_on_also_says_that_there_is_no_such_board():
    made = insitu.Learner.__new__(insitu.Learner)
    made.lesson = Lesson(board="nrf52840")
    with pytest.raises(insitu.BoardError, match="did you mean nrf52840"):
        teach("icons", board="nrf52804", go_on=made)


def test_a_folder_without_examples_is_an_error_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    learner().save("learned.insitu")
    (tmp_path / "empty").mkdir()
    capsys.readouterr()  # the notes of the learner
    for name in ("nowhere", "empty"):
        assert main(["teach", name]) == 1
        said = capsys.readouterr().err
        assert "DataError" in said.splitlines()[0] and "going on" not in said
