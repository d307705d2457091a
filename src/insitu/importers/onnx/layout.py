"""ONNX ops that move elements and compute none: reshape, transpose, slice, concat, pad, gather and the like."""

from __future__ import annotations

from math import prod

import numpy as np

from insitu.errors import ModelError, Unsupported
from insitu.graph import Value
from insitu.importers.onnx.node import Call, Tensor, axes_of, axis_of, integers, ops

LIMIT = 4096  # pieces that one node may be split into
MOST = 65536  # elements that one node may pick or pad with
MOST_VALUES = 1 << 26  # elements that one node may copy a tensor to


def reshape_to(shape: tuple[int, ...], wanted: tuple[int, ...], allow_zero: bool) -> tuple[int, ...]:
    """ONNX: 0 copies the dimension of the input, one -1 is inferred."""
    if not allow_zero:
        if any(d == 0 and i >= len(shape) for i, d in enumerate(wanted)):
            raise ModelError(f"{shape} cannot be reshaped to {wanted}")
        wanted = tuple(shape[i] if d == 0 else d for i, d in enumerate(wanted))
    if wanted.count(-1) > 1 or any(d < -1 for d in wanted):
        raise ModelError(f"{shape} cannot be reshaped to {wanted}")
    rest = prod(d for d in wanted if d != -1)
    if -1 in wanted:
        if rest == 0 or prod(shape) % rest:
            raise ModelError(f"{shape} cannot be reshaped to {wanted}")
        wanted = tuple(prod(shape) // rest if d == -1 else d for d in wanted)
    if prod(wanted) != prod(shape):
        raise ModelError(f"{shape} cannot be reshaped to {wanted}")
    return wanted


def _reshaped(n: Call, x: Value, shape) -> Value:
    shape = tuple(shape)
    return x if shape == x.shape else ops.reshape(x, shape=shape, name=n.name)


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def reshape_shape(n: Call) -> tuple[int, ...]:
    wanted = n.moved("shape", 1)
    if wanted is None:
        raise ModelError("the new shape is missing")
    return reshape_to(shape_of(n.tensor(0)), wanted, bool(n.attr("allowzero", 0)))


def flatten_shape(n: Call) -> tuple[int, ...]:
    shape = shape_of(n.tensor(0))
    axis = n.attr("axis", 1)
    axis = axis if axis == len(shape) else axis_of(axis, len(shape))
    return prod(shape[:axis]), prod(shape[axis:])


def squeeze_shape(n: Call) -> tuple[int, ...]:
    shape = shape_of(n.tensor(0))
    axes = n.moved("axes", 1)
    gone = axes_of(axes, len(shape)) if axes is not None else tuple(i for i, d in enumerate(shape) if d == 1)
    if any(shape[a] != 1 for a in gone):
        raise ModelError(f"{shape} cannot be squeezed along {gone}")
    return tuple(d for i, d in enumerate(shape) if i not in gone)


def unsqueeze_shape(n: Call) -> tuple[int, ...]:
    shape = list(shape_of(n.tensor(0)))
    axes = n.moved("axes", 1)
    if axes is None:
        raise ModelError("axes are missing")
    for a in sorted(axes_of(axes, len(shape) + len(axes))):
        shape.insert(a, 1)
    return tuple(shape)


def as_reshape(new_shape):
    """The table entry of an op that only changes the shape."""
    return lambda n: _reshaped(n, n.any(0), new_shape(n))


def perm_of(n: Call) -> tuple[int, ...]:
    rank = len(shape_of(n.tensor(0)))
    perm = n.ints("perm", tuple(reversed(range(rank)))) or ()
    if sorted(perm) != list(range(rank)):
        raise ModelError(f"perm {perm} does not fit a tensor of rank {rank}")
    return perm


def transpose(n: Call) -> Value:
    return ops.transpose(n.any(0), perm=perm_of(n), name=n.name)


def concat(n: Call) -> Value:
    xs = [n.any(i) for i in range(len(n.record.inputs))]
    if not xs:
        raise ModelError("has no inputs")
    axis = axis_of(n.attr("axis", 1 if n.opset < 4 else 0), xs[0].type.rank)
    return xs[0] if len(xs) == 1 else ops.concat(*xs, axis=axis, name=n.name)


def slices_of(n: Call) -> tuple[slice, ...]:
    """One Python slice per dimension."""
    shape = shape_of(n.tensor(0))
    starts, stops = n.moved("starts", 1), n.moved("ends", 2)
    if starts is None or stops is None or len(starts) != len(stops):
        raise ModelError("starts and ends have different lengths")
    axes = n.moved("axes", 3)
    axes = axes_of(range(len(starts)) if axes is None else axes, len(shape))
    steps = n.moved("steps", 4) or (1,) * len(starts)
    if not len(axes) == len(steps) == len(starts) or 0 in steps:
        raise ModelError(f"axes {axes}, steps {steps} and starts {starts} do not match")
    found = [slice(0, d, 1) for d in shape]
    for a, start, stop, step in zip(axes, starts, stops, steps):
        found[a] = _clipped(start, stop, step, shape[a])
    return tuple(found)


def _clipped(start: int, stop: int, step: int, size: int) -> slice:
    start, stop, step = slice(start, stop, step).indices(size)
    return slice(start, None if stop < 0 else stop, step)


def slice_(n: Call) -> Value:
    x, wanted = n.any(0), slices_of(n)
    if any(s.step < 0 for s in wanted):
        return _taken_apart(n, x, wanted)
    starts, stops, steps = zip(*((s.start, s.stop, s.step) for s in wanted))
    if any(a >= b for a, b in zip(starts, stops)):
        raise Unsupported("the slice is empty")
    return ops.slice(x, starts=starts, stops=stops, steps=steps, name=n.name)


def _taken_apart(n: Call, x: Value, wanted) -> Value:
    """For negative steps: each such axis is put together from single slices."""
    for axis, s in enumerate(wanted):
        x = take(x, axis, list(range(*s.indices(x.shape[axis]))), n.name)
    return x


def cut(x: Value, axis: int, start: int, stop: int, step: int = 1, name: str | None = None) -> Value:
    """x[start:stop:step] along one axis."""
    rank = x.type.rank
    if (start, stop, step) == (0, x.shape[axis], 1):
        return x
    starts = tuple(start if d == axis else 0 for d in range(rank))
    stops = tuple(stop if d == axis else x.shape[d] for d in range(rank))
    steps = tuple(step if d == axis else 1 for d in range(rank))
    return ops.slice(x, starts=starts, stops=stops, steps=steps, name=name)


def take(x: Value, axis: int, index: list[int], name: str) -> Value:
    """x[index] along one axis: one slice if the index is a range, else a concat of slices, one for every run."""
    if not index:
        raise Unsupported("the result is empty")
    steps = set(np.diff(index).tolist())
    if len(steps) <= 1 and all(s > 0 for s in steps):
        step = steps.pop() if steps else 1
        return cut(x, axis, index[0], index[-1] + 1, step, name)
    runs = runs_of(index)
    if len(runs) > LIMIT:
        raise Unsupported(f"picks {len(runs):,} pieces, more than {LIMIT:,}", hint="cut the model before this op")
    pieces = {run: cut(x, axis, *run) for run in sorted(set(runs))}
    return ops.concat(*(pieces[run] for run in runs), axis=axis, name=name)


def runs_of(index: list[int]) -> list[tuple[int, int]]:
    """The index as ranges (start, stop) that follow each other."""
    ends = [i + 1 for i in range(len(index) - 1) if index[i + 1] != index[i] + 1]
    return [(index[a], index[b - 1] + 1) for a, b in zip([0, *ends], [*ends, len(index)])]


def gather(n: Call) -> Value:
    x, index = n.any(0), n.array(1, "the index of Gather")
    axis = axis_of(n.attr("axis", 0), x.type.rank)
    size = x.shape[axis]
    if index.dtype.kind not in "iu" or not ((-size <= index) & (index < size)).all():
        raise ModelError(f"an index is outside the {size} elements of axis {axis}")
    if index.size > MOST:
        raise Unsupported(f"picks {index.size:,} elements, more than {MOST:,}", hint="cut the model before this op")
    taken = take(x, axis, [int(i) % size for i in index.reshape(-1)], n.name)
    return _reshaped(n, taken, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


def split_sizes(n: Call) -> tuple[int, tuple[int, ...]]:
    """The axis and the sizes; since opset 18, the last part of an equal split may be smaller."""
    shape = shape_of(n.tensor(0))
    axis = axis_of(n.attr("axis", 0), len(shape))
    sizes = n.moved("split", 1)
    if sizes is None:
        parts = n.attr("num_outputs", len(n.record.outputs))
        if not 0 < parts <= LIMIT:
            raise ModelError(f"cannot be split into {parts} parts")
        most = -(-shape[axis] // parts)
        sizes = tuple(min(most, shape[axis] - i * most) for i in range(parts))
    if sum(sizes) != shape[axis] or len(sizes) != len(n.record.outputs):
        raise ModelError(f"{shape[axis]} cannot be split into {sizes}")
    if min(sizes) < 1:
        raise Unsupported(f"a split of {shape[axis]} into {sizes}: empty tensors are not supported")
    return axis, sizes


def split(n: Call):
    axis, sizes = split_sizes(n)
    return n.any(0) if len(sizes) == 1 else ops.split(n.any(0), sizes=sizes, axis=axis, name=n.name)


def pads_of(n: Call, rank: int) -> tuple[tuple[int, int], ...]:
    pads = n.moved("pads", 1)
    axes = axes_of(integers(n.array(3), "axes"), rank) if n.given(3) else tuple(range(rank))
    if pads is None or len(pads) != 2 * len(axes):
        raise ModelError(f"pads {pads} do not fit a tensor of rank {rank}")
    found = [(0, 0)] * rank
    for i, a in enumerate(axes):
        found[a] = (pads[i], pads[i + len(axes)])
    return tuple(found)


def pad(n: Call) -> Value:
    x = n.any(0)
    pads, mode = pads_of(n, x.type.rank), n.attr("mode", "constant")
    if mode in ("edge", "reflect", "wrap"):
        return _mirrored(n, x, pads, mode)
    if mode != "constant":
        raise Unsupported(f"padding mode {mode!r} is not supported", hint="constant, edge, reflect or wrap")
    for axis, (before, after) in enumerate(pads):  # a negative pad crops
        x = cut(x, axis, max(0, -before), x.shape[axis] - max(0, -after))
    pads = tuple((max(0, b), max(0, a)) for b, a in pads)
    return ops.pad(x, pads=pads, value=n.scalar(2, "value", 0.0), name=n.name)


def _mirrored(n: Call, x: Value, pads, mode: str) -> Value:
    for axis, (before, after) in enumerate(pads):
        if max(before, after) > MOST or min(before, after) < 0:
            raise Unsupported(f"{mode} padding of {before}, {after} is not supported")
        if before or after:
            index = np.pad(np.arange(x.shape[axis]), (before, after), mode=mode)  # pyright: ignore
            x = take(x, axis, index.tolist(), n.name)
    return x


def expand(n: Call) -> Value:
    x = n.x()
    shape = np.broadcast_shapes(x.shape, integers(n.array(1, "the shape"), "the shape"))
    if shape == x.shape:
        return x
    if prod(shape) > MOST_VALUES:
        raise Unsupported(f"expanding to {shape} makes more than {MOST_VALUES:,} elements")
    missing = len(shape) - x.type.rank
    repeats = [1 if i >= missing and x.shape[i - missing] == d else d for i, d in enumerate(shape)]
    # copied by multiplying with ones: the graph has no op that repeats
    return ops.mul(x, n.constant(np.ones(repeats, np.float32), f"{n.name}.ones"), name=n.name)


def tile(n: Call) -> Value:
    x, repeats = n.any(0), integers(n.array(1, "repeats"), "repeats")
    if len(repeats) != x.type.rank or any(not 1 <= r <= LIMIT for r in repeats):
        raise Unsupported(f"repeats {repeats} do not fit a tensor of rank {x.type.rank}")
    if prod(repeats) * x.type.size > MOST_VALUES:
        raise Unsupported(f"repeats {repeats} make more than {MOST_VALUES:,} elements")
    for axis, r in enumerate(repeats):
        x = ops.concat(*[x] * r, axis=axis, name=n.name) if r > 1 else x
    return x


def depth_to_space(n: Call) -> Value:
    x, b = n.any(0), n.attr("blocksize", 1)
    batch, c, h, w = x.shape
    if b < 1 or c % (b * b):
        raise ModelError(f"{c} channels cannot form blocks of {b}x{b}")
    if n.attr("mode", "DCR") == "DCR":
        shape, perm = (batch, b, b, c // b // b, h, w), (0, 3, 4, 1, 5, 2)
    else:
        shape, perm = (batch, c // b // b, b, b, h, w), (0, 1, 4, 2, 5, 3)
    x = ops.transpose(ops.reshape(x, shape=shape), perm=perm)
    return ops.reshape(x, shape=(batch, c // b // b, h * b, w * b), name=n.name)


def space_to_depth(n: Call) -> Value:
    x, b = n.any(0), n.attr("blocksize", 1)
    batch, c, h, w = x.shape
    if b < 1 or h % b or w % b:
        raise ModelError(f"{h}x{w} cannot be cut into blocks of {b}x{b}")
    x = ops.reshape(x, shape=(batch, c, h // b, b, w // b, b))
    perm = (0, 3, 5, 1, 2, 4) if n.attr("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return ops.reshape(ops.transpose(x, perm=perm), shape=(batch, c * b * b, h // b, w // b), name=n.name)
