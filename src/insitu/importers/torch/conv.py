"""aten ops with windows and normalisations: convolutions, pools, upsampling, batch, layer, group and instance norm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from insitu.graph import Value
from insitu.graph.fixed import mark_fixed
from insitu.importers.torch.call import Call, both_sides, pair, same_padding

Ints = int | Sequence[int]

# convolutions: torch's w[O, C/g, ...] becomes w[O, ..., C/g]


def conv2d(c: Call, x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
    if w.type.rank != 4:
        raise c.refuse(f"{w.type.rank - 2} spatial axes", hint="1-D or 2-D convolutions")
    batched = x if x.type.rank == 4 else c.step("reshape", x, shape=(1, *x.shape))
    dilation = pair(dilation)
    attrs = {"stride": pair(stride), "dilation": dilation, "groups": groups}
    pads = _padding(padding, w.shape[2:], dilation)
    y = c.make("conv2d", c.last(batched), *_parameters(c, w, (0, 2, 3, 1), b), padding=pads, **attrs)
    return _unbatched(c, c.first(y), x)


def conv1d(c: Call, x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
    batched = x if x.type.rank == 3 else c.step("reshape", x, shape=(1, *x.shape))
    dilation = pair(dilation, 1)
    pads = _padding(padding, w.shape[2:], dilation)
    attrs = {"stride": pair(stride, 1)[0], "dilation": dilation[0], "groups": groups}
    y = c.make("conv1d", c.last(batched), *_parameters(c, w, (0, 2, 1), b), padding=pads, **attrs)
    return _unbatched(c, c.first(y), x)


def convolution(c: Call, x, w, b, stride, padding, dilation, transposed, output_padding, groups):
    """The form that the others have in a decomposed program."""
    if transposed:
        transpose = conv_transpose1d if w.type.rank == 3 else conv_transpose2d
        return transpose(c, x, w, b, stride, padding, output_padding, groups, dilation)
    return (conv1d if w.type.rank == 3 else conv2d)(c, x, w, b, stride, padding, dilation, groups)


def conv_transpose2d(
    c: Call, x, w, b=None, stride: Ints = 1, padding: Ints = 0, output_padding: Ints = 0, groups=1, dilation: Ints = 1
):
    if w.type.rank != 4:
        raise c.refuse(f"{w.type.rank - 2} spatial axes", hint="1-D or 2-D convolutions")
    attrs = {"stride": pair(stride), "dilation": pair(dilation), "groups": groups}
    attrs |= {"padding": both_sides(pair(padding)), "output_padding": pair(output_padding)}
    batched = x if x.type.rank == 4 else c.step("reshape", x, shape=(1, *x.shape))
    y = c.make("conv_transpose2d", c.last(batched), *_parameters(c, w, (0, 2, 3, 1), b), **attrs)
    return _unbatched(c, c.first(y), x)


def conv_transpose1d(c: Call, x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The 2-D one on images of height 1."""
    n, channels, length = x.shape
    image = c.step("reshape", x, shape=(n, channels, 1, length))
    kernel = c.step("reshape", w, shape=(w.shape[0], w.shape[1], 1, w.shape[2]))
    s, p, o, d = (
        (along_height, pair(v, 1)[0])
        for along_height, v in ((1, stride), (0, padding), (0, output_padding), (1, dilation))
    )
    y = conv_transpose2d(c, image, kernel, b, s, p, o, groups, d)
    return c.step("reshape", y, shape=(n, y.shape[1], y.shape[3]))


def _padding(padding, kernel: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    if isinstance(padding, str):
        return same_padding(kernel, dilation) if padding == "same" else (0,) * (2 * len(kernel))
    return both_sides(pair(padding, len(kernel)))


def _parameters(c: Call, w: Value, perm: Sequence[int], b: Value | None) -> list[Value]:
    return [c.weight(w, perm)] + ([] if b is None else [b])


def _unbatched(c: Call, y: Value, x: Value) -> Value:
    return y if x.type.rank == y.type.rank else c.step("reshape", y, shape=y.shape[1:])


# pools


def max_pool2d(c: Call, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    kernel, dilation = pair(kernel), pair(dilation)
    stride = pair(stride) if stride else kernel
    pads, _ = _pool_padding(x.shape[2:], kernel, stride, pair(padding), dilation, ceil_mode)
    y = c.make("max_pool2d", c.last(x), kernel=kernel, stride=stride, padding=pads, dilation=dilation)
    return c.first(y)


def max_pool2d_with_indices(c: Call, *args, **kwargs):
    return max_pool2d(c, *args, **kwargs), None


def avg_pool2d(
    c: Call, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    if divisor_override is not None:
        raise c.refuse("divisor_override", hint="multiply the result of an ordinary average instead")
    kernel = pair(kernel)
    stride, padding = pair(stride) if stride else kernel, pair(padding)
    pads, more = _pool_padding(x.shape[2:], kernel, stride, padding, (1, 1), ceil_mode)
    if more and any(padding) and count_include_pad:
        raise c.refuse("ceil_mode with padding that counts", hint="count_include_pad=False, or ceil_mode=False")
    # without padding, the elements that ceil_mode adds at the end do not count
    counted = count_include_pad and any(padding)
    return c.first(
        c.make("avg_pool2d", c.last(x), kernel=kernel, stride=stride, padding=pads, count_include_pad=counted)
    )


def _pool_padding(sizes, kernel, stride, padding, dilation, ceil_mode) -> tuple[tuple[int, ...], bool]:
    """(top, bottom, left, right), and whether ceil_mode adds to it: the rows that the last window lacks."""
    pads, more = [], False
    for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation):
        span = d * (k - 1) + 1
        extra = 0
        if ceil_mode:
            count = -(-(size + 2 * p - span) // s) + 1
            count -= (count - 1) * s >= size + p  # a window must start inside
            extra = max(0, (count - 1) * s + span - (size + 2 * p))
        pads += [p, p + extra]
        more |= extra > 0
    return tuple(pads), more


def _as_image(pool):
    """A 1-D pool is the 2-D one on images of height 1: N,C,L -> N,C,1,L."""

    def pool1d(c: Call, x, kernel, stride=(), padding=0, *rest, **kwargs):
        n, channels, length = x.shape
        image = c.step("reshape", x, shape=(n, channels, 1, length))
        kernel = (1, pair(kernel, 1)[0])
        stride = (1, pair(stride, 1)[0]) if stride else kernel
        y = pool(c, image, kernel, stride, (0, pair(padding, 1)[0]), *_one(rest), **kwargs)
        return c.step("reshape", y, shape=(n, channels, y.shape[3]))

    return pool1d


def _one(rest):
    """A 1-D dilation as a 2-D one; flags as they are."""
    return [(1, *r) if isinstance(r, list | tuple) else r for r in rest]


def adaptive_pool2d(op: str, pool):
    """To 1x1: a reduction; evenly divisible: a pool; anything else would have windows of several sizes."""

    def adaptive(c: Call, x, size):
        wanted = tuple(w or d for w, d in zip(pair(size), x.shape[2:]))
        if wanted == (1, 1):
            return c.make(op, x, axes=(2, 3), keepdims=True)
        if wanted == x.shape[2:]:
            return x
        if any(d % w for d, w in zip(x.shape[2:], wanted)):
            raise c.refuse(f"{x.shape[2:]} to {wanted}", hint="an output size that divides the input size")
        return pool(c, x, tuple(d // w for d, w in zip(x.shape[2:], wanted)))

    return adaptive


def _adaptive1d(adaptive):
    def adaptive1d(c: Call, x, size):
        n, channels, length = x.shape
        y = adaptive(c, c.step("reshape", x, shape=(n, channels, 1, length)), (1, pair(size, 1)[0]))
        return c.step("reshape", y, shape=(n, channels, y.shape[3]))

    return adaptive1d


def _with_indices(pool):
    return lambda c, *args: (pool(c, *args), None)


# upsampling


def upsample_nearest2d(c: Call, x, size=None, scales=None, scale_w=None, *, exact=False):
    factors = scales if isinstance(scales, list | tuple) else (scales, scale_w)
    if size is None:
        size = [int(d * f) for d, f in zip(x.shape[2:], factors)]
    if any(f is not None and d * f != s for d, f, s in zip(x.shape[2:], factors, size)):
        raise c.refuse(f"{x.shape[2:]} times {factors}: not integers", hint="give the output size instead")
    how = {"coordinates": "half_pixel", "rounding": "round_prefer_ceil"} if exact else {}
    return c.first(c.make("resize", c.last(x), size=tuple(int(s) for s in size), **how))


def upsample_nearest_exact2d(c: Call, x, size=None, scales=None, scale_w=None):
    return upsample_nearest2d(c, x, size, scales, scale_w, exact=True)


def upsample_nearest1d(c: Call, x, size=None, scales=None, *, exact=False):
    """The 2-D one on images of height 1."""
    n, channels, length = x.shape
    image = c.step("reshape", x, shape=(n, channels, 1, length))
    wide = None if size is None else (1, pair(size, 1)[0])
    y = upsample_nearest2d(c, image, wide, 1 if wide is None else None, _factor(scales), exact=exact)
    return c.step("reshape", y, shape=(n, channels, y.shape[3]))


def upsample_nearest_exact1d(c: Call, x, size=None, scales=None):
    return upsample_nearest1d(c, x, size, scales, exact=True)


def upsample_linear1d(c: Call, x, size=None, align=False, scales=None):
    """The signal times a matrix with two weights per row."""
    length, factor = x.shape[2], _factor(scales)
    out = int(length * (factor or 1)) if size is None else pair(size, 1)[0]
    weights = _linear_weights(length, out, 1 / factor if factor else length / out, align)
    return c.make("linear", x, mark_fixed(c.builder, c.constant(weights, f"{c.name}.columns")))


def _factor(scales) -> float | None:
    return scales[0] if isinstance(scales, list | tuple) else scales


def upsample_bilinear2d(c: Call, x, size=None, align=False, scales=None, scale_w=None):
    """Each axis times a matrix with two weights per row."""
    factors = scales if isinstance(scales, list | tuple) else (scales, scale_w)
    if size is None:
        size = [int(d * f) for d, f in zip(x.shape[2:], factors)]
    ratios = [1 / f if f else d / s for d, s, f in zip(x.shape[2:], size, factors)]
    rows, columns = (mark_fixed(c.builder, c.constant(_linear_weights(*of, align), f"{c.name}.{axis}"))
                     for axis, of in zip(("rows", "columns"), zip(x.shape[2:], size, ratios)))  # fmt: skip
    wide = c.step("linear", x, columns)
    high = c.step("linear", c.step("transpose", wide, perm=(0, 1, 3, 2)), rows)
    return c.make("transpose", high, perm=(0, 1, 3, 2))


def _linear_weights(size: int, out: int, ratio: float, align: bool) -> np.ndarray:
    """w[out, in]: pixels are points from corner to corner (align), or squares with their value in the middle."""
    i = np.arange(out)
    place = i * (size - 1) / max(out - 1, 1) if align else (i + 0.5) * ratio - 0.5
    place = np.clip(place, 0, size - 1)
    return np.maximum(0, 1 - np.abs(place[:, None] - np.arange(size)))


# normalisations


def batch_norm(c: Call, x, w, b, mean, var, training=False, momentum=0.1, eps=1e-5, cudnn=False):
    """Training mode is ignored: the importer takes the running statistics."""
    if mean is None or var is None:
        raise c.refuse("a layer without running statistics", hint="track_running_stats=True, and a pass over some data")
    channels = x.shape[1]
    w = c.constant(np.ones(channels), f"{c.name}.weight") if w is None else w
    b = c.constant(np.zeros(channels), f"{c.name}.bias") if b is None else b
    momentum = 0.1 if momentum is None else momentum
    return c.make("batch_norm", x, w, b, mean, var, axis=1, epsilon=eps, momentum=momentum)


def native_batch_norm_no_training(c: Call, x, w, b, mean, var, momentum, eps):
    return batch_norm(c, x, w, b, mean, var, False, momentum, eps), None, None


def native_batch_norm(c: Call, x, w, b, mean, var, training, momentum, eps):
    return batch_norm(c, x, w, b, mean, var, training, momentum, eps), None, None, None, None


def layer_norm(c: Call, x, shape, w=None, b=None, eps=1e-5, cudnn=False):
    if b is not None and w is None:
        w = c.constant(np.ones(b.shape), f"{c.name}.weight")
    return c.make("layer_norm", x, *(p for p in (w, b) if p is not None), dims=len(shape), epsilon=eps)


def native_layer_norm(c: Call, x, shape, w, b, eps):
    return layer_norm(c, x, shape, w, b, eps), None, None


def group_norm(c: Call, x, groups, w=None, b=None, eps=1e-5, cudnn=False):
    """A layer norm over the channels and pixels of each group, then one scale per channel."""
    flat = c.step("reshape", x, shape=(x.shape[0], groups, x.type.size // (x.shape[0] * groups)))
    y = c.step("reshape", c.make("layer_norm", flat, dims=1, epsilon=eps), shape=x.shape)
    return _scale_channels(c, y, w, b)


def native_group_norm(c: Call, x, w, b, n, channels, pixels, groups, eps):
    return group_norm(c, x, groups, w, b, eps), None, None


def instance_norm(c: Call, x, w=None, b=None, mean=None, var=None, own=True, momentum=0.1, eps=1e-5, cudnn=False):
    if not own:
        return batch_norm(c, x, w, b, mean, var, False, momentum, eps)
    return group_norm(c, x, x.shape[1], w, b, eps)


def _scale_channels(c: Call, y: Value, w: Value | None, b: Value | None) -> Value:
    for op, p in (("mul", w), ("add", b)):
        if p is not None:
            y = c.step(op, y, c.step("reshape", p, shape=(p.shape[0], *(1,) * (y.type.rank - 2))))
    return y


def rms_norm(c: Call, x, shape, w=None, eps=None):
    axes = tuple(range(x.type.rank - len(shape), x.type.rank))
    power = c.step("mean", c.step("square", x), axes=axes, keepdims=True)
    scale = c.step("rsqrt", c.step("add", power, c.scalar(float(np.finfo(np.float32).eps) if eps is None else eps)))
    y = c.step("mul", x, scale)
    return y if w is None else c.make("mul", y, w)


def weight_norm(c: Call, v, g, dim=0):
    """w = g v / |v|, with the norm over all axes but one. Applies to parameters: clean.py computes the result."""
    axes = tuple(a for a in range(v.type.rank) if a != dim % v.type.rank)
    norm = c.step("sqrt", c.step("sum", c.step("square", v), axes=axes, keepdims=True))
    return c.make("mul", v, c.step("div", g, norm))


_mean2d, _amax2d = adaptive_pool2d("mean", avg_pool2d), adaptive_pool2d("amax", max_pool2d)
TABLE = {
    "conv1d": conv1d,
    "conv2d": conv2d,
    "convolution": convolution,
    "conv_transpose2d": conv_transpose2d,
    "conv_transpose1d": conv_transpose1d,
    "max_pool2d": max_pool2d,
    "max_pool2d_with_indices": max_pool2d_with_indices,
    "max_pool1d": _as_image(max_pool2d),
    "avg_pool2d": avg_pool2d,
    "avg_pool1d": _as_image(avg_pool2d),
    "adaptive_avg_pool2d": _mean2d,
    "_adaptive_avg_pool2d": _mean2d,
    "adaptive_avg_pool1d": _adaptive1d(_mean2d),
    "adaptive_max_pool2d": _with_indices(_amax2d),
    "adaptive_max_pool1d": _with_indices(_adaptive1d(_amax2d)),
    "upsample_nearest2d": upsample_nearest2d,
    "_upsample_nearest_exact2d": upsample_nearest_exact2d,
    "upsample_bilinear2d": upsample_bilinear2d,
    "upsample_nearest1d": upsample_nearest1d,
    "_upsample_nearest_exact1d": upsample_nearest_exact1d,
    "upsample_linear1d": upsample_linear1d,
    "batch_norm": batch_norm,
    "_native_batch_norm_legit_no_training": native_batch_norm_no_training,
    "_native_batch_norm_legit_functional": native_batch_norm,
    "layer_norm": layer_norm,
    "native_layer_norm": native_layer_norm,
    "group_norm": group_norm,
    "native_group_norm": native_group_norm,
    "instance_norm": instance_norm,
    "rms_norm": rms_norm,
    "_weight_norm": weight_norm,
}
