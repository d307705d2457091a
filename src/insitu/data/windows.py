"""A recording in windows that overlap. Nothing here knows labels or files (reading.py, teach/)."""

from __future__ import annotations

import numpy as np

from insitu.errors import DataError


def windows(recording: np.ndarray, length: int, overlap: float = 0.5) -> np.ndarray:
    """[count, length, channels] of [times, channels]; neighbours share `overlap` of their length."""
    if not 0 <= overlap < 1:
        raise DataError(f"overlap must be from 0 to below 1, not {overlap}")
    step = max(round(length * (1 - overlap)), 1)
    found = [recording[k : k + length] for k in range(0, len(recording) - length + 1, step)]
    return np.stack(found) if found else np.zeros((0, length, recording.shape[1]), recording.dtype)
