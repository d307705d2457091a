"""How many epochs a training has whose rate came with the model, as that of a compiled Keras model does.

Such a rate goes with batches, often of 32 samples: the usual epochs (settle.py) would be few updates, and a network
that begins with random weights would stop half way. So it has at least UPDATES of them if it knows little, and ends
when nothing is left to learn. Nothing is tried here, and an epoch is never left out that somebody asked for.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from insitu.devices.device import method_of
from insitu.learner.asked import Given
from insitu.learner.choice import MUCH
from insitu.learner.feed import Feed, predict_all
from insitu.learner.held_out import guess, known, score
from insitu.learner.history import History
from insitu.learner.settle import LARGE, LONGER, usual_epochs
from insitu.learner.watch import AGAIN
from insitu.learner.work import MOST as WORK
from insitu.planner.changes.looped import macs
from insitu.terminal.progress import Report

if TYPE_CHECKING:
    from insitu.learner.learner import Learner

UPDATES, MOST = 1000, 200  # enough for Adam's usual rate; epochs to make so many of few samples
NOTHING = 0.01  # loss of every batch: watch.py has a limit for single samples, which hide in a batch's mean


def with_epochs(learner: Learner, feed: Feed, given: Given, report: Report) -> Given:
    """The same with epochs, if the rate came with the model, an update takes several samples, and nobody gave them."""
    if not given.open_ended:
        return given
    usual = usual_epochs(len(feed.source))
    more = min(_more(len(feed.source), given.batch), max(usual, _bearable(learner, feed)))
    knows = more <= usual or _known(learner, feed, report) >= MUCH
    return replace(given, epochs=usual if knows else more)


def _more(count: int, batch: int) -> int:
    """Epochs of so many samples for a network that knows little."""
    usual, updates = usual_epochs(count), ceil(count / batch)
    return max(LONGER * usual if count < LARGE else usual, min(ceil(UPDATES / updates), MOST))


def _bearable(learner: Learner, feed: Feed) -> int:
    """Epochs that take less than a minute on this machine."""
    method = method_of(feed.device.verbs)
    each = sum(map(macs, learner.graphs[method.verb].nodes)) / method.samples
    return int(WORK / max(each * len(feed.source), 1))


def _known(learner: Learner, feed: Feed, report: Report) -> float:
    """How much of its task the network knows, by the samples that it will learn from."""
    source = replace(feed.source, rows=tuple(r[:, :1] for r in feed.source.rows), augment=None)
    outputs = predict_all(feed.device, source, report)[0][:, 0]
    return known(score(learner.recipe.loss, outputs, feed.labels), guess(learner.recipe.loss, feed.labels))


def learned(history: History, loss: str) -> bool:
    """Has a classifier had nothing left to learn for some epochs?"""
    last = history.losses[-AGAIN:]
    return loss == "cross_entropy" and len(last) == AGAIN and all(losses.max() < NOTHING for losses in last)
