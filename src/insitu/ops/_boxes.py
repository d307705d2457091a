"""A box of elements copied between strided places, as in C: merged dimensions, steps in bytes."""

from __future__ import annotations

from math import prod

from insitu.errors import GraphError
from insitu.graph.call import Struct
from insitu.ops._pairs import merge

MAX_RANK = 6


def row_steps(shape) -> list[int]:
    """Elements from one index to the next, for each dimension of a contiguous value."""
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


def box_shape(value, shape, y_steps, x_steps, *, y_at: int = 0, x_at: int = 0) -> Struct:
    """The C struct of a copy of `shape` elements; see box_shape in kernels/shapes.h. Steps and offsets in elements."""
    unit = value.type.numpy.itemsize
    dims = merge(list(zip(shape, y_steps, x_steps))) or [(1, 1, 1)]
    item = unit
    if dims[-1][1:] == (1, 1):  # the innermost run is contiguous in both
        item *= dims.pop()[0]
    dims = dims or [(1, 0, 0)]
    if len(dims) > MAX_RANK:
        raise GraphError(f"{value.type} moves along more than {MAX_RANK} dimensions")
    sizes, ys, xs = zip(*dims)
    return Struct(
        "box_shape", item=item, rank=len(dims), y_offset=y_at * unit, x_offset=x_at * unit,
        size=sizes, y=tuple(s * unit for s in ys), x=tuple(s * unit for s in xs),
    )  # fmt: skip
