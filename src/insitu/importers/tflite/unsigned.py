"""uint8 tensors of a .tflite file as int8 ones: every number and its zero point are 128 lower, which changes no value.

Older converters wrote whole networks in uint8, newer ones only inputs and outputs. An input stays bytes (`u8`), and a
`normalize` with the table x - 128 follows; outputs are int8. Weights must become symmetric: they do if all of them are
within -128..127 of their zero point.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.errors import Unsupported
from insitu.graph import Builder, Type, Value
from insitu.importers.tflite.schema import Subgraph, Tensor
from insitu.ops.normalize import normalize

HALF = 128
OUTPUTS = "outputs are uint8 in the file and int8 here, 128 lower; what they mean is the same"


def signed(subgraph: Subgraph) -> Subgraph:
    """The subgraph with its quantised uint8 tensors as int8 ones."""
    return replace(subgraph, tensors=tuple(map(_signed, subgraph.tensors)))


def _signed(t: Tensor) -> Tensor:
    if t.type != "UINT8" or not t.scale:
        return t
    zeros = tuple(z - HALF for z in t.zero or (0,) * len(t.scale))
    return replace(t, type="INT8", zero=zeros, unsigned=True)


def moved(array: np.ndarray) -> np.ndarray:
    """The bytes of a constant, 128 lower."""
    return (array.view(np.uint8) ^ np.uint8(HALF)).view(np.int8)


def bytes_in(builder: Builder, name: str, t: Tensor, type: Type) -> Value:
    """An input of bytes, and the int8 numbers they stand for."""
    x = builder.input(name, Type("u8", type.shape))
    mean, std = float(type.zero + HALF), 1 / float(type.scale)
    return normalize(x, mean=(mean,), std=(std,), name=f"{name}.s8", out=type)


def symmetric(array: np.ndarray, zero: int, t: Tensor) -> np.ndarray:
    """int8 weights without a zero point: array - zero, if that is int8 again."""
    if not zero:
        return array
    apart = array.astype(np.int16) - np.int16(zero)
    if apart.min(initial=0) < -128 or apart.max(initial=0) > 127:
        span = f"{apart.min()}..{apart.max()}"
        raise Unsupported(
            f"weights with the zero point {zero + HALF * t.unsigned} span {span} around it, more than 8 bits",
            where=t.where, hint="convert the float model again with int8 weights",
        )  # fmt: skip
    return apart.astype(np.int8)
