"""Names for as many classes as the model has unnamed outputs: are these its own classes, or others?

The labelled samples tell: if its outputs, with the names in this order, are right more often than guessing, its own
classifier stays, and nothing that it knows is lost. Without labelled samples it stays, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.data import Samples, by_name
from insitu.devices.host import open_host
from insitu.graph import Graph
from insitu.learner.feed import plain, predict_all
from insitu.learner.held_out import guess, no_better, score
from insitu.quantizer import fold
from insitu.training.classes import Classes

MOST = 256  # samples that are looked at
ANEW = 'head_init="zero" starts a new one'


def own_or_new(graph: Graph, chosen: Classes, samples: Samples | None) -> Classes:
    """The same classes with the model's own classifier, or with a new one; a note says which, and why."""
    if not chosen.perhaps:
        return chosen
    order = ", ".join(chosen.names[:6]) + (", ..." if len(chosen.names) > 6 else "")
    if samples is None or samples.labels is None:
        note = f"the model's own classifier stays, its outputs named {order} in this order ({ANEW})"
        return replace(chosen, count=None, note=note)
    known = by_name(samples, chosen.names)
    some = known.take(np.unique(np.linspace(0, len(known) - 1, MOST).astype(int)))
    assert some.labels is not None
    found = score("cross_entropy", predict_all(open_host(fold(graph)), plain(some.inputs))[0][:, 0], some.labels)
    right = f"right for {found.words()} of the samples, with its outputs named {order} in this order"
    if not no_better(found, guess("cross_entropy", some.labels)):
        note = f"the model's own classifier stays: it is {right} ({ANEW})"
        return replace(chosen, count=None, note=note)
    where = 'insitu.load(model, classes=[...]) names them in their own order, head_init="own" keeps it'
    return replace(chosen, note=f"a new head: the model's own classifier is {right}, which is chance ({where})")
