"""The result of a node whose inputs are all known at import: shape arithmetic and constants, in numpy.

Sizes are bounded before anything is allocated. Float networks do not run here: an op without an entry here is built as
a graph of its own and evaluated (read.py).
"""

from __future__ import annotations

from math import prod

import numpy as np

from insitu.errors import ModelError, Unsupported
from insitu.importers.onnx import layout
from insitu.importers.onnx.file import ELEMENTS, element_name
from insitu.importers.onnx.node import Call, axes_of, axis_of, integers

MAX_ELEMENTS = 1 << 24


def bounded(shape) -> tuple[int, ...]:
    shape = tuple(int(d) for d in shape)
    if any(d < 0 for d in shape) or prod(shape) > MAX_ELEMENTS:
        raise ModelError(f"a constant cannot have the shape {shape}")
    return shape


def elementwise(function):
    def fold(n: Call) -> np.ndarray:
        arrays = [n.array(i) for i in range(len(n.record.inputs))]
        if isinstance(function, np.ufunc) and len(arrays) != function.nin:  # another array would be taken as the output
            raise ModelError(f"has {len(arrays)} inputs instead of {function.nin}")
        bounded(np.broadcast_shapes(*(a.shape for a in arrays)))
        return np.asarray(function(*arrays))

    return fold


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integer division truncates towards zero."""
    if a.dtype.kind == "f":
        return a / b
    if not np.all(b):
        raise ModelError("division by zero")
    return np.where((a < 0) != (b < 0), -(abs(a) // abs(b)), abs(a) // abs(b)).astype(a.dtype)


def modulo(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind != "f" and not np.all(b):
        raise ModelError("division by zero")
    return np.mod(a, b)


def power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


def cast(n: Call) -> np.ndarray:
    to = n.attr("to", 0)
    if to not in ELEMENTS:
        raise Unsupported(f"a cast to {element_name(to)} is not supported")
    return n.array(0).astype(ELEMENTS[to])


def cast_like(n: Call) -> np.ndarray:
    return n.array(0).astype(n.array(1).dtype)


def constant(n: Call) -> np.ndarray:
    kinds = {"value": None, "value_float": np.float32, "value_floats": np.float32,
             "value_int": np.int64, "value_ints": np.int64}  # fmt: skip
    for key, dtype in kinds.items():
        value = n.attr(key)
        if value is not None:
            return np.asarray(value, dtype)
    raise Unsupported("a constant must be numbers or a tensor")


def constant_of_shape(n: Call) -> np.ndarray:
    value = n.attr("value")
    value = np.zeros(1, np.float32) if value is None else np.asarray(value)
    if value.size != 1:
        raise ModelError(f"the fill value must be one number, not {value.size}")
    return np.full(bounded(integers(n.array(0), "the shape")), value.reshape(()))


def range_(n: Call) -> np.ndarray:
    start, stop, step = (n.array(i).reshape(()) for i in range(3))
    count = np.ceil((float(stop) - float(start)) / float(step)) if step else np.nan
    if not count <= MAX_ELEMENTS:
        raise ModelError(f"a range from {start} to {stop} in steps of {step} is not possible")
    return (start + np.arange(max(0, int(count))) * step).astype(start.dtype)


def expand(n: Call) -> np.ndarray:
    array = n.array(0)
    shape = bounded(np.broadcast_shapes(array.shape, integers(n.array(1), "the shape")))
    return np.ascontiguousarray(np.broadcast_to(array, shape))


def tile(n: Call) -> np.ndarray:
    array, repeats = n.array(0), integers(n.array(1), "repeats")
    bounded([d * r for d, r in zip(array.shape, repeats)])
    return np.tile(array, repeats)


def concat(n: Call) -> np.ndarray:
    arrays = [n.array(i) for i in range(len(n.record.inputs))]
    bounded((sum(a.size for a in arrays),))
    return np.concatenate(arrays, axis_of(n.attr("axis", 0), arrays[0].ndim))


def gather(n: Call) -> np.ndarray:
    array, index = n.array(0), n.array(1)
    if index.dtype.kind not in "iu":
        raise ModelError(f"an index must be integers, not {index.dtype}")
    axis = axis_of(n.attr("axis", 0), array.ndim)
    bounded((*array.shape[:axis], *index.shape, *array.shape[axis + 1 :]))
    return np.take(array, index, axis)


def split(n: Call):
    axis, sizes = layout.split_sizes(n)
    return tuple(np.split(n.array(0), np.cumsum(sizes)[:-1], axis))


def shape(n: Call) -> np.ndarray:
    """Also if only the shape is known."""
    dims = np.array(np.shape(n.tensor(0)) if n.known(0) else n.any(0).shape, np.int64)
    return dims[n.attr("start", 0) : n.record.attrs.get("end")]


def size(n: Call) -> np.ndarray:
    return np.array(prod(np.shape(n.tensor(0)) if n.known(0) else n.any(0).shape), np.int64)


def reduce(function):
    def fold(n: Call) -> np.ndarray:
        array, axes = n.array(0), n.moved("axes", 1)
        if not axes and n.attr("noop_with_empty_axes", 0):
            return array
        axes = axes_of(axes or range(array.ndim), array.ndim)
        return np.asarray(function(array, axis=axes, keepdims=bool(n.attr("keepdims", 1)))).astype(array.dtype)

    return fold


def where(n: Call) -> np.ndarray:
    arrays = [n.array(i) for i in range(3)]
    bounded(np.broadcast_shapes(*(a.shape for a in arrays)))
    return np.where(arrays[0].astype(bool), *arrays[1:])


def dequantize(n: Call) -> np.ndarray:
    """The weights of an int8 model, as the floats they represent."""
    q, scale = n.array(0), n.array(1)
    if n.attr("block_size", 0):
        raise Unsupported("blocked quantisation")
    zero = n.array(2) if n.given(2) else np.zeros((), q.dtype)
    if scale.size == 1:
        scale, zero = scale.reshape(()), zero.reshape(-1)[0]
    else:
        axis = axis_of(n.attr("axis", 1), q.ndim)
        along = [-1 if d == axis else 1 for d in range(q.ndim)]
        scale, zero = scale.reshape(along), zero.reshape(along if zero.size > 1 else ())
    return ((q.astype(np.int64) - np.asarray(zero).astype(np.int64)) * scale).astype(np.float32)


FOLD = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Shape": shape,
    "Size": size,
    "Range": range_,
    "Cast": cast,
    "CastLike": cast_like,
    "Identity": lambda n: n.array(0),
    "Dropout": lambda n: n.array(0),
    "Add": elementwise(np.add),
    "Sub": elementwise(np.subtract),
    "Mul": elementwise(np.multiply),
    "Div": elementwise(divide),
    "Mod": elementwise(modulo),
    "Pow": elementwise(power),
    "Neg": elementwise(np.negative),
    "Abs": elementwise(np.abs),
    "Floor": elementwise(np.floor),
    "Ceil": elementwise(np.ceil),
    "Sqrt": elementwise(lambda a: np.sqrt(a).astype(a.dtype)),
    "Equal": elementwise(np.equal),
    "Less": elementwise(np.less),
    "LessOrEqual": elementwise(np.less_equal),
    "Greater": elementwise(np.greater),
    "GreaterOrEqual": elementwise(np.greater_equal),
    "Not": elementwise(np.logical_not),
    "And": elementwise(np.logical_and),
    "Or": elementwise(np.logical_or),
    "Where": where,
    "Max": lambda n: elementwise(lambda *a: np.max(np.stack(np.broadcast_arrays(*a)), 0))(n),
    "Min": lambda n: elementwise(lambda *a: np.min(np.stack(np.broadcast_arrays(*a)), 0))(n),
    "ReduceSum": reduce(np.sum),
    "ReduceProd": reduce(np.prod),
    "ReduceMax": reduce(np.max),
    "ReduceMin": reduce(np.min),
    "Reshape": lambda n: n.array(0).reshape(layout.reshape_shape(n)),
    "Flatten": lambda n: n.array(0).reshape(layout.flatten_shape(n)),
    "Squeeze": lambda n: n.array(0).reshape(layout.squeeze_shape(n)),
    "Unsqueeze": lambda n: n.array(0).reshape(layout.unsqueeze_shape(n)),
    "Transpose": lambda n: np.ascontiguousarray(n.array(0).transpose(layout.perm_of(n))),
    "Slice": lambda n: n.array(0)[layout.slices_of(n)],
    "Concat": concat,
    "Gather": gather,
    "Split": split,
    "Expand": expand,
    "Tile": tile,
    "DequantizeLinear": dequantize,
}
