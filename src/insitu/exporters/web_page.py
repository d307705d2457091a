"""A learner as one page to try it and teach it: the same module as web/ writes, in HTML, opened by a double click."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insitu.exporters.web import check, page
from insitu.exporters.written import Options, Written

if TYPE_CHECKING:
    from insitu.learner import Learner

__all__ = ["check", "write"]


def write(learner: Learner, options: Options) -> Written:
    """The page."""
    return Written(page(learner), ("opens in a browser, without a server; nothing that it is shown leaves it",))
