"""Names for the types of rules' parameters. No op is declared here."""

from __future__ import annotations

import numpy as np

from insitu.graph import Type, Value

Array = np.ndarray
Ints = tuple[int, ...]
Pair = tuple[int, int]  # (height, width)
Padding = tuple[int, int, int, int]  # (top, bottom, left, right)
Masked = Value | tuple[Value, ...]  # a result, or with the mask of its clamp beside it
Out = Type | tuple[Type, ...] | None  # what `out=` may be: the type a caller wants, with a mask's beside it
