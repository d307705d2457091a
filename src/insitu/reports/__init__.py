"""What insitu has to say, each as one data class that prints as text and as JSON. Nothing here computes a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from insitu.learner import Learner
    from insitu.planner import Plan


def write_report(learner: Learner, path: str | Path, *, test: Any = None) -> Path:
    """The page about a learner (page.py)."""
    from insitu.reports.page import write_report

    return write_report(learner, path, test=test)


def map_text(plan: Plan) -> str:
    """The memory map of a plan (memory.py)."""
    from insitu.reports.memory import memory_map

    return memory_map(plan).to_text()
