"""einsum in the ops that exist: sums, transposes, reshapes, and one product per further operand.

Used by the importers of torch (Keras too) and ONNX. Weights may be any operand: they are put on the right, so that a
product with weights becomes a linear layer (patterns.py). Nothing here knows a framework.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from string import ascii_letters
from typing import Any

from insitu.errors import GraphError
from insitu.graph import Value

Step = Callable[..., Any]  # step("transpose", x, perm=...) adds an op


@dataclass(frozen=True)
class Named:
    """A value, with a letter per axis."""

    value: Value
    axes: str

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(self.axes, self.value.shape))


def einsum(equation: str, operands: Sequence[Value], step: Step, is_constant: Callable[[Value], bool]) -> Value:
    """The value of `equation`, such as "bik,bkj->bij" or "...i,io->...o"."""
    inputs, output = letters(equation, [len(v.shape) for v in operands])
    named = [Named(v, axes) for v, axes in zip(operands, inputs)]
    _check_sizes(equation, named)
    result = named[0]
    for k, other in enumerate(named[1:], 1):
        wanted = output + "".join(inputs[k + 1 :])
        pair = (other, result) if is_constant(result.value) else (result, other)
        result = _product(*(_summed(x, y.axes + wanted, step) for x, y in (pair, pair[::-1])), wanted, step)
    return _turned(_summed(result, output, step), output, step).value


def letters(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, with "..." and an unwritten result spelled out."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    unused = "".join(c for c in ascii_letters if c not in equation)
    if len(terms) != len(ranks):
        raise GraphError(f"the equation {equation!r} is for {len(terms)} tensors, not {len(ranks)}")
    extra = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks)]
    if any((n and "..." not in term) or n < 0 for term, n in zip(terms, extra)):
        raise GraphError(f"the equation {equation!r} does not fit tensors of {list(ranks)} dimensions")
    most = max((n for term, n in zip(terms, extra) if "..." in term), default=0)
    dots = unused[:most]
    inputs = [term.replace("...", dots[most - n :]) for term, n in zip(terms, extra)]
    if any(len(set(term)) < len(term) for term in inputs):
        raise GraphError(f"a letter twice in one tensor ({equation!r}) is not supported")
    once = "".join(sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1))
    output = right.replace("...", dots) if arrow else dots + once
    if any(c not in "".join(inputs) for c in output) or len(set(output)) < len(output):
        raise GraphError(f"the equation {equation!r} is not supported")
    return inputs, output


def _check_sizes(equation: str, operands: Sequence[Named]) -> None:
    known: dict[str, int] = {}
    for operand in operands:
        for c, size in operand.sizes.items():
            if known.setdefault(c, size) != size:
                raise GraphError(f"the equation {equation!r} has sizes {known[c]} and {size} for {c!r}")


def _summed(x: Named, wanted: str, step: Step) -> Named:
    """Without the axes that nobody wants."""
    gone = tuple(i for i, c in enumerate(x.axes) if c not in wanted)
    kept = "".join(c for c in x.axes if c in wanted)
    return Named(step("sum", x.value, axes=gone), kept) if gone else x


def _turned(x: Named, axes: str, step: Step) -> Named:
    if x.axes == axes:
        return x
    return Named(step("transpose", x.value, perm=tuple(x.axes.index(c) for c in axes)), axes)


def _product(a: Named, b: Named, wanted: str, step: Step) -> Named:
    """The product of two, summed over the letters that both have and nobody wants."""
    both = [c for c in a.axes if c in b.axes]
    batch, inner = ("".join(c for c in both if (c in wanted) == kept) for kept in (True, False))
    left, right = ("".join(c for c in x.axes if c not in both) for x in (a, b))
    size, axes = {**a.sizes, **b.sizes}, batch + left + right
    if not inner:
        x, y = _turned(a, batch + left, step).value, _turned(b, batch + right, step).value
        x = _shaped(x, [size[c] if c not in right else 1 for c in axes], step)
        return Named(step("mul", x, _shaped(y, [size[c] if c not in left else 1 for c in axes], step)), axes)
    lead, depth = [size[c] for c in batch], prod(size[c] for c in inner)
    rows = [size[c] for c in left] if left and not batch else [prod(size[c] for c in left)]
    x = _shaped(_turned(a, batch + left + inner, step).value, [*lead, *rows, depth], step)
    y = _turned(b, batch + inner + right, step).value
    y = _shaped(y, [*lead, depth, prod(size[c] for c in right)], step)
    return Named(_shaped(step("matmul", x, y), [size[c] for c in axes], step), axes)


def _shaped(x: Value, shape: Sequence[int], step: Step) -> Value:
    return x if x.shape == tuple(shape) else step("reshape", x, shape=tuple(shape))
