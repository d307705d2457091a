"""Names for the types of rules' parameters. No op is declared here."""

from __future__ import annotations

import numpy as np

from insitu.graph import Type, Value

Array = np.ndarray
Ints = tuple[int, ...]
Pair = tuple[int, int]  # (height, width)
Padding = tuple[int, int, int, int]  # (top, bottom, left, right)
Masked = Value | tuple[Value, ...]  # a result, or a result with the mask of its clamp
Out = Type | tuple[Type, ...] | None  # values of `out=`: the type that a caller wants, or a tuple with a mask's type
