"""The result of an op's `emit` rule: a call of a C kernel, as a value. codegen/ turns it into text.

    Call("conv2d_s8", y, x, w, b, Struct("conv2d_shape", n=1, h=32, ...), Struct("requant", ...), Scratch(2048))

An argument is one of
    Value      a pointer to that value: arena, state or constant
    int        an integer literal
    float      a float literal (f32)
    Struct     a pointer to a static const struct with these fields; a field may be a Table
    Table      a pointer to a static const array (quantisation multipliers, index maps)
    Scales     a Table that may be computed from others: then it is null, and its Source says from what
    Source     a pointer to the source of Scales (`weight_scales` in c/numbers/scales.h), null if they are a table
    Packed     a pointer to a constant that is repacked at compile time
    Scratch    a pointer to this many bytes of the arena, free again after the call
    None       a null pointer
The kernel's file is `c/kernels/<family>/<function>.c`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from insitu.graph.graph import Value


@dataclass(frozen=True, eq=False)
class Table:
    array: np.ndarray


@dataclass(frozen=True, eq=False)
class Multipliers(Table):
    """The multipliers of a layer's channels, and the scales they were made from: s_x s_w / s_y."""

    x_scale: float
    y_scale: float


@dataclass(frozen=True, eq=False)
class Scales(Table):
    """Scales of weights, one per channel, or their factors or divisors: see codegen/scales.py."""


@dataclass(frozen=True, eq=False)
class Shares(Scales):
    """Scales as fractions of powers of two, for integer gradients: one power per group of channels, or one for all."""

    powers: np.ndarray


@dataclass(frozen=True, eq=False)
class Source:
    scales: Scales


@dataclass(frozen=True)
class Scratch:
    bytes: int


@dataclass(frozen=True, eq=False)
class Packed:
    """A constant in the order that a kernel needs: `pack(array)` is stored."""

    value: Value
    pack: Callable[[np.ndarray], np.ndarray]


class Struct:
    def __init__(self, struct: str, /, **fields: int | float | Table | tuple | None):
        self.struct, self.fields = struct, fields

    @property
    def sizes(self) -> dict[str, int]:
        """The integer fields."""
        return {name: value for name, value in self.fields.items() if isinstance(value, int)}


@dataclass(frozen=True)
class Call:
    function: str
    args: tuple
    alias: bool = False  # a plain copy: nothing to do if output and input share their bytes

    def __init__(self, function: str, *args, alias: bool = False):
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "alias", alias)

    @cached_property
    def scratch(self) -> tuple[int, ...]:
        """Bytes of each scratch."""
        return tuple(a.bytes for a in self.args if isinstance(a, Scratch))


Argument = Value | int | float | Struct | Table | Source | Packed | Scratch | None
