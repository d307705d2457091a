"""A warning of a public call points at the line that called."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from torch import nn

import insitu


def test_a_warning_points_at_the_line_of_the_caller():
    net = nn.Sequential(nn.Linear(4, 3)).eval()
    with pytest.warns(insitu.LearningWarning) as said:
        made = insitu.compile(net, example=np.zeros((1, 4), np.float32), data=np.zeros((8, 4), np.float32))
        first = sys._getframe().f_lineno - 1
        made.fit(np.zeros((8, 4), np.float32), [0] * 8, epochs=1)
    assert {(w.filename, w.lineno) for w in said} == {(__file__, first), (__file__, first + 2)}
