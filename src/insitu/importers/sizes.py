"""The sizes of an input that a file leaves open: the first is the batch, the others are those of an example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from insitu.errors import Unsupported
from insitu.terminal.wording import either

Shapes = tuple[tuple[int, ...], ...]  # of one example per input, in the order of the inputs; () if there is none
Dim = int | str | None  # a size, or the name of an open one
USUAL = 224  # the size of a picture in the example of a hint


def settled(dims: Sequence[Dim], batch: int, example: tuple[int, ...] | None, where: str = "") -> tuple[int, ...]:
    """These dimensions as numbers. An example may have the batch or not; one that does not fit is as good as none."""
    fixed = [d if isinstance(d, int) and d >= 0 else None for d in dims]
    filled = [(fixed[0] or batch) if i == 0 else d for i, d in enumerate(fixed)]  # a batch of 0 is an open one
    for whole in (example, (batch, *example)) if example else ():
        if len(whole) == len(filled) and all(d in (None, size) for d, size in zip(filled[1:], whole[1:])):
            filled = [size if d is None else d for d, size in zip(filled, whole)]
    axis = next((i for i, d in enumerate(filled) if d is None), None)
    if axis is not None:
        raise Unsupported(f"takes {_written(dims, batch)}: size {axis} is open", where=where, hint=_hint(filled))
    return tuple(d for d in filled if d is not None)


def example_at(examples: Shapes, i: int) -> tuple[int, ...] | None:
    return examples[i] if i < len(examples) else None


def shapes_of(example: Any) -> Shapes:
    """The shapes of an example: one array, or one array per input."""
    if example is None:
        return ()
    each = example if isinstance(example, tuple | list) else (example,)
    return tuple(tuple(int(size) for size in x.shape) for x in each if hasattr(x, "shape"))


def _written(dims: Sequence[Dim], batch: int) -> str:
    """The shape as the file has it: 1x3x?x?."""
    first = dims[0] if isinstance(dims[0], int) and dims[0] > 0 else batch
    return "x".join(str(d) if isinstance(d, int) and d > 0 else "?" for d in (first, *dims[1:]))


def _hint(filled: Sequence[int | None]) -> str:
    sizes = [d or USUAL for d in filled[1:]]
    shell = f"say how large a sample is, e.g. --shape {'x'.join(map(str, sizes))}"
    array = f"example=numpy.zeros(({', '.join(map(str, (1, *sizes)))}))"
    return either(shell=shell, python=f"give samples as data, or an example of the right shape: {array}")
