"""Where insitu keeps its own files on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`INSITU_CACHE`, or the user's cache folder."""
    root = os.environ.get("INSITU_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "insitu"
    return Path(root)
