"""Two operands that broadcast, as the C walks them: rows of elements, and the step of each operand between rows."""

from __future__ import annotations

from math import prod

from insitu.errors import GraphError
from insitu.graph.call import Struct

MAX_RANK = 6  # of the walk after merging, including the row itself


def over_equal(y, *rest) -> int | None:
    """in_place: over the first input with the output's shape. A mask may be between them."""
    a, b = rest[-2:]
    return 0 if a.shape == y.shape else 1 if b.shape == y.shape else None


def pair_shape(y, a, b) -> Struct:
    """The C struct of a broadcasting walk; see pair_shape in kernels/shapes.h."""
    dims = merge(list(zip(y.shape, steps(a.shape, y.shape), steps(b.shape, y.shape))))
    if len(dims) > MAX_RANK:
        raise GraphError(f"{a.type} with {b.type} broadcasts over more than {MAX_RANK} dimensions")
    (n, a_step, b_step), outer = dims[-1], dims[:-1]
    sizes, a_steps, b_steps = (tuple(column) for column in zip(*outer)) if outer else ((0,), (0,), (0,))
    return Struct(
        "pair_shape", n=n, a_step=a_step, b_step=b_step, rows=prod(d[0] for d in outer), rank=len(outer),
        size=sizes, a=a_steps, b=b_steps,
    )  # fmt: skip


def steps(shape, to) -> list[int]:
    """Elements from one index to the next, per dimension of `to`; 0 if the operand is repeated."""
    shape = (1,) * (len(to) - len(shape)) + tuple(shape)
    return [0 if d == 1 else prod(shape[i + 1 :]) for i, d in enumerate(shape)]


def merge(dims: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Merge neighbouring dimensions (size, step, step, ...) that every operand walks as one; drop sizes of 1."""
    merged: list[tuple[int, ...]] = []
    for size, *moves in (d for d in dims if d[0] != 1):
        if merged and all(outer == inner * size for outer, inner in zip(merged[-1][1:], moves)):
            merged[-1] = (merged[-1][0] * size, *moves)
        else:
            merged.append((size, *moves))
    return merged or [(1, *(1 for _ in dims[0][1:]))] if dims else [(1, 1, 1)]
