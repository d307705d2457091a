"""scikit-learn's 8x8 handwritten digits, as the demo's network takes them; and the path of that network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from insitu.errors import needs

TARGET = Path(__file__).parent / "digits.onnx"
TEST = 450  # the last samples: from other writers than the first


@dataclass(frozen=True, eq=False)
class Digits:
    x_train: np.ndarray  # float32[N, 1, 8, 8], 0..1
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def digits() -> Digits:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise needs("scikit-learn", "demo", "the demo's data set") from None
    data = load_digits()
    x = (data.images / 16).astype(np.float32)[:, None]  # type: ignore[attr-defined]
    y = data.target.astype(np.int64)  # type: ignore[attr-defined]
    return Digits(x[:-TEST], y[:-TEST], x[-TEST:], y[-TEST:])
