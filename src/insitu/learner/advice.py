"""What to say about a training: what may help if it did not, and whether its samples or its rate were at fault.

Whether a training is kept or undone is decided elsewhere (watch.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from insitu.graph import Value
from insitu.learner.held_out import odd
from insitu.learner.history import History
from insitu.learner.trials import only_head
from insitu.terminal.wording import Caller, either, option
from insitu.training.train import Recipe

DIVERGED = 1.5  # times the loss of the first samples
MOSTLY = 0.8  # of all samples: a class with as many hides the others
FAR_BELOW = 0.5  # of the loss of guessing: whatever ends there has not diverged
GUESSING, SOME = 0.98, 3  # of that loss: whatever ends there after some epochs knows nothing
THROWN = 8  # times that loss: a sample's, if a step has thrown away what the network knew


def advice(parameters: tuple[Value, ...], recipe: Recipe, deeper: bool = True) -> str:
    """What to try if these parameters did not learn with this recipe. deeper: are there layers that did not learn?"""
    if Caller.teaches:
        return "more examples, and such that differ more"
    if only_head(parameters) and not deeper:
        return "more samples, a network with more layers or a rate of your own"
    if only_head(parameters):
        return f"more samples, a scheme that trains more layers ({option(scheme='last:4')}) or a rate of your own"
    if any(v.dtype == "s8" for v in parameters):
        way = option(precision="float", batch=8, optimizer="adam")
        return f"more samples, another arithmetic ({way}) or a rate of your own"
    adam = "" if recipe.optimizer == "adam" else f"Adam ({option(batch=8, optimizer='adam')}), "
    return f"more samples, {adam}another scheme or a rate of your own"


def same_rows(x: np.ndarray) -> bool:
    return bool((x == x[:1]).all())


def nothing_to_tell(labels: np.ndarray, inputs: Sequence[np.ndarray]) -> str:
    """The message if nothing can be told apart: all samples belong to one class, or are the same. A classifier that
    learned from them would only learn to give one answer."""
    if len(labels) > 1 and inputs and all(same_rows(x[:2]) and same_rows(x) for x in inputs):  # two tell most at once
        return "all samples are the same"
    if labels.dtype.kind != "i" or (labels != labels[:1]).any():
        return ""
    return "all samples belong to one class" if len(labels) > 1 else "there is only one sample"


def others() -> str:
    """What to give in place of samples of one class."""
    several = "Give samples of several classes together"
    return either(shell=several, python=f"{several}; partial_fit(x, y) learns from one class, carefully")


def same_answer(labels: np.ndarray) -> str:
    """The message if there is only one target."""
    if labels.dtype.kind == "i" or (labels != labels[:1]).any():
        return ""
    return "all targets are the same: so will be all answers" if len(labels) > 1 else "there is only one sample"


def most_common(labels: np.ndarray) -> int:
    """The class with the most samples."""
    return int(np.bincount(labels).argmax())


def one_for_all(labels: np.ndarray) -> str:
    """The message if nearly all samples are of one class and a network answers it to all of them."""
    if labels.dtype.kind != "i" or labels.ndim > 1 or not len(labels):
        return ""
    counts = np.bincount(labels)
    most, classes = int(counts.max()), int((counts > 0).sum())
    if classes < 2 or most < MOSTLY * len(labels):
        return ""
    what = f"{most} of {len(labels)} samples are of class {counts.argmax()}: that answer to all is right for"
    mean = f"but its balanced accuracy (the mean over the classes) is {1 / classes:.1%}"
    return f"{what} {most / len(labels):.1%} of them, {mean}. Give more samples of the others, or fewer of this one"


def odd_targets(labels: np.ndarray) -> str:
    """The message if a few targets are far from all others."""
    if labels.dtype.kind == "i" or not len(labels):
        return ""
    rows = labels.reshape(len(labels), -1)
    count = int(odd(rows.astype(np.float64)).any(1).sum())
    what = f"{count} of {len(rows)} samples have a target that is far from nearly all others"
    return f"{what}: they were learned from, but not chosen by. Are they right?" if count else ""


def _thrown_away(history: History, guessed: float) -> bool:
    """Did a network that knew its first samples lose all of it in a few steps, and end where guessing is?"""
    losses = history.losses[0]
    knew = float(np.mean(losses[: history.batch])) < FAR_BELOW * guessed
    return knew and float(np.max(losses)) > THROWN * guessed and history.loss[-1] >= GUESSING * guessed


def diverged(history: History, guessed: float, found: bool) -> str:
    """The message if training diverged: the last epoch's loss is far above that of the first samples, and no longer
    far below that of guessing; or, at a rate that was given, it ends where guessing is. found: was its rate found?
    """
    if not history.loss or history.restored:
        return ""
    thrown = not found and _thrown_away(history, guessed)
    early = history.batch if thrown else max(8, len(history.losses[0]) // 20)
    first, last = float(np.mean(history.losses[0][:early])), history.loss[-1]
    steady = bool(np.isfinite((first, last)).all()) and last <= max(DIVERGED * first + 1e-6, FAR_BELOW * guessed)
    guesses = not found and (thrown or len(history.loss) >= SOME) and last >= GUESSING * guessed
    if steady and not guesses:
        return ""
    what = f"training diverged (loss {first:.3g} to {last:.3g})"
    if steady:
        what = f"nothing was learned (loss {last:.3g}, as if guessing)"
    if Caller.teaches:
        return f"{what}: more examples may help"
    return f"{what}: {'more samples, or a smaller rate' if found else 'a smaller rate, or none to have one found'}"
