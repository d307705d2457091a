"""Bias correction: the mean error caused by rounded weights is known, so it is subtracted from the bias.

A rounded weight is off by d = rounded - w; over the calibration data, the output of its channel is off by the sum of
d E[x] on average. This needs the mean of the input per channel, and no second run.

A layer without a bias gets one with only the correction. It is marked, because it is not a parameter of the model.
"""

from __future__ import annotations

import numpy as np

from insitu.graph import Builder, Graph, Op, Value
from insitu.quantizer.weights import Weights, response

CORRECTION = ":correction"  # what the model's own parameters cannot be named


def corrected_bias(op: Op, b: np.ndarray, w: np.ndarray, rounded: Weights, mean: np.ndarray, attrs) -> np.ndarray:
    """b minus the mean error of each output channel; `mean` is E[x] per channel of the op's input."""
    return b - response(op, rounded.real - w, mean, attrs)


def mark_correction(builder: Builder, bias: Value) -> None:
    """Record that this bias is not the model's own."""
    builder.parameters[bias.name] = f"{bias.name}{CORRECTION}"


def is_correction(graph: Graph, bias: str) -> bool:
    return graph.parameters.get(bias) == f"{bias}{CORRECTION}"
