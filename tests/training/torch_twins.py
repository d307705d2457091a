"""The torch function for each op: values in NHWC and in the op's own order, attributes by name."""

import torch  # the only file of these tests that needs it

F = torch.nn.functional


def first(x):
    """Channels last to channels first."""
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def padded(x, padding, value=0.0):
    """Asymmetric padding of an image, channels first; torch's own is symmetric."""
    top, bottom, left, right = padding
    return F.pad(x, (left, right, top, bottom), value=value)


def conv2d(x, w, b=None, *, stride, padding, dilation, groups):
    return last(F.conv2d(padded(first(x), padding), first(w), b, stride, 0, dilation, groups))


def conv1d(x, w, b=None, *, stride, padding, dilation, groups):
    return last(F.conv1d(F.pad(first(x), padding), first(w), b, stride, 0, dilation, groups))


def depthwise2d(x, w, b=None, *, stride, padding, dilation):
    kernel = w.movedim(-1, 0)[:, None]
    return last(F.conv2d(padded(first(x), padding), kernel, b, stride, 0, dilation, x.shape[3]))


def conv_transpose2d(x, w, b=None, *, stride, padding, output_padding, dilation, groups):
    full = F.conv_transpose2d(first(x), first(w), b, stride, 0, output_padding, groups, dilation)
    top, bottom, left, right = padding
    return last(full[:, :, top : full.shape[2] - bottom, left : full.shape[3] - right])


def max_pool2d(x, *, kernel, stride, padding, dilation):
    image = padded(first(x), padding, float("-inf"))
    return last(F.max_pool2d(image, kernel, stride, 0, dilation))


def avg_pool2d(x, *, kernel, stride, padding, count_include_pad):
    image = padded(first(x), padding)
    inside = torch.ones_like(image) if count_include_pad else padded(torch.ones_like(first(x)), padding)
    return last(F.avg_pool2d(image, kernel, stride) / F.avg_pool2d(inside, kernel, stride))


def amax(x, *, axes, keepdims, ties):
    if ties == "even":
        return torch.amax(x, axes, keepdims)
    kept = [d for d in range(x.ndim) if d not in {a % x.ndim for a in axes}]
    y = x.permute(*kept, *(a % x.ndim for a in axes)).flatten(len(kept)).max(-1).values
    shape = [1 if d not in kept else n for d, n in enumerate(x.shape)]
    return y.reshape(shape) if keepdims else y


def batch_norm(x, scale, bias, mean, var, *, axis, epsilon, momentum):
    fixed = mean.detach(), var.detach()
    return F.batch_norm(x.movedim(axis, 1), *fixed, scale, bias, False, momentum, epsilon).movedim(1, axis)


def batch_norm_train(x, scale, bias, mean, var, *, axis, epsilon, momentum):
    running = mean.detach().clone(), var.detach().clone()
    y = F.batch_norm(x.movedim(axis, 1), *running, scale, bias, True, momentum, epsilon).movedim(1, axis)
    return (y, None, None, *running)


def layer_norm(x, scale=None, bias=None, *, dims, epsilon):
    return F.layer_norm(x, x.shape[x.ndim - dims :], scale, bias, epsilon)


def pad(x, *, pads, value):
    return F.pad(x, [n for p in reversed(pads) for n in p], value=value)


def cut(x, *, starts, stops, steps):
    return x[tuple(slice(a, b, s) for a, b, s in zip(starts, stops, steps))]


MODES = {"asymmetric": "nearest", "half_pixel": "nearest-exact"}  # torch has no nearest with aligned corners


def resize(x, *, size, coordinates, rounding):
    return last(F.interpolate(first(x), size=size, mode=MODES[coordinates]))


def prelu(x, slope):
    return torch.where(x > 0, x, x * slope)


TWINS = {
    "conv2d": conv2d,
    "conv1d": conv1d,
    "depthwise2d": depthwise2d,
    "conv_transpose2d": conv_transpose2d,
    "linear": F.linear,
    "matmul": torch.matmul,
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": lambda x, *, slope: F.leaky_relu(x, slope),
    "prelu": prelu,
    "clamp": lambda x, *, lo, hi: torch.clamp(x, lo, hi),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hard_sigmoid": lambda x, *, alpha, beta: torch.clamp(x * alpha + beta, 0, 1),
    "hard_swish": F.hardswish,
    "silu": F.silu,
    "gelu": F.gelu,
    "elu": lambda x, *, alpha: F.elu(x, alpha),
    "softplus": lambda x: F.softplus(x, threshold=1000),
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "neg": torch.neg,
    "abs": torch.abs,
    "square": torch.square,
    "erf": torch.erf,
    "softmax": lambda x, *, axis: F.softmax(x, axis),
    "log_softmax": lambda x, *, axis: F.log_softmax(x, axis),
    "max_pool2d": max_pool2d,
    "avg_pool2d": avg_pool2d,
    "mean": lambda x, *, axes, keepdims: torch.mean(x, axes, keepdims),
    "sum": lambda x, *, axes, keepdims: torch.sum(x, axes, keepdims),
    "amax": amax,
    "batch_norm": batch_norm,
    "batch_norm_train": batch_norm_train,
    "layer_norm": layer_norm,
    "dropout": lambda x, *, p: F.dropout(x, p, training=False),
    "pad": pad,
    "reshape": lambda x, *, shape: x.reshape(shape),
    "transpose": lambda x, *, perm: x.permute(perm),
    "concat": lambda *xs, axis: torch.cat(xs, axis),
    "slice": cut,
    "split": lambda x, *, sizes, axis: torch.split(x, sizes, axis),
    "resize": resize,
    "softmax_cross_entropy": lambda x, labels, *, smoothing: F.cross_entropy(
        x, labels.long(), label_smoothing=smoothing
    ),
    "soft_cross_entropy": F.cross_entropy,
    "binary_cross_entropy": F.binary_cross_entropy_with_logits,
    "mean_squared_error": F.mse_loss,
}
