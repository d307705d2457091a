"""The type of a value: element type, shape and, for integers that represent reals, the numerics.

    f32[1x32x32x3]                        plain float
    s8[1x32x32x3; s=0.0235 z=-128]        real = s * (q - z)
    s8[16x3x3x3; s=@w axis=0]             one scale per channel of axis 0; `@w` stands for the list
    s16b[1x8x8x24; block=row/16]          mantissas of a block floating value: real = m * 2^e, one e per block, here
                                          16 channels of an image row. The exponents are a value of their own,
                                          s8[blocks], made and read beside it

Nothing here knows about ops or graphs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, prod

import numpy as np

from insitu.errors import GraphError

# name -> (numpy type, C type). `b1` is one byte per element: masks are packed by their own op.
DTYPES = {
    "f32": (np.float32, "float"),
    "f64": (np.float64, "double"),
    "s8": (np.int8, "int8_t"),
    "u8": (np.uint8, "uint8_t"),
    "s16": (np.int16, "int16_t"),
    "s32": (np.int32, "int32_t"),
    "s64": (np.int64, "int64_t"),
    "b1": (np.bool_, "uint8_t"),
    "s16b": (np.int16, "int16_t"),
    "s8b": (np.int8, "int8_t"),
    "s32b": (np.int32, "int32_t"),
}
GROUP = 16  # channels that share an exponent; the last group may have fewer
# block floating mantissas -> the block of an exponent: a group of channels of an image row, or of a parameter
BLOCKS = {"s16b": f"row/{GROUP}", "s8b": f"row/{GROUP}", "s32b": f"channels/{GROUP}"}
MAX_ELEMENTS = 1 << 28  # a larger value is a mistake or an attack: this is a gigabyte of floats


@dataclass(frozen=True)
class Quant:
    """real = scale * (q - zero). One scale per tensor, or one per channel of `axis`."""

    scale: tuple[float, ...]
    zero: int = 0
    axis: int | None = None

    @property
    def per_channel(self) -> bool:
        return self.axis is not None

    def scales(self, rank: int) -> np.ndarray:
        """The scales as float64, shaped to broadcast against a value of this rank."""
        array = np.array(self.scale, np.float64)
        if self.axis is None:
            return array.reshape(())
        return array.reshape([-1 if d == self.axis else 1 for d in range(rank)])


def quant(scale, zero: int = 0, axis: int | None = None) -> Quant:
    """A Quant from a float or any sequence of floats."""
    scales = tuple(float(s) for s in np.atleast_1d(np.asarray(scale, np.float64)))
    return Quant(scales, int(zero), axis)


@dataclass(frozen=True)
class Type:
    """What a value is: its dtype, its shape, and for integers how they stand for real numbers."""

    dtype: str
    shape: tuple[int, ...] = ()
    quant: Quant | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(d) for d in self.shape))
        _check(self)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @cached_property
    def bytes(self) -> int:
        """Memory of all elements."""
        return self.size * self.numpy.itemsize

    @property
    def numpy(self) -> np.dtype:
        """The dtype of its arrays in numpy."""
        return np.dtype(DTYPES[self.dtype][0])

    @property
    def ctype(self) -> str:
        """The type of its elements in C."""
        return DTYPES[self.dtype][1]

    @property
    def channel_axis(self) -> int:
        """Of a block floating value: the last axis; of a parameter: the axis of its output channels, as in weights."""
        return self.rank - 1 if self.dtype != "s32b" or self.rank == 3 else 0

    @property
    def groups(self) -> int:
        """The number of groups that its channels form for the exponents of a block floating value."""
        return -(-self.shape[self.channel_axis] // GROUP) if self.shape else 1

    @property
    def rows(self) -> int:
        """The number of rows with exponents of their own: rows of images or of a matrix; a parameter is one row."""
        if self.dtype == "s32b":
            return 1
        return prod(self.shape[:-2]) if self.rank > 2 else prod(self.shape[:-1])

    @property
    def blocks(self) -> int:
        """The number of exponents of a block floating value: row by row, group by group."""
        return self.rows * self.groups

    @property
    def scale(self) -> float:
        """The single scale of a per-tensor quantised type."""
        if self.quant is None or self.quant.per_channel:
            raise GraphError(f"{self} has no single scale")
        return self.quant.scale[0]

    @property
    def zero(self) -> int:
        """The integer that stands for 0; 0 without quantisation."""
        return self.quant.zero if self.quant else 0

    def with_shape(self, *shape: int) -> Type:
        """The same with another shape."""
        return replace(self, shape=tuple(shape))

    def with_dtype(self, dtype: str, quant: Quant | None = None) -> Type:
        """The same shape with another dtype."""
        return Type(dtype, self.shape, quant)

    def __str__(self) -> str:
        numerics = f"; {quant_text(self.quant)}" if self.quant else ""
        return f"{self.dtype}[{shape_text(self.shape)}{numerics}{block_text(self.dtype)}]"


def shape_text(shape) -> str:
    return "x".join(map(str, shape))


def block_text(dtype: str) -> str:
    return f"; block={BLOCKS[dtype]}" if dtype in BLOCKS else ""


def quant_text(q: Quant) -> str:
    """`s=0.5 z=-128`, `s=[0.5,0.25] axis=0`, or `s=(16) axis=0` if the list is long."""
    if not q.per_channel:
        scale = repr(q.scale[0])
    elif len(q.scale) <= 4:
        scale = "[" + ",".join(map(repr, q.scale)) + "]"
    else:
        scale = f"({len(q.scale)})"
    return f"s={scale} z={q.zero}" + (f" axis={q.axis}" if q.per_channel else "")


def f32(*shape: int) -> Type:
    return Type("f32", shape)


def s8(*shape: int, s=None, z: int = 0, axis: int | None = None) -> Type:
    return Type("s8", shape, None if s is None else quant(s, z, axis))


def s32(*shape: int, s=None, axis: int | None = None) -> Type:
    return Type("s32", shape, None if s is None else quant(s, 0, axis))


def type_of(array: np.ndarray) -> Type:
    """The plain type of a numpy array; float64 stays float64."""
    for name, (numpy_type, _) in DTYPES.items():
        if array.dtype == numpy_type:
            return Type(name, array.shape)
    raise GraphError(f"no insitu type for numpy {array.dtype}")


def _check(t: Type) -> None:
    if t.dtype not in DTYPES:
        raise GraphError(f"unknown element type {t.dtype!r}")
    if any(d < 1 for d in t.shape):
        raise GraphError(f"{t.dtype}[{shape_text(t.shape)}] has a dimension below 1")
    if t.size > MAX_ELEMENTS:
        raise GraphError(f"{t.dtype}[{shape_text(t.shape)}] has more than {MAX_ELEMENTS:,} elements")
    q = t.quant
    if q is None:
        return
    if not all(isfinite(s) and s > 0 for s in q.scale):
        raise GraphError(f"quantisation scales must be positive and finite: {t}")
    wanted = 1 if q.axis is None else t.shape[q.axis] if 0 <= q.axis < t.rank else -1
    if len(q.scale) != wanted:
        raise GraphError(f"{len(q.scale)} scales do not fit {t.dtype}[{shape_text(t.shape)}] axis={q.axis}")
