"""Every example runs, and prints something; what a user gets without choosing is no worse than what is chosen."""

import runpy
from pathlib import Path

import pytest

import insitu

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_the_example_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_a_model_of_ones_own_learns_no_less_with_auto_than_with_its_head_alone(capsys):
    """One task with fixed seeds, 997 test samples. (last:2 learns more here: docs/schemes.md says where and why.)"""
    own = runpy.run_path(str(next(path for path in EXAMPLES if path.stem == "08_own_model")))
    assert "scheme auto: " in capsys.readouterr().out
    x, y = own["seen"], own["labels"]

    def right(learner) -> float:
        return learner.evaluate(x[800:], y[800:])["accuracy"]

    def with_scheme(scheme: str) -> float:
        learner = insitu.compile(own["net"], data=x[600:800], scheme=scheme)
        learner.fit(x[600:800], y[600:800])
        return right(learner)

    auto = right(own["learner"])
    assert auto > own["before"]["accuracy"] and auto >= with_scheme("head")


def test_there_are_examples():
    assert EXAMPLES
