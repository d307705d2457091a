"""What is said of a training that did not help: never that more is right and yet it did not help."""

import numpy as np
import pytest

from insitu.learner.advice import diverged
from insitu.learner.fitting import slower_words
from insitu.learner.held_out import Score, change
from insitu.learner.history import History
from insitu.terminal.lines import Lines


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (Score(1.0, 0.4, 50), Score(1.2, 0.2, 50), "40.0% before, 20.0% after"),
        (Score(1.6, 0.2, 50), Score(3.9, 0.4, 50), "20.0% before, 40.0% after, but the loss grew from 1.6 to 3.9"),
        (Score(1.6, 0.2, 5), Score(1.5, 0.4, 5), "40.0% after in a trial, which 5 samples cannot prove"),
        (Score(0.1, 0.1, 5, False), Score(0.2, 0.2, 5, False), "error 0.1 before, error 0.2 after"),
    ],
)
def test_a_result_is_not_contradicted_by_its_numbers(before, after, words):
    assert words in change(before, after)
    if words.endswith("after"):
        assert change(before, after) == words


def test_a_training_that_ends_far_below_guessing_has_not_diverged():
    def history(first: float, *epochs: float) -> History:
        return History(loss=list(epochs), losses=[np.full(100, first)])

    assert not diverged(
        history(0.004, 0.72, 0.025), guessed=1.1, found=False
    )  # the first samples happened to be easy ones
    assert "loss 0.004 to 0.9" in diverged(history(0.004, 0.72, 0.9), guessed=1.1, found=False)
    assert diverged(history(1.1, 20.0, 40.0), guessed=1.1, found=False).endswith("or none to have one found")
    assert diverged(history(1.1, 20.0, 40.0), guessed=1.1, found=True).endswith("more samples, or a smaller rate")


@pytest.mark.parametrize(
    ("losses", "last", "said"),
    [
        ([0.05, 14.5, 3.0, 1.7], 1.7, True),  # it knew its first sample, and was thrown away by the second
        ([0.05, 14.5, 3.0, 1.7], 0.1, False),  # and found back
        ([0.05, 4.5, 3.0, 1.7], 1.7, False),  # it may have been right by chance
        ([1.6, 14.5, 3.0, 1.7], 1.7, False),  # it knew nothing
    ],
)
def test_a_network_thrown_away_in_a_few_epochs_is_said_at_a_rate_that_was_given(losses, last, said):
    history = History(batch=1, loss=[2.4, last], losses=[np.repeat(losses, [1, 9, 45, 45])])
    assert bool(diverged(history, guessed=1.61, found=False)) == said
    assert not said or "training diverged (loss 0.05 to 1.7)" in diverged(history, guessed=1.61, found=False)
    assert not diverged(history, guessed=1.61, found=True)


def test_epochs_of_a_training_that_begins_again_are_told_from_those_before(capsys):
    """They count from 1 again: a log would show the same epoch twice."""
    with Lines() as lines:
        lines.began -= 1  # it takes long enough to be said
        lines("epoch 60 of 60, loss 1.1", 60, 60)
        slower_words(lines)("epoch 25 of 60, loss 0.013", 25, 60)
    said = capsys.readouterr().err.splitlines()
    assert said == ["epoch 60 of 60, loss 1.1 (100 %)", "epoch 25 of 60, loss 0.013, again at lower rates (41 %)"]
