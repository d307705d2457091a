"""From the 256 results of an int8 function back to its formula: `sigmoid`, `leaky_relu` of this slope, `3 x + 1`.

A formula is found if it gives the table's integers, at most one step beside them: LiteRT's fixed-point tables are off
by as much. Of chains of functions, only the usual ones are known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from insitu.errors import Unsupported
from insitu.graph import Builder, Graph, Op, Type, Value
from insitu.ops import activation as a
from insitu.ops import arith, unary
from insitu.ops._functions import real
from insitu.terminal.wording import option

BYTES = np.arange(-128, 128)


@dataclass(frozen=True)
class Step:
    """An op of one computed value, and of numbers behind it."""

    op: Op
    attrs: dict[str, Any] = field(default_factory=dict)
    numbers: tuple[float, ...] = ()

    def of(self, x: np.ndarray) -> np.ndarray:
        return self.op.apply("eval", (x, *map(np.float64, self.numbers)), self.op.complete(self.attrs))

    def built(self, builder: Builder, x: Value, name: str) -> Value:
        numbers = [builder.constant(f"{name}.{i}", np.float32(n).reshape(())) for i, n in enumerate(self.numbers)]
        return self.op(x, *numbers, name=name, **self.attrs)


Formula = tuple[Step, ...]
PLAIN = (
    a.relu, a.relu6, a.hard_swish, a.hard_sigmoid, a.sigmoid, a.tanh, a.silu, a.gelu, a.elu, a.softplus, unary.exp,
    unary.log, unary.sqrt, unary.rsqrt, unary.reciprocal, unary.abs, unary.square, unary.erf, arith.neg,
)  # fmt: skip
ABS_AND_ONE = (Step(unary.abs), Step(arith.add, numbers=(1.0,)))
OTHERS: tuple[Formula, ...] = (
    (Step(a.gelu, {"approximate": "tanh"}),), (Step(a.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),),
    (Step(arith.neg), Step(a.softplus), Step(arith.neg)),  # log of the sigmoid
    (Step(a.softplus), Step(a.tanh)),  # of Mish
    ABS_AND_ONE, (*ABS_AND_ONE, Step(unary.reciprocal)),  # of softsign
)  # fmt: skip


def formula_of(x: Type, y: Type, table: np.ndarray, slopes: np.ndarray | None = None, *,
               saturated: bool = True) -> Formula | None:  # fmt: skip
    """The formula of this table between these types, or None. `slopes` are its derivatives, if they are known.

    With `saturated` it ends where the table does, if it would go on beyond int8's range.
    """
    reals = real(BYTES, x)
    found = [(_off(formula, reals, y, table), formula) for formula in _candidates(reals, real(table, y), slopes)]
    off, best = min(found, key=lambda pair: pair[0])
    if off == inf:
        return None
    return (*best, *_end(_value(best, reals), y)) if saturated else best


def refuse_tables(graph: Graph, what: str) -> None:
    """Refuse a table of no known function in a file that computes in float alone (`what`)."""
    found = next((node for node in graph.nodes if node.op is a.lut_s8), None)
    if found is not None:
        raise Unsupported(f"{what} is float, and no formula is known for this int8 function", where=f"%{found.name}",
                          hint=f"compile with {option(precision='float')}")  # fmt: skip


def _candidates(x: np.ndarray, y: np.ndarray, slopes: np.ndarray | None) -> Iterator[Formula]:
    yield from ((Step(op),) for op in PLAIN)
    yield from OTHERS
    yield (Step(a.clamp, {"lo": float(y.min()), "hi": float(y.max())}),)
    inside = (y > y.min()) & (y < y.max())
    yield _line(x, y, inside, slopes)
    yield from _below_zero(x, y, inside, slopes)


def _line(x: np.ndarray, y: np.ndarray, inside: np.ndarray, slopes: np.ndarray | None) -> Formula:
    """factor x + offset."""
    if inside.sum() < 2:
        return (Step(a.clamp, {"lo": float(y[0]), "hi": float(y[0])}),)
    factor, offset = np.polyfit(x[inside], y[inside], 1)
    if slopes is not None and (inside & (slopes != 0)).any():
        factor = float(np.median(slopes[inside & (slopes != 0)]))
        offset = float(np.mean(y[inside] - factor * x[inside]))
    scaled = Step(arith.mul, numbers=(float(factor),))
    step = np.diff(np.unique(y)).min(initial=inf)
    return (scaled,) if abs(offset) < step / 2 else (scaled, Step(arith.add, numbers=(float(offset),)))


def _below_zero(x: np.ndarray, y: np.ndarray, inside: np.ndarray, slopes: np.ndarray | None) -> Iterator[Formula]:
    """Functions with a number of their own for x below zero: its slope there, or the value that it approaches."""
    below = np.flatnonzero((x < 0) & (inside if slopes is None else slopes != 0))
    if not len(below):
        return
    for op, name, shape in ((a.leaky_relu, "slope", x), (a.elu, "alpha", np.expm1(np.minimum(x, 0)))):
        if slopes is None:
            number = (shape[below] @ y[below]) / (shape[below] @ shape[below])
        else:
            number = slopes[below[-1]] * (1.0 if op is a.leaky_relu else np.exp(-x[below[-1]]))
        yield (Step(op, {name: float(number)}),)


def _value(formula: Sequence[Step], x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        for step in formula:
            x = np.asarray(step.of(x), np.float64)
    return x


def _off(formula: Formula, x: np.ndarray, y: Type, table: np.ndarray) -> float:
    """How many of the integers are one step beside the table's; infinite if one is further off, or is no number."""
    value = _value(formula, x)
    if not np.isfinite(value).all():
        return inf
    off = np.abs(np.clip(np.floor(value / y.scale + 0.5) + y.zero, -128, 127) - table)
    return inf if off.max() > 1 else float(off.sum())


def _end(value: np.ndarray, y: Type) -> tuple[Step, ...]:
    """A clamp if the values go beyond the type's range by more than its step."""
    lo, hi = (float(end) for end in real(np.array([-128, 127]), y))
    ends = {"lo": lo if value.min() < lo - y.scale else -inf, "hi": hi if value.max() > hi + y.scale else inf}
    return (Step(a.clamp, ends),) if any(abs(end) < inf for end in ends.values()) else ()
