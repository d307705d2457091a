"""LiteRT's layout operators, and FOLDS: those whose result is known at import.

SHAPE, PACK and STRIDED_SLICE compute shapes if a converter left the batch open. The file itself dequantises weights
that were stored in less than float32.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

import numpy as np

from insitu.errors import ModelError, Unsupported
from insitu.graph import Value
from insitu.importers.tflite.read import Step, zero_of
from insitu.importers.tflite.unary import fused
from insitu.ops.layout import concat, pad, reshape, resize, slice, split, transpose
from insitu.ops.quant import requantize_s8


def axis_of(axis: int, x: Value) -> int:
    if not -x.type.rank <= axis < x.type.rank:
        raise ModelError(f"axis {axis} does not fit {x.type}")
    return axis % x.type.rank


def dequantised(s: Step, i: int, array: np.ndarray) -> np.ndarray:
    """The real values of an integer constant, in float32 as LiteRT computes them."""
    t = s.tensor(i)
    if len(t.scale) not in (1, array.shape[t.axis] if 0 <= t.axis < array.ndim else 0):
        raise ModelError(f"{len(t.scale)} scales do not fit {array.shape}", where=t.where)
    shape = [-1 if d == t.axis else 1 for d in range(array.ndim)] if len(t.scale) > 1 else ()
    scale = np.array(t.scale, np.float32).reshape(shape)
    with np.errstate(all="ignore"):
        return scale * (array.astype(np.int32) - zero_of(t)).astype(np.float32)


def shaped(s: Step):
    """RESHAPE: the shape is an input, an option, or that of the output; one -1 is inferred."""
    x = s.x(0)
    shape = s.integers(1) if s.has(1) else list(s["shape"] or s.output.shape)
    known = int(np.prod([d for d in shape if d != -1], dtype=np.float64))
    if shape.count(-1) == 1 and known > 0:
        shape[shape.index(-1)] = x.type.size // known
    elif s.importer.batch != 1 and shape and x.shape[:1] == (s.importer.batch,) and known and x.type.size % known == 0:
        shape[0] *= x.type.size // known  # the constant was made for a batch of one
    return reshape(x, shape=shape, name=s.name)


def squeezed(s: Step):
    x = s.x(0)
    axes = {axis_of(a, x) for a in s["axes"]} or {d for d, size in enumerate(x.shape) if size == 1}
    if any(x.shape[a] != 1 for a in axes):
        raise ModelError(f"cannot squeeze axes {sorted(axes)} of {x.type}")
    return reshape(x, shape=[size for d, size in enumerate(x.shape) if d not in axes], name=s.name)


def expanded(s: Step):
    x, axes = s.x(0), s.integers(1)
    if len(axes) != 1 or not -x.type.rank - 1 <= axes[0] <= x.type.rank:
        raise ModelError(f"cannot expand {x.type} at {axes}")
    at = axes[0] % (x.type.rank + 1)
    return reshape(x, shape=(*x.shape[:at], 1, *x.shape[at:]), name=s.name)


def transposed(s: Step):
    x = s.x(0)
    return transpose(x, perm=[axis_of(a, x) for a in s.integers(1)], name=s.name)


def padded(s: Step):
    pads, value = s.integers(1), 0.0
    if s.has(2):
        array = s.array(2)
        if array.size != 1:
            raise ModelError(f"the padding value must be one number, not {array.size}")
        value = float((dequantised(s, 2, array) if array.dtype == np.int8 else array).reshape(()))
    return pad(s.x(0), pads=list(zip(pads[::2], pads[1::2])), value=value, name=s.name)


def concatenated(s: Step):
    xs = [s.x(i) for i in range(s.count)]
    if s.int8:
        xs = [rescaled(s, x, i) for i, x in enumerate(xs)]
    return fused(s, concat(*xs, axis=axis_of(s["axis"], xs[0]), name=s.name)) if xs else None


def rescaled(s: Step, x: Value, i: int) -> Value:
    """A concatenation has one scale: an input with a different scale is rescaled."""
    if x.type.quant == s.out.quant:
        return x
    return requantize_s8(x, rounding=s.rounding, name=f"{s.name}.in{i}", out=s.out)


def sliced(s: Step):
    x, begin, size = s.x(0), s.integers(1), s.integers(2)
    if len(begin) != x.type.rank or len(size) != x.type.rank:
        raise ModelError(f"cannot slice {x.type} from {begin}, size {size}")
    stops = [d if n == -1 else b + n for b, n, d in zip(begin, size, x.shape)]
    return slice(x, starts=begin, stops=stops, steps=[1] * len(begin), name=s.name)


def ranges(s: Step, shape) -> list[tuple[int, int, int]]:
    """STRIDED_SLICE's (start, stop, step) per dimension, with masks applied; shrunk dimensions have length 1."""
    begin, end, step = (s.integers(i) for i in (1, 2, 3))
    if s["ellipsis_mask"] or s["new_axis_mask"]:
        raise Unsupported("STRIDED_SLICE with an ellipsis or a new axis is not supported")
    if not len(begin) == len(end) == len(step) <= len(shape) or any(k < 1 for k in step):
        raise Unsupported(f"STRIDED_SLICE of {shape} from {begin} to {end} by {step} is not supported")
    found = []
    for d, size in enumerate(shape):
        if d >= len(begin):
            found.append((0, size, 1))
        elif s["shrink_mask"] >> d & 1:
            at = begin[d] + size if begin[d] < 0 else begin[d]
            found.append((at, at + 1, 1))
        else:
            stop = begin[d] + end[d] if s["offset"] else end[d]
            lo, hi = (None if s[f"{k}_mask"] >> d & 1 else v for k, v in (("begin", begin[d]), ("end", stop)))
            found.append(builtins.slice(lo, hi, step[d]).indices(size))
    return found


def strided(s: Step):
    x = s.x(0)
    starts, stops, steps = zip(*ranges(s, x.shape)) if x.shape else ((), (), ())
    shrink = {d for d in range(x.type.rank) if s["shrink_mask"] >> d & 1}
    name = f"{s.name}.slice" if shrink else s.name
    y = slice(x, starts=starts, stops=stops, steps=steps, name=name)
    return reshape(y, shape=[n for d, n in enumerate(y.shape) if d not in shrink], name=s.name) if shrink else y


def splits(s: Step):
    """SPLIT: (axis, x), as many equal parts as there are outputs."""
    x, parts = s.x(1), len(s.operator.outputs)
    axis = axis_of(single(s, 0), x)
    if x.shape[axis] % parts:
        raise ModelError(f"{x.type} does not split into {parts} equal parts along {axis}")
    return split(x, sizes=[x.shape[axis] // parts] * parts, axis=axis, name=s.name)


def splits_v(s: Step):
    """SPLIT_V: (x, sizes, axis); one size may be -1, which means the rest."""
    x, sizes = s.x(0), s.integers(1)
    axis = axis_of(single(s, 2), x)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.shape[axis] - builtins.sum(n for n in sizes if n != -1)
    return split(x, sizes=sizes, axis=axis, name=s.name)


def single(s: Step, i: int) -> int:
    numbers = s.integers(i)
    if len(numbers) != 1:
        raise ModelError(f"must be one number, not {len(numbers)}", where=s.tensor(i).where)
    return numbers[0]


def resized(s: Step):
    # LiteRT uses floor((y + 0.5) * scale) for half-pixel centres: nearest, ties upwards
    coordinates, rounding = "asymmetric", "floor"
    if s["align_corners"]:
        coordinates, rounding = "align_corners", "round_prefer_ceil"
    elif s["half_pixel"]:
        coordinates, rounding = "half_pixel", "round_prefer_ceil"
    return resize(s.x(0), size=s.integers(1), coordinates=coordinates, rounding=rounding, name=s.name)


# --- results known at import ----------------------------------------------------------------------


def known_shape(s: Step):
    return np.array(s.importer.value(s.tensor(0).index).shape, np.int32)


def known_pack(s: Step):
    parts = [s.known(i) for i in range(s.count)]
    if any(p is None or p.size != 1 for p in parts) or len(parts) > 8:
        return None
    return np.array([p.reshape(()) for p in parts if p is not None], np.int32)


def known_slice(s: Step):
    array = s.known(0)
    if array is None or array.dtype.kind != "i" or array.ndim != 1:
        return None
    (start, stop, step), shrink = ranges(s, array.shape)[0], s["shrink_mask"] & 1
    found = array[start:stop:step]
    if shrink and found.size != 1:
        raise ModelError(f"cannot take element {start} of {array.size}")
    return found.reshape(()) if shrink else found


def known_weights(s: Step):
    """DEQUANTIZE of a constant: float16 and int8 weights of an otherwise float network."""
    array = s.known(0)
    if array is None:
        return None
    if array.dtype == np.int8:
        s.builder.note("some weights are int8 in the file; they are dequantised, as the file asks")
        return s.importer.copied(dequantised(s, 0, array))
    return array if array.dtype == np.float32 else None


FOLDS: dict[str, Callable] = {
    "SHAPE": known_shape,
    "PACK": known_pack,
    "STRIDED_SLICE": known_slice,
    "DEQUANTIZE": known_weights,
}

LAYOUT: dict[str, Callable] = {
    "RESHAPE": shaped,
    "SQUEEZE": squeezed,
    "EXPAND_DIMS": expanded,
    "TRANSPOSE": transposed,
    "PAD": padded,
    "PADV2": padded,
    "CONCATENATION": concatenated,
    "SLICE": sliced,
    "STRIDED_SLICE": strided,
    "SPLIT": splits,
    "SPLIT_V": splits_v,
    "RESIZE_NEAREST_NEIGHBOR": resized,
}
