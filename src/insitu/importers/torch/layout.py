"""aten ops that move elements and compute none, those that do nothing, and those that make constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from insitu.graph import Value
from insitu.importers.torch.call import Call, axes_of, resolve_shape

# shapes


def view(c: Call, x, *shape):
    wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
    return c.reshape(x, *resolve_shape(wanted, x.type.size))


def view_as(c: Call, x, other):
    return c.reshape(x, *other.shape)


def flatten(c: Call, x, start=0, end=-1):
    if not x.shape:
        return c.reshape(x, 1)
    start, end = start % x.type.rank, end % x.type.rank
    return c.reshape(x, *x.shape[:start], prod(x.shape[start : end + 1]), *x.shape[end + 1 :])


def unflatten(c: Call, x, dim, sizes):
    dim %= x.type.rank
    return c.reshape(x, *x.shape[:dim], *resolve_shape(sizes, x.shape[dim]), *x.shape[dim + 1 :])


def squeeze(c: Call, x, dim=None):
    gone = [a for a in axes_of(dim, x.type.rank) if x.shape[a] == 1]
    return c.reshape(x, *(d for a, d in enumerate(x.shape) if a not in gone))


def unsqueeze(c: Call, x, dim):
    dim %= x.type.rank + 1
    return c.reshape(x, *x.shape[:dim], 1, *x.shape[dim:])


def permute(c: Call, x, dims):
    return c.make("transpose", x, perm=tuple(d % x.type.rank for d in dims))


def transpose(c: Call, x, a, b):
    perm = list(range(x.type.rank))
    perm[a], perm[b] = perm[b], perm[a]
    return c.make("transpose", x, perm=tuple(perm))


def turn(c: Call, x):
    return x if x.type.rank < 2 else transpose(c, x, 0, 1)


def movedim(c: Call, x, source, destination):
    rank = x.type.rank
    sources, targets = ([a % rank for a in ([v] if isinstance(v, int) else v)] for v in (source, destination))
    perm = [a for a in range(rank) if a not in sources]
    for target, s in sorted(zip(targets, sources)):
        perm.insert(target, s)
    return permute(c, x, perm)


def expand(c: Call, x, shape, implicit=False):
    """Broadcasting to a static shape: a product with ones, along the new axes only."""
    shape = tuple(shape)
    before = (1,) * (len(shape) - x.type.rank) + x.shape
    wanted = tuple(b if d == -1 else d for b, d in zip(before, shape))
    if wanted == x.shape:
        return x
    ones = tuple(w if b == 1 else 1 for b, w in zip(before, wanted))
    return c.make("mul", x, c.constant(np.ones(ones), f"{c.name}.ones"))


def repeat(c: Call, x, times):
    x = c.reshape(x, *(1,) * (len(times) - x.type.rank), *x.shape)
    for axis, n in enumerate(times):
        if n > 1:
            x = c.make("concat", *[x] * n, axis=axis)
    return x


def tile(c: Call, x, times):
    return repeat(c, x, (*(1,) * (x.type.rank - len(times)), *times))


def pixel_shuffle(c: Call, x, factor):
    n, channels, h, w = x.shape
    split = c.step("reshape", x, shape=(n, channels // factor**2, factor, factor, h, w))
    moved = c.step("transpose", split, perm=(0, 1, 4, 2, 5, 3))
    return c.reshape(moved, n, channels // factor**2, h * factor, w * factor)


def pixel_unshuffle(c: Call, x, factor):
    n, channels, h, w = x.shape
    split = c.step("reshape", x, shape=(n, channels, h // factor, factor, w // factor, factor))
    moved = c.step("transpose", split, perm=(0, 1, 3, 5, 2, 4))
    return c.reshape(moved, n, channels * factor**2, h // factor, w // factor)


def channel_shuffle(c: Call, x, groups):
    n, channels, *rest = x.shape
    split = c.step("reshape", x, shape=(n, groups, channels // groups, *rest))
    moved = c.step("transpose", split, perm=(0, 2, 1, *range(3, 3 + len(rest))))
    return c.reshape(moved, *x.shape)


# joining and cutting


def concat(c: Call, xs, dim=0):
    return c.make("concat", *(x for x in xs if x.shape != (0,)), axis=dim % xs[0].type.rank)


def side_by_side(c: Call, xs):
    """torch.hstack"""
    return concat(c, xs, min(1, xs[0].type.rank - 1))


def roll(c: Call, x, shifts, dims=()):
    """The last elements of an axis come first."""
    shifts, dims = ([v] if isinstance(v, int) else list(v) for v in (shifts, dims))
    if len(shifts) != len(dims):
        raise c.refuse("rolling all axes as one", hint="name the axes: torch.roll(x, 1, dims=-1)")
    for by, dim in zip(shifts, dims):
        if by % x.shape[dim]:
            cut = x.shape[dim] - by % x.shape[dim]
            x = concat(c, (take(c, x, dim, cut), take(c, x, dim, 0, cut)), dim)
    return x


def stack(c: Call, xs, dim=0):
    return c.make("concat", *(unsqueeze(c, x, dim) for x in xs), axis=dim % (xs[0].type.rank + 1))


def take(c: Call, x, dim=0, start=None, end=None, step=1):
    """x[.., start:end:step, ..], with the rules of Python slices."""
    dim %= x.type.rank
    start, end, step = slice(start, end, step).indices(x.shape[dim])
    if end <= start:
        raise c.refuse("an empty slice")
    starts, stops, steps = [0] * x.type.rank, list(x.shape), [1] * x.type.rank
    starts[dim], stops[dim], steps[dim] = start, end, step
    return c.make("slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))


def narrow(c: Call, x, dim, start, length):
    start = start + x.shape[dim] if start < 0 else start
    return take(c, x, dim, start, start + length)


def select(c: Call, x, dim, index):
    dim %= x.type.rank
    index %= x.shape[dim]
    row = take(c, x, dim, index, index + 1)
    return c.reshape(row, *x.shape[:dim], *x.shape[dim + 1 :])


def split_sizes(c: Call, x, sizes, dim=0):
    if len(sizes) == 1:
        return (x,)
    return c.make("split", x, sizes=tuple(sizes), axis=dim % x.type.rank)


def split(c: Call, x, size, dim=0):
    if not isinstance(size, int):
        return split_sizes(c, x, size, dim)
    length = x.shape[dim]
    return split_sizes(c, x, [min(size, length - i) for i in range(0, length, size)], dim)


def chunk(c: Call, x, chunks, dim=0):
    return split(c, x, -(-x.shape[dim] // chunks), dim)


def unbind(c: Call, x, dim=0):
    return tuple(select(c, x, dim, i) for i in range(x.shape[dim]))


def pad(c: Call, x, pads, mode="constant", value=0.0):
    """torch's pads start from the last axis; negative pads crop."""
    if mode != "constant" and mode not in COPIED:
        raise c.refuse(f"mode {mode!r}", hint=f"constant, {', '.join(COPIED)}")
    pairs = [(pads[i], pads[i + 1]) for i in range(0, len(pads), 2)]
    full = [(0, 0)] * (x.type.rank - len(pairs)) + pairs[::-1]
    for axis, (before, after) in enumerate(full):
        if before < 0 or after < 0:
            x = take(c, x, axis, max(0, -before), x.shape[axis] - max(0, -after))
    grown = tuple((max(0, b), max(0, a)) for b, a in full)
    if mode in COPIED:
        return _copied(c, x, grown, COPIED[mode])
    return c.make("pad", x, pads=grown, value=float(value or 0.0)) if any(map(any, grown)) else x


# torch's mode -> numpy's: the added elements are copies of elements inside
COPIED = {"replicate": "edge", "reflect": "reflect", "circular": "wrap"}


def _copied(c: Call, x, pads, mode: str):
    """Copies of some elements before and after each axis: slices, joined."""
    for axis, (before, after) in enumerate(pads):
        size = x.shape[axis]
        index = np.pad(np.arange(size), (before, after), mode=mode).tolist()  # pyright: ignore
        first, last = ([take(c, x, axis, i, i + 1) for i in part] for part in (index[:before], index[before + size :]))
        x = c.make("concat", *first, x, *last, axis=axis) if first or last else x
    return x


# nothing


def nothing(c: Call, x, *_, **__):
    return x


def convert(c: Call, x, *args, **kwargs):
    """Between float types: everything is f32 here."""
    if x.dtype != "f32":
        raise c.refuse(f"a conversion of {x.type}", hint="use a model that computes in float")
    wanted = [str(a) for a in (*args, *kwargs.values()) if str(a).startswith("torch.")]
    if any(w.removeprefix("torch.") in ("int64", "int32", "int8", "uint8", "bool") for w in wanted):
        raise c.refuse(f"a conversion to {wanted[0]}", hint="use a model that computes in float")
    return x


def checked(c: Call, *_, **__):
    """Assertions about shapes and types: torch.export has checked them."""
    return


# constants


def full(c: Call, shape: Sequence[int], value=None, **_):
    return c.constant(np.full(tuple(shape), value))


def full_like(c: Call, x: Value, value=None, **_):
    return c.constant(np.full(x.shape, value))


def filled(value: float, like: bool = False):
    make = full_like if like else full
    return lambda c, x, *_, **__: make(c, x, value)


def arange(c: Call, *args, **_):
    return c.constant(np.arange(*(a for a in args if isinstance(a, int | float))))


NOTHING = ("clone", "detach", "alias", "contiguous", "lift_fresh_copy", "lift_fresh", "detach_copy", "identity")
CHECKS = ("_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range", "_check")
CONVERSIONS = ("to", "_to_copy", "type_as", "float")
TABLE = {
    **dict.fromkeys(NOTHING, nothing),
    **dict.fromkeys(CHECKS, checked),
    **dict.fromkeys(CONVERSIONS, convert),
    **dict.fromkeys(("view", "reshape", "_unsafe_view", "_reshape_alias", "reshape_copy", "view_copy"), view),
    "view_as": view_as,
    "reshape_as": view_as,
    "flatten": flatten,
    "unflatten": unflatten,
    "squeeze": squeeze,
    "unsqueeze": unsqueeze,
    "permute": permute,
    "permute_copy": permute,
    "transpose": transpose,
    "swapaxes": transpose,
    "t": turn,
    "numpy_T": lambda c, x: permute(c, x, range(x.type.rank)[::-1]),
    "mT": lambda c, x: transpose(c, x, -2, -1),
    "movedim": movedim,
    "expand": expand,
    "expand_as": lambda c, x, other: expand(c, x, other.shape),
    "broadcast_to": expand,
    "repeat": repeat,
    "tile": tile,
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "channel_shuffle": channel_shuffle,
    "native_channel_shuffle": channel_shuffle,
    "cat": concat,
    "concat": concat,
    "stack": stack,
    "hstack": side_by_side,
    "roll": roll,
    "slice": take,
    "narrow": narrow,
    "select": select,
    "split": split,
    "split_with_sizes": split_sizes,
    "chunk": chunk,
    "unbind": unbind,
    "pad": pad,
    "constant_pad_nd": lambda c, x, pads, value=0.0: pad(c, x, pads, "constant", value),
    "full": full,
    "full_like": full_like,
    "zeros": filled(0.0),
    "ones": filled(1.0),
    "zeros_like": filled(0.0, like=True),
    "ones_like": filled(1.0, like=True),
    "scalar_tensor": lambda c, value, **_: c.scalar(value),
    "arange": arange,
}
