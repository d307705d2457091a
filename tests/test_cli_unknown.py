"""What the command line says about options it does not have."""

from __future__ import annotations

import pytest

from insitu.cli import main


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
