"""The `stripes` rules that many ops share: the input rows that a row of the output needs. No op is declared here."""

from __future__ import annotations

from insitu.graph import Value
from insitu.graph.loops import Rows


def windowed(kernel: int, stride, padding, dilation=(1, 1)) -> tuple[Rows]:
    """The first input under a window that moves down; the other inputs are read whole."""
    return (Rows(kernel, stride[0], dilation[0], padding[0]),)


def conv_rows(y: Value, x: Value, w: Value, *others: Value, stride, padding, dilation) -> tuple[Rows]:
    """Weights [O,KH,KW,C]."""
    return windowed(w.shape[1], stride, padding, dilation)


def depthwise_rows(y: Value, x: Value, w: Value, *others: Value, stride, padding, dilation) -> tuple[Rows]:
    """Weights [KH,KW,O]."""
    return windowed(w.shape[0], stride, padding, dilation)


def pool_rows(y: Value, x: Value, *, kernel, stride, padding, dilation=(1, 1)) -> tuple[Rows]:
    return windowed(kernel[0], stride, padding, dilation)


def alike(y: Value, *inputs: Value) -> tuple[Rows | None, ...] | None:
    """Row i needs row i. An input that is the same for all rows is read whole; None if the first axes are not rows."""
    if len(y.shape) != 4:
        return None
    found: list[Rows | None] = []
    for v in inputs:
        if len(v.shape) == 4 and v.shape[1] == y.shape[1]:
            found.append(Rows())
        elif len(v.shape) < 3 or v.shape[-3] == 1:
            found.append(None)
        else:
            return None
    return tuple(found)
