"""ONNX ops with windows: convolutions, pools, resize. Channels first in the file, channels last in the graph.

Each is emitted between two transposes; clean.py makes those meet and vanish.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.errors import ModelError, Unsupported
from insitu.graph import Value
from insitu.graph.fixed import mark_fixed
from insitu.importers.onnx.node import Call, axes_of, ops, to_first, to_last
from insitu.ops._functions import COORDINATES, ROUNDINGS, nearest


@dataclass(frozen=True)
class Window:
    """Kernel, stride, dilation and (before, after) padding per spatial axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    @property
    def padding(self) -> tuple[int, ...]:
        """Flat, in the order of our ops: (top, bottom, left, right)."""
        return tuple(p for pair in self.pads for p in pair)


def _spatial(n: Call, x: Value) -> tuple[int, ...]:
    if x.type.rank not in (3, 4):
        raise Unsupported(f"works on {x.type}; only windows over one or two axes are supported")
    return x.shape[2:]


def _window(n: Call, size: tuple[int, ...], kernel: tuple[int, ...]) -> Window:
    rank = len(size)
    stride = n.ints("strides", (1,) * rank) or ()
    dilation = n.ints("dilations", (1,) * rank) or ()
    pads = n.ints("pads", (0,) * 2 * rank) or ()
    sizes = {len(kernel), len(stride), len(dilation), len(pads) / 2}
    if sizes != {rank} or min(*kernel, *stride, *dilation) < 1:
        raise ModelError(f"kernel {kernel}, strides {stride}, dilations {dilation}, pads {pads} do not fit {size}")
    pairs = _auto_pad(n, size, kernel, stride, dilation) or tuple(zip(pads[:rank], pads[rank:]))
    return Window(kernel, stride, dilation, pairs)


def _auto_pad(n: Call, size, kernel, stride, dilation) -> tuple[tuple[int, int], ...] | None:
    """SAME: ceil(size / stride) outputs; the odd element of padding goes at the end (UPPER) or at the start (LOWER)."""
    mode = n.attr("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        return None
    if mode == "VALID":
        return ((0, 0),) * len(size)
    found = []
    for d, k, s, dil in zip(size, kernel, stride, dilation):
        total = max(0, (-(-d // s) - 1) * s + (k - 1) * dil + 1 - d)
        found.append((total // 2, total - total // 2)[:: 1 if mode == "SAME_UPPER" else -1])
    return tuple(found)


def conv(n: Call) -> Value:
    x, w = n.x(), n.array(1, "the weights")
    size = _spatial(n, x)
    if w.ndim != x.type.rank:
        raise ModelError(f"weights {w.shape} do not fit {x.type}")
    win, groups = _window(n, size, w.shape[2:]), n.attr("group", 1)
    args = [to_last(x), n.weight(1, (0, *range(2, w.ndim), 1))] + ([n.weight(2)] if n.given(2) else [])
    if len(size) == 2:
        y = ops.conv2d(*args, stride=win.stride, padding=win.padding, dilation=win.dilation, groups=groups, name=n.name)
    else:
        y = ops.conv1d(*args, stride=win.stride[0], padding=win.padding, dilation=win.dilation[0], groups=groups,
                       name=n.name)  # fmt: skip
    return to_first(y)


def conv_transpose(n: Call) -> Value:
    x, w = n.x(), n.array(1, "the weights")
    size = _spatial(n, x)
    if w.ndim != x.type.rank:
        raise ModelError(f"weights {w.shape} do not fit {x.type}")
    win, extra = _transposed_window(n, size, w.shape[2:])
    args = [_as_2d(to_last(x)), _weight_2d(n, w)] + ([n.weight(2)] if n.given(2) else [])
    wide = _window_2d(win)
    extra = (0,) * (2 - len(extra)) + extra
    y = ops.conv_transpose2d(*args, stride=wide.stride, padding=wide.padding, dilation=wide.dilation,
                             output_padding=extra, groups=n.attr("group", 1), name=n.name)  # fmt: skip
    return to_first(_as_1d(y, len(size)))


def _transposed_window(n: Call, size, kernel) -> tuple[Window, tuple[int, ...]]:
    """The pads of a transposed convolution may follow from the wanted output size."""
    win = _window(n, size, kernel)
    extra = n.ints("output_padding", (0,) * len(size)) or ()
    if len(extra) != len(size):
        raise ModelError(f"output_padding {extra} does not fit {size}")
    mode, wanted = n.attr("auto_pad", "NOTSET"), n.ints("output_shape")
    if wanted is None and not mode.startswith("SAME"):
        return win, extra
    wanted = wanted[-len(size) :] if wanted else tuple(d * s for d, s in zip(size, win.stride))
    pads = []
    for d, k, s, dil, e, want in zip(size, win.kernel, win.stride, win.dilation, extra, wanted):
        total = s * (d - 1) + e + (k - 1) * dil + 1 - want
        if total < 0:  # the result extends beyond the windows: rows that are only bias
            raise Unsupported(f"{d} windows of {k} with stride {s} do not cover an output of {want}")
        half = total // 2
        pads.append((half, total - half) if mode == "SAME_UPPER" else (total - half, half))
    return Window(win.kernel, win.stride, win.dilation, tuple(pads)), extra


def _as_2d(x: Value) -> Value:
    """[N,L,C] as an image of one row."""
    return x if x.type.rank == 4 else ops.reshape(x, shape=(x.shape[0], 1, *x.shape[1:]))


def _as_1d(y: Value, axes: int) -> Value:
    return y if axes == 2 else ops.reshape(y, shape=(y.shape[0], *y.shape[2:]))


def _window_2d(win: Window) -> Window:
    if len(win.kernel) == 2:
        return win
    return Window((1, *win.kernel), (1, *win.stride), (1, *win.dilation), ((0, 0), *win.pads))


def _weight_2d(n: Call, w: np.ndarray) -> Value:
    """[C,O/g,KH,KW] to [C,KH,KW,O/g]."""
    flat = w if w.ndim == 4 else w[:, :, None, :]
    return n.constant(np.ascontiguousarray(flat.transpose(0, 2, 3, 1)), n.parameter(1), 1)


def _pool_window(n: Call, x: Value) -> Window:
    size = _spatial(n, x)
    kernel = n.ints("kernel_shape")
    if kernel is None:
        raise ModelError("kernel_shape is missing")
    win = _window(n, size, kernel)
    return _ceil(win, size) if n.attr("ceil_mode", 0) else win


def _ceil(win: Window, size) -> Window:
    """ceil_mode as padding at the end, so that the last, partial window fits; no window may start on padding."""
    pads = []
    for d, k, s, dil, (before, after) in zip(size, win.kernel, win.stride, win.dilation, win.pads):
        room = d + before + after - ((k - 1) * dil + 1)
        count = -(-room // s) + 1
        if (count - 1) * s >= d + before:
            count -= 1
        pads.append((before, after + max(0, (count - 1) * s - room)))
    return Window(win.kernel, win.stride, win.dilation, tuple(pads))


def _pooled(n: Call, op, x: Value, win: Window, **attrs) -> Value:
    wide, axes = _window_2d(win), len(win.kernel)
    y = op(_as_2d(to_last(x)), kernel=wide.kernel, stride=wide.stride, padding=wide.padding, name=n.name, **attrs)
    return to_first(_as_1d(y, axes))


def max_pool(n: Call) -> Value:
    n.refuse_outputs(1, "the positions of the maxima")
    x = n.any(0)
    if x.dtype not in ("f32", "s8"):
        raise Unsupported(f"the maximum of {x.type} is not supported; only float and int8 are")
    win = _pool_window(n, x)
    return _pooled(n, ops.max_pool2d, x, win, dilation=_window_2d(win).dilation)


def avg_pool(n: Call) -> Value:
    x = n.x()
    win, counted = _pool_window(n, x), bool(n.attr("count_include_pad", 0))
    if set(win.dilation) != {1}:
        raise Unsupported(f"an average over a dilated window {win.dilation} is not supported")
    given = _window(n, x.shape[2:], win.kernel)
    counted = counted and any(map(any, given.pads))  # padding added by ceil_mode does not count
    if counted and win.pads != given.pads:
        raise Unsupported("ceil_mode with count_include_pad is not supported", hint="drop one of the two")
    return _pooled(n, ops.avg_pool2d, x, win, count_include_pad=counted)


def global_pool(reduce: str):
    def function(n: Call) -> Value:
        x = n.x()
        return getattr(ops, reduce)(x, axes=tuple(range(2, x.type.rank)), keepdims=True, name=n.name)

    return function


# --- resize ------------------------------------------------------------------------------------

MAX_SIZE = 1 << 14  # of an axis: the copied elements, or the weights, are computed at import one by one
POSITIONS = {  # ONNX's name -> position in the input of output i, given the sizes and the scale
    "half_pixel": lambda i, a, b, s: (i + 0.5) / s - 0.5,
    "pytorch_half_pixel": lambda i, a, b, s: (i + 0.5) / s - 0.5 if b > 1 else np.zeros(1),
    "asymmetric": lambda i, a, b, s: i / s,
    "align_corners": lambda i, a, b, s: i * (a - 1) / (b - 1) if b > 1 else np.zeros(1),
    "half_pixel_symmetric": lambda i, a, b, s: a / 2 * (1 - b / (a * s)) + (i + 0.5) / s - 0.5,
}
ROUND = {
    "round_prefer_floor": lambda p: np.ceil(p - 0.5),
    "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def nearest_index(size: int, out: int, scale: float, coordinates: str, rounding: str) -> np.ndarray:
    """The input element that each output element copies."""
    place = POSITIONS[coordinates](np.arange(out, dtype=np.float64), size, out, scale)
    return np.clip(ROUND[rounding](place), 0, size - 1).astype(int)


def resize(n: Call) -> Value:
    x = n.any(0)
    mode, coordinates = n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode", "half_pixel")
    rounding = n.attr("nearest_mode", "round_prefer_floor")
    if n.opset < 11:  # Upsample, and Resize of opset 10
        coordinates, rounding = "asymmetric", "floor"
    if coordinates not in POSITIONS or rounding not in ROUND:
        raise Unsupported(f"coordinates {coordinates!r} with rounding {rounding!r} are not supported")
    size, scales = _resize_target(n, x.shape)
    if size == x.shape:
        return x
    if max(size) > MAX_SIZE or not min(size):
        raise ModelError(f"{x.shape} cannot be resized to {size}")
    if mode == "nearest":
        return _resize_nearest(n, x, size, scales, coordinates, rounding)
    if mode in ("linear", "bilinear"):
        return _interpolated(n, size, scales, coordinates, linear_weights)
    if mode == "cubic":
        return _interpolated(n, size, scales, coordinates, _cubic(n))
    raise Unsupported(f"resize mode {mode!r} is not supported", hint="nearest, linear or cubic")


def _resize_target(n: Call, shape) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The wanted shape, and the scale per axis."""
    at = 1 if n.opset < 11 else 2
    axes = axes_of(n.ints("axes") or range(len(shape)), len(shape))
    sizes = n.array(3, "sizes") if n.given(3) and n.array(3, "sizes").size else None
    given = n.attr("scales") or (n.array(at, "scales").reshape(-1) if sizes is None else ())
    numbers = [float(v) for v in (given if sizes is None else sizes)]
    if len(numbers) != len(axes) or not all(0 < v < 1 << 20 for v in numbers):
        raise ModelError(f"{shape} cannot be resized by {numbers}")
    if sizes is not None:
        numbers = _kept_aspect(n, shape, axes, numbers)
    scales = [1.0] * len(shape)
    for a, v in zip(axes, numbers):
        scales[a] = v / shape[a] if sizes is not None else v
    out = [round(d * s) if sizes is not None else int(np.floor(d * s)) for d, s in zip(shape, scales)]
    return tuple(out), tuple(scales)


def _kept_aspect(n: Call, shape, axes, sizes) -> list[float]:
    policy = n.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes
    pick = {"not_larger": min, "not_smaller": max}.get(policy)
    if pick is None:
        raise ModelError(f"keep_aspect_ratio_policy {policy!r}")
    scale = pick(v / shape[a] for a, v in zip(axes, sizes))
    return [float(np.floor(shape[a] * scale + 0.5)) for a in axes]


def _resize_nearest(n: Call, x: Value, size, scales, coordinates, rounding) -> Value:
    if size[:2] != x.shape[:2] or x.type.rank not in (3, 4):
        raise Unsupported(f"{x.type} cannot be resized to {size}: only spatial axes are supported")
    wanted = [nearest_index(a, b, s, coordinates, rounding) for a, b, s in zip(x.shape[2:], size[2:], scales[2:])]
    for c in COORDINATES:
        for r in ROUNDINGS:
            # the op computes its scale from the sizes, while ONNX may give another: compare which elements they copy
            own = [nearest(a, b, c, r) for a, b in zip(x.shape[2:], size[2:])]
            if all(np.array_equal(a, b) for a, b in zip(wanted, own)):
                target = (1,) * (4 - x.type.rank) + tuple(size[2:])
                y = ops.resize(_as_2d(to_last(x)), size=target, coordinates=c, rounding=r, name=n.name)
                return to_first(_as_1d(y, x.type.rank - 2))
    raise Unsupported(f"nearest resize of {x.shape} by {scales} copies in an unsupported pattern")


def _interpolated(n: Call, size, scales, coordinates: str, weights) -> Value:
    """Interpolation is a product with a small matrix along each axis."""
    x = n.x()
    for axis, (a, b, s) in enumerate(zip(x.shape, size, scales)):
        if a != b or s != 1.0:
            if s < 1 and n.attr("antialias", 0):
                raise Unsupported("antialias")
            if coordinates == "align_corners" and b != a * s:
                raise Unsupported(f"align_corners with {a} * {s}: ONNX and onnxruntime disagree on its meaning")
            if a * b > 1 << 22:
                raise Unsupported(f"interpolation of {a} elements to {b}: the matrix is too large")
            x = _along(n, x, axis, weights(a, b, s, coordinates))
    return x


def linear_weights(size: int, out: int, scale: float, coordinates: str) -> np.ndarray:
    """w[out, in] of linear interpolation."""
    place = POSITIONS[coordinates](np.arange(out, dtype=np.float64), size, out, scale)
    place = np.clip(place, 0, size - 1)
    return np.maximum(0, 1 - np.abs(place[:, None] - np.arange(size)[None])).astype(np.float32)


def _cubic(n: Call):
    a, inside = n.attr("cubic_coeff_a", -0.75), bool(n.attr("exclude_outside", 0))
    return lambda size, out, scale, coordinates: cubic_weights(size, out, scale, coordinates, a, inside)


def cubic_weights(size: int, out: int, scale: float, coordinates: str, a: float, inside: bool) -> np.ndarray:
    """w[out, in] of cubic convolution over four neighbours; `inside` excludes those beyond the border."""
    place = POSITIONS[coordinates](np.arange(out, dtype=np.float64), size, out, scale)
    weights = np.zeros((out, size))
    for k in (-1, 0, 1, 2):
        at = np.floor(place).astype(int) + k
        d = np.abs(place - at)
        near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        w = np.where(d <= 1, near, far) * (((at >= 0) & (at < size)) if inside else 1)
        np.add.at(weights, (np.arange(out), np.clip(at, 0, size - 1)), w)
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)


def _along(n: Call, x: Value, axis: int, weights: np.ndarray) -> Value:
    w = mark_fixed(n.builder, n.constant(weights, f"{n.name}.axis{axis}"))
    last = x.type.rank - 1
    perm = tuple(last if d == axis else axis if d == last else d for d in range(x.type.rank))
    return ops.transpose(ops.linear(ops.transpose(x, perm=perm), w), perm=perm, name=n.name)
