"""Reduced axes: the remaining shape, and the C struct of the walk. No op is declared here."""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Type
from insitu.graph.call import Struct, Table


def reduced_axes(rank: int, axes) -> tuple[int, ...]:
    """The axes, non-negative and sorted."""
    found = sorted(a + rank if a < 0 else a for a in axes)
    if len(set(found)) != len(found) or any(not 0 <= a < rank for a in found):
        raise GraphError(f"axes {tuple(axes)} do not fit rank {rank}")
    return tuple(found)


def reduce_output(x: Type, axes, keepdims) -> tuple[int, ...]:
    gone = reduced_axes(x.rank, axes)
    if keepdims:
        return tuple(1 if d in gone else n for d, n in enumerate(x.shape))
    return tuple(n for d, n in enumerate(x.shape) if d not in gone)


def reduce_count(x: Type, axes) -> int:
    return int(np.prod([x.shape[a] for a in reduced_axes(x.rank, axes)], dtype=np.int64))


def reduce_struct(x: Type, axes) -> Struct:
    """The C struct of its sizes. Adjacent reduced axes form one block; others are listed by offset."""
    gone = reduced_axes(x.rank, axes)
    wide = [n for n in range(x.rank) if x.shape[n] > 1 and n in gone]
    inner = int(np.prod(x.shape[(wide or [-1])[-1] + 1 :], dtype=np.int64)) if wide else x.size
    sizes = {"outer": x.size // inner // reduce_count(x, axes), "reduce": reduce_count(x, axes), "inner": inner}
    between = range(wide[0], wide[-1]) if wide else ()
    if all(n in gone or x.shape[n] == 1 for n in between):
        return Struct("reduce_shape", **sizes, outer_at=None, reduce_at=None)
    starts = np.arange(x.size, dtype=np.int32).reshape(x.shape)
    kept = starts[tuple(0 if n in gone or n > wide[-1] else slice(None) for n in range(x.rank))]
    steps = starts[tuple(slice(None) if n in gone else 0 for n in range(x.rank))]
    return Struct("reduce_shape", **sizes, outer_at=Table(kept.ravel()), reduce_at=Table(steps.ravel()))
