"""Windows that move over an image, NHWC: their number, their contents, and the C structs of their sizes.

Shared by convolutions, pooling and their gradients. No op is declared here.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Type
from insitu.graph.call import Scratch, Struct
from insitu.ops._types import Pair


def window_size(size: int, kernel: int, stride: int, before: int, after: int, dilation: int = 1) -> int:
    """The number of outputs of such a window along one axis."""
    span = (kernel - 1) * dilation + 1
    if min(kernel, stride, dilation) < 1 or min(before, after) < 0:
        raise GraphError(
            f"kernel {kernel}, stride {stride}, dilation {dilation}, padding {before},{after}: not possible"
        )
    if size + before + after < span:
        raise GraphError(f"a window of {span} does not fit {size} + a padding of {before} + {after}")
    return (size + before + after - span) // stride + 1


def conv_output(x: Type, w: Type, b, stride, padding, dilation, groups) -> tuple[int, ...]:
    """The output shape, or an error that says which size does not fit."""
    if x.rank != 4 or w.rank != 4:
        raise GraphError(f"conv2d needs x of rank 4 and w of rank 4, not {x} and {w}")
    n, h, wd, c = x.shape
    o, kh, kw, ci = w.shape
    if groups < 1 or ci * groups != c or o % groups:
        raise GraphError(f"{c} input and {o} output channels in {groups} groups do not fit weights {w}")
    if b is not None and b.shape != (o,):
        raise GraphError(f"the bias {b} must have one number per channel ({o})")
    oh = window_size(h, kh, stride[0], padding[0], padding[1], dilation[0])
    ow = window_size(wd, kw, stride[1], padding[2], padding[3], dilation[1])
    return n, oh, ow, o


def patches(x, kernel, stride, padding, dilation, fill: float = 0):
    """Every window of x: [N,OH,OW,KH,KW,C], a copy; the padding is `fill`."""
    if any(padding):
        x = np.pad(x, ((0, 0), padding[:2], padding[2:], (0, 0)), constant_values=fill)
    (n, h, w, c), (of_image, of_row, of_column, of_channel) = x.shape, x.strides
    oh = window_size(h, kernel[0], stride[0], 0, 0, dilation[0])
    ow = window_size(w, kernel[1], stride[1], 0, 0, dilation[1])
    moves = (of_image, of_row * stride[0], of_column * stride[1])
    taps = (of_row * dilation[0], of_column * dilation[1], of_channel)
    return np.lib.stride_tricks.as_strided(x, (n, oh, ow, *kernel, c), (*moves, *taps), writeable=False).copy()


def conv_eval(x, w, stride, padding, dilation, groups, fill=0):
    """The sums, without bias, in the type of numpy's own matmul."""
    cols = patches(x, w.shape[1:3], stride, padding, dilation, fill)
    n, oh, ow, kh, kw, c = cols.shape
    o = w.shape[0]
    cols = cols.reshape(n * oh * ow, kh * kw, groups, c // groups).transpose(2, 0, 1, 3)
    cols = cols.reshape(groups, n * oh * ow, -1)
    weights = w.reshape(groups, o // groups, -1).transpose(0, 2, 1)
    return (cols @ weights).transpose(1, 0, 2).reshape(n, oh, ow, o)


def centred(x, zero: int) -> np.ndarray:
    """x - zero in float64, where products and sums of int8 are exact and matmul is fast."""
    return x.astype(np.float64) - zero


def integer_sums(sums, b) -> np.ndarray:
    """Exact float64 sums as integers, with the bias."""
    acc = sums.astype(np.int64)
    return acc if b is None else acc + b


def conv_shape(y, x, w, stride, padding, dilation, groups) -> Struct:
    """The C struct of a convolution's sizes."""
    n, h, wd, c = x.shape
    _, oh, ow, o = y.shape
    return Struct(
        "conv2d_shape",
        n=n, h=h, w=wd, c=c, oh=oh, ow=ow, o=o, kh=w.shape[1], kw=w.shape[2],
        sh=stride[0], sw=stride[1], dh=dilation[0], dw=dilation[1], pt=padding[0], pl=padding[2], groups=groups,
    )  # fmt: skip


def is_pointwise(*, h, w, oh, ow, kh, kw, sh, sw, **_) -> bool:
    """A 1x1 kernel with stride one: one output per input."""
    return kh * kw * sh * sw == 1 and (oh, ow) == (h, w)


def depthwise_output(x: Type, w: Type, b, stride, padding, dilation) -> tuple[int, ...]:
    if x.rank != 4 or w.rank != 3:
        raise GraphError(f"depthwise2d needs x of rank 4 and w of rank 3, not {x} and {w}")
    n, h, wd, c = x.shape
    kh, kw, o = w.shape
    if o % c:
        raise GraphError(f"{o} output channels are not a multiple of {c} input channels")
    if b is not None and b.shape != (o,):
        raise GraphError(f"the bias {b} must have one number per channel ({o})")
    oh = window_size(h, kh, stride[0], padding[0], padding[1], dilation[0])
    ow = window_size(wd, kw, stride[1], padding[2], padding[3], dilation[1])
    return n, oh, ow, o


def depthwise_eval(x, w, stride, padding, dilation):
    """The sums, without bias."""
    cols = patches(x, w.shape[:2], stride, padding, dilation)
    weights = w.reshape(*w.shape[:2], x.shape[3], -1)
    sums = np.einsum("nijuvc,uvcm->nijcm", cols, weights)
    return sums.reshape(*sums.shape[:3], -1)


def taps_scratch(kernel) -> Scratch:
    """Space for a list of all taps: two pointers and a number each."""
    return Scratch(24 * kernel[0] * kernel[1])


def depthwise_shape(y, x, w, stride, padding, dilation) -> Struct:
    """The C struct of a convolution's sizes, in as many groups as there are input channels."""
    n, h, wd, c = x.shape
    _, oh, ow, o = y.shape
    return Struct(
        "conv2d_shape",
        n=n, h=h, w=wd, c=c, oh=oh, ow=ow, o=o, kh=w.shape[0], kw=w.shape[1],
        sh=stride[0], sw=stride[1], dh=dilation[0], dw=dilation[1], pt=padding[0], pl=padding[2], groups=c,
    )  # fmt: skip


def pool_output(x: Type, kernel, stride, padding, dilation=(1, 1)) -> tuple[int, ...]:
    if x.rank != 4:
        raise GraphError(f"pooling needs x of rank 4, not {x}")
    n, h, w, c = x.shape
    oh = window_size(h, kernel[0], stride[0], padding[0], padding[1], dilation[0])
    ow = window_size(w, kernel[1], stride[1], padding[2], padding[3], dilation[1])
    for size, count, k, s, d, before in zip((h, w), (oh, ow), kernel, stride, dilation, padding[::2]):
        if before > (k - 1) * d or (count - 1) * s - before >= size:
            raise GraphError(f"with padding {padding}, a window of {kernel} can lie entirely on padding")
    return n, oh, ow, c


def pool_shape(y, x, kernel, stride, padding, dilation=(1, 1)) -> Struct:
    """The C struct of a convolution's sizes, used for windows."""
    n, h, w, c = x.shape
    return Struct(
        "conv2d_shape",
        n=n, h=h, w=w, c=c, oh=y.shape[1], ow=y.shape[2], o=c, kh=kernel[0], kw=kernel[1],
        sh=stride[0], sw=stride[1], dh=dilation[0], dw=dilation[1], pt=padding[0], pl=padding[2], groups=c,
    )  # fmt: skip


def window_counts(size: Pair, kernel, stride, padding, count_include_pad):
    """The divisor of each window: [1,OH,OW,1]."""
    inside = patches(np.ones((1, *size, 1)), kernel, stride, padding, (1, 1), fill=float(count_include_pad))
    return inside.sum(axis=(3, 4)).astype(np.int64)


def scatter_patches(cols, size, kernel, stride, padding, dilation):
    """The adjoint of `patches`: [N,OH,OW,KH,KW,C] summed back to [N,H,W,C]."""
    n, oh, ow, _, _, c = cols.shape
    top, bottom, left, right = padding
    out = np.zeros((n, size[0] + top + bottom, size[1] + left + right, c), cols.dtype)
    for u in range(kernel[0]):
        for v in range(kernel[1]):
            i, j = u * dilation[0], v * dilation[1]
            out[:, i : i + oh * stride[0] : stride[0], j : j + ow * stride[1] : stride[1]] += cols[:, :, :, u, v]
    return out[:, top : top + size[0], left : left + size[1]]
