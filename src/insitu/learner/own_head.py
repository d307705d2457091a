"""As many classes as the model has outputs, by number or with names for unnamed ones: are these its own, or others?

The labelled samples tell: if its outputs, with the names in this order or in another one, are right more often than
guessing, its own classifier stays, and nothing that it knows is lost. Without labelled samples it stays, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.data import Samples, check_labels
from insitu.data.labels import matched, numbered_classes
from insitu.devices.host import open_host
from insitu.graph import Graph
from insitu.graph.classes import listed
from insitu.learner.feed import plain, predict_all
from insitu.learner.held_out import guess, known, no_better, score
from insitu.quantizer import fold
from insitu.terminal.wording import either, option
from insitu.training.classes import Classes

LOOKED_AT = 256  # samples
KNOWN = 0.25  # of the way from guessing to no mistakes: a number says less than names do
SURE, FEW = 2 / 3, 3  # the share that must be right, and samples per class, to believe in another order


def anew() -> str:
    return f"{option(head_init='zero')} starts a new one"


def own_or_new(graph: Graph, chosen: Classes, samples: Samples | None) -> Classes:
    """The same classes with the model's own classifier, or with a new one; a note says which, and why."""
    if not chosen.perhaps:
        return chosen
    if not numbered_classes(samples):
        note = f"the model's own classifier stays, its outputs named {listed(chosen.names, 6)} in this order ({anew()})"
        return replace(chosen, count=None, note=note)
    assert samples is not None
    all_of = check_labels(matched(samples, chosen.names), graph.outputs[0].shape[-1])
    some = all_of.take(np.unique(np.linspace(0, len(all_of) - 1, LOOKED_AT).astype(int)))
    assert some.labels is not None
    out = predict_all(open_host(fold(graph)), plain(some.inputs))[0][:, 0]
    order = _order(out, some.labels) if chosen.perhaps == "in any order" else list(range(out.shape[1]))
    found, guessed = score("cross_entropy", out[:, order], some.labels), guess("cross_entropy", some.labels)
    as_given = order == list(range(len(order)))
    names = tuple(chosen.names[order.index(k)] for k in range(len(order))) if any(chosen.names) else ()
    named = f"with its outputs named {listed(names, 6)} in this order, " if names else ""
    right = f"{named}it is right for {found.words()} of the samples"
    right_enough = known(found, guessed) >= KNOWN if chosen.perhaps == "by number" else not no_better(found, guessed)
    if (as_given and right_enough) or (found.measure >= SURE and min(np.bincount(some.labels)) >= FEW):
        return replace(chosen, count=None, names=names, note=f"the model's own classifier stays: {right} ({anew()})")
    names_it = either(shell="--classes NAME,NAME,...", python="insitu.load(model, classes=[...])")
    how = f"{f'{names_it} names its outputs, ' if names else ''}{option(head_init='own')} keeps it"
    return replace(chosen, note=f"a new head: the model's own classifier only guesses ({right}; {how})")


def _order(out: np.ndarray, labels: np.ndarray) -> list[int]:
    """For each class the output that stands for it in these samples; its own place, if that is not clear."""
    classes = out.shape[1]
    counts = np.zeros((classes, classes), int)  # [class, output that is the largest]
    np.add.at(counts, (labels, out.argmax(1)), 1)
    order = counts.argmax(1).tolist()
    return order if sorted(order) == list(range(classes)) else list(range(classes))


def named_by_outputs(out: np.ndarray, data: Samples) -> Samples:
    """The samples with their names given to the outputs that already stand for them.

    `out`: outputs for the samples of a model that has no names yet. If they are clear for every class among the
    samples, the names follow them; else the names stay in the order that they were found in.
    """
    assert data.labels is not None
    seen, classes = np.unique(data.labels), out.shape[1]
    found = {int(k): np.bincount(out[data.labels == k].argmax(1), minlength=classes) for k in seen}
    own = {k: int(counts.argmax()) for k, counts in found.items()}
    clear = all(counts.max() >= SURE * counts.sum() for counts in found.values()) and len(set(own.values())) == len(own)
    if not clear or not np.ptp(out, axis=1).any():  # a head of zeros knows nothing
        return data
    rest = iter(sorted(set(range(classes)) - set(own.values())))
    places = [own[k] if k in own else next(rest) for k in range(classes)]
    names = tuple(data.names[places.index(k)] for k in range(classes))
    return replace(data, names=names, labels=np.array(places, data.labels.dtype)[data.labels])
