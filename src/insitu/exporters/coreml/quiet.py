"""coremltools without its remarks: it logs warnings at import about packages nobody asked it to convert, and prints."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Without what coremltools prints."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def coremltools() -> Any:
    logging.getLogger("coremltools").setLevel(logging.ERROR)
    with silent():
        import coremltools as ct
    return ct
