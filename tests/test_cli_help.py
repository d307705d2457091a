"""`--help`: verbs by purpose, and options in groups; and files that are complete or not there."""

from __future__ import annotations

import os

import numpy as np
import pytest

from insitu.cli import PURPOSES, VERBS, main, parser
from insitu.cli.predict import write_outputs
from insitu.errors import DataError


def shown(capsys, *words: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    assert stop.value.code == 0
    return capsys.readouterr().out


def section(text: str, title: str) -> str:
    """The lines below a title, up to the next empty line."""
    return text.split(f"\n{title}:\n")[1].split("\n\n")[0]


def test_every_verb_is_listed_once_under_its_purpose(capsys):
    text = shown(capsys)
    for purpose, verbs in PURPOSES:
        lines = section(text, purpose).splitlines()
        assert [line.split()[0] for line in lines] == [verb.__name__.rpartition(".")[2] for verb in verbs]
    assert len(set(VERBS)) == len(VERBS)


def test_the_first_line_says_what_must_be_given(capsys):
    assert shown(capsys, "train").startswith("usage: insitu train MODEL --data FILE [options]\n")
    assert shown(capsys, "predict").startswith("usage: insitu predict MODEL [FILE ...] [options]\n")


@pytest.mark.parametrize(
    ("verb", "title", "options"),
    [
        ("train", "data", ("--data", "--test", "--split", "--augment")),
        ("train", "what is trained", ("--scheme", "--classes", "--head", "--precision")),
        ("train", "how it is trained", ("--epochs", "--rate", "--batch", "--loss", "--seed")),
        ("train", "board and memory", ("--board", "--sram", "--prefer")),
        ("train", "output", ("-o", "--save-model", "--dump")),
        ("compile", "board and memory", ("--board", "--measure")),
        ("compile", "output", ("-o", "--dump")),
        ("run", "board and memory", ("--on", "--timeout")),
        ("run", "how it is trained", ("--epochs", "--rate")),
        ("predict", "output", ("-o", "--top")),
        ("predict", "what is trained, with --state: as in training", ("--scheme", "--classes")),
    ],
)
def test_options_are_grouped(capsys, verb, title, options):
    text = section(shown(capsys, verb), title)
    assert [name for name in options if f"\n  {name} " not in f"\n{text}"] == []


@pytest.mark.parametrize("verb", ["train", "compile", "run", "predict"])
def test_no_option_is_left_outside_a_group(capsys, verb):
    lines = section(shown(capsys, verb), "options").splitlines()
    assert [line.split()[0].strip(",") for line in lines if line.startswith("  -")] == ["-h", "--json"]


def test_predictions_that_cannot_be_written_leave_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "y.npz"
    path.write_bytes(b"old")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(DataError, match="No space left"):
        write_outputs(path, {"y": np.zeros(3)})
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("verb", ["predict", "prove", "demo"])
def test_an_output_that_is_a_pipe_is_refused_before_the_work(tmp_path, verb, capsys):
    os.mkfifo(tmp_path / "pipe")
    words = [verb, *([] if verb == "demo" else ["m.onnx"]), "-o", str(tmp_path / "pipe")]
    with pytest.raises(SystemExit):
        parser().parse_args(words)
    assert "device, pipe or socket" in capsys.readouterr().err
