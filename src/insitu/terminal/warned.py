"""Warnings that point at the user's own line, however many calls of insitu are in between."""

from __future__ import annotations

import sys
import warnings

from insitu.errors import LearningWarning


def warn(words: str) -> None:
    """A LearningWarning at the line outside insitu that made the call."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "insitu":
        level, frame = level + 1, frame.f_back
    warnings.warn(words, LearningWarning, stacklevel=level)
