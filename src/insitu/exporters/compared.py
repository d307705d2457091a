"""How a written file's results compare with the learner's own, as numbers and words."""

from __future__ import annotations

import numpy as np

FAR = 0.25  # a file whose outputs are further off than this share of the largest is wrong, whatever its rounding


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference, as a share of the largest number wanted."""
    a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return float(np.max(np.abs(a - b), initial=0.0) / max(np.max(np.abs(b), initial=0.0), 1e-6))


def equal_words(unequal: int, total: int) -> str:
    return f"all {total:,} int8 values equal" if not unequal else f"{unequal:,} of {total:,} int8 values differ"
