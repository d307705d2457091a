"""Bias correction: the mean error that rounded weights make is known, so it is taken off the bias.

A rounded weight is off by d = rounded - w; over the calibration data the output of its channel is off by the sum of
d E[x], the same amount on average for every input. Needs the mean of the input a channel, and no second run.
"""

from __future__ import annotations

import numpy as np

from insitu.graph import Op
from insitu.quantizer.weights import Weights, response


def corrected_bias(op: Op, b: np.ndarray, w: np.ndarray, rounded: Weights, mean: np.ndarray, attrs) -> np.ndarray:
    """b minus the mean error of each output channel; `mean` is E[x] a channel of the op's input."""
    return b - response(op, rounded.real - w, mean, attrs)
