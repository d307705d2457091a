"""Small pictures: how large they are, and which of two ways learns them better.

A network that knows photos looks at a small picture enlarged, and knows nothing of digits or signs. So if all pictures
are small, it is compared with a new network that learns the pixels as they are. Nothing here trains (teach.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from insitu.data.images import picture_sizes
from insitu.errors import BudgetError, DataError
from insitu.graph import Graph, Type, Value
from insitu.learner.lesson import Lesson
from insitu.teach.material import Material, kept
from insitu.teach.result import Taught
from insitu.terminal.progress import Report

SMALL = 48  # pixels of the longer side, up to which a picture is small
LARGEST = 64  # pixels of the longer side that a new network looks at
FEWEST = 100  # pictures, from which both ways are compared
HELD_OUT = 0.2

Way = Callable[[Material, Lesson, Any, Report], Taught]  # with who keeps it if it is interrupted, and the progress


def are_small(material: Material) -> bool:
    """Is every picture so small, and are there enough, that a new network may learn them better?"""
    sizes, _ = picture_sizes(material.files)
    return int((~material.test).sum()) >= FEWEST and bool(len(sizes)) and int(sizes.max()) <= SMALL


def frame(material: Material) -> Graph:
    """What a new network looks at: pictures of their usual size, reduced if that is large, grey if all are."""
    sizes, grey = picture_sizes(material.files)
    usual = np.median(sizes, axis=0) if len(sizes) else np.array([LARGEST, LARGEST])
    width, height = (max(1, round(side * min(1.0, LARGEST / usual.max()))) for side in usual)
    return Graph("frame", (Value("pixels", Type("u8", (1, height, width, 1 if grey else 3))),), (), (), {})


def better(material: Material, lesson: Lesson, ways: Mapping[str, Way], report: Report) -> tuple[str, str]:
    """The way that does better on a fifth of the examples to learn from, and a sentence that says so."""
    inner = material.only(np.flatnonzero(~material.test))
    inner = replace(inner, test=kept([f"{lesson.seed}:held:{key}" for key in inner.keys], inner.labels, HELD_OUT))
    found: dict[str, Taught] = {}
    for name, way in ways.items():
        try:
            found[name] = way(inner, lesson, None, _compared(report, len(found) + 1, len(ways)))
        except (BudgetError, DataError):  # no such network is here, or none fits
            continue
    if not found:
        return next(iter(ways)), ""
    best = max(found, key=lambda name: found[name].score)
    scores = ", ".join(f"{made.network} {made.score:.1%}" for made in found.values())
    return best, f"small pictures: two networks were compared on {inner.test.sum():,} examples held out ({scores})"


def _compared(report: Report, number: int, count: int) -> Report:
    """Progress that says which of the networks is meant."""
    return lambda words, done, total: report(f"comparing networks, {number} of {count}: {words}", done, total)
