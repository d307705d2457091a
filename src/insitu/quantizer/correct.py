"""Bias correction: the mean error caused by rounded weights is known, so it is subtracted from the bias.

A rounded weight is off by d = rounded - w; over the calibration data, the output of its channel is off by the sum of
d E[x] on average. This needs the mean of the input per channel, and no second run.
"""

from __future__ import annotations

import numpy as np

from insitu.graph import Op
from insitu.quantizer.weights import Weights, response


def corrected_bias(op: Op, b: np.ndarray, w: np.ndarray, rounded: Weights, mean: np.ndarray, attrs) -> np.ndarray:
    """b minus the mean error of each output channel; `mean` is E[x] per channel of the op's input."""
    return b - response(op, rounded.real - w, mean, attrs)
