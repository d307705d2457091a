"""Plain data and numpy arrays from a pickle, without unpickling: no class is ever called.

A pickle is a program. This file runs the few instructions that describe dicts, lists, tuples, numbers, strings and
arrays, on a stack of its own. It refuses every other instruction, and every class name except numpy's array.
pickletools, which only parses, reads the instructions. Time and memory grow with the length of the pickle, not with the
numbers in it.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from math import prod

import numpy as np

from insitu.errors import ModelError

MARK = object()
CODES = {"i1": np.int8, "u1": np.uint8, "i4": np.int32, "i8": np.int64, "f4": np.float32, "f8": np.float64}


class Array:
    """Stands for a numpy array until its state has been read."""

    def __init__(self):
        self.array: np.ndarray | None = None

    def build(self, state) -> None:
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, Dtype) or dtype.code not in CODES or dtype.order == ">":
            raise ModelError("contains an array of an unknown element type")
        form = np.dtype(CODES[dtype.code])
        sizes = all(isinstance(d, int) and d >= 0 for d in shape)
        if not sizes or not isinstance(data, bytes) or prod(shape) * form.itemsize != len(data):
            raise ModelError(f"contains an array whose data do not fit its shape {str(shape)[:80]}")
        self.array = np.frombuffer(data, form).reshape(shape, order="F" if fortran else "C")


class Dtype:
    """Stands for a numpy element type: its code, and its byte order, which comes later."""

    def __init__(self, code: str):
        self.code, self.order = code, "<"

    def build(self, state) -> None:
        self.order = state[1]


class Class:
    """Stands for a class that is named but never called."""


def read_pickle(data: bytes):
    """The object that a pickle describes; arrays are `Array`, whose `.array` has the numbers."""
    machine = _Machine(2 * len(data))
    try:
        for opcode, argument, position in pickletools.genops(data):
            if opcode.name == "STOP":
                return machine.stack[-1]
            step = STEPS.get(opcode.name)
            if step is None:
                raise ModelError(
                    f"uses the instruction {opcode.name}, which plain data does not need", where=f"byte {position}"
                )
            step(machine, argument)
    except ModelError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as e:
        raise ModelError(f"is not a well-formed pickle ({type(e).__name__})") from e
    raise ModelError("ends before its last instruction")


class _Machine:
    def __init__(self, room: int):
        self.stack: list = []
        self.memo: dict[int, object] = {}
        self.room = room  # bytes that may be made from the pickle's strings

    def push(self, thing) -> None:
        self.stack.append(thing)

    def since_mark(self) -> list:
        at = len(self.stack) - 1
        while self.stack[at] is not MARK:
            at -= 1
            if at < 0:
                raise ValueError("no mark")
        found = self.stack[at + 1 :]
        del self.stack[at:]
        return found

    def take(self, count: int) -> tuple:
        if len(self.stack) < count:
            raise ValueError("stack underflow")
        found = tuple(self.stack[-count:])
        del self.stack[-count:]
        return found


def _encode(m: _Machine, text, codec) -> bytes:
    if codec != "latin1":
        raise ModelError(f"encodes text as {codec!r}")
    m.room -= len(text)
    if m.room < 0:
        raise ModelError("expands to far more data than it contains")
    return text.encode("latin1")


def _reconstruct(m: _Machine, kind, shape, code) -> Array:
    return Array()


def _dtype(m: _Machine, code, *flags) -> Dtype:
    if not isinstance(code, str):
        raise ModelError("contains an element type without a name")
    return Dtype(code)


# names that a pickle of numpy arrays may use -> their stand-ins here
ALLOWED: dict[str, Callable | type] = {
    "numpy ndarray": Class,
    "numpy dtype": _dtype,
    "numpy.core.multiarray _reconstruct": _reconstruct,
    "numpy._core.multiarray _reconstruct": _reconstruct,
    "_codecs encode": _encode,
}


def _global(m: _Machine, name: str) -> None:
    if name not in ALLOWED:
        what = f"names {name.replace(' ', '.')[:80]!r}; only numpy arrays are read, and nothing is ever called"
        raise ModelError(what, hint="use a checkpoint of plain arrays: one with its own classes could run code")
    m.push(ALLOWED[name])


def _reduce(m: _Machine, _) -> None:
    function, arguments = m.take(2)
    if function not in (_dtype, _reconstruct, _encode) or not isinstance(arguments, tuple):
        raise ModelError("calls something that is not one of numpy's array functions")
    m.push(function(m, *arguments))


def _build(m: _Machine, _) -> None:
    (state,) = m.take(1)
    if not isinstance(m.stack[-1], Array | Dtype) or not isinstance(state, tuple):
        raise ModelError("sets the state of something that is not a numpy array")
    m.stack[-1].build(state)


def _set_items(m: _Machine, items: list) -> None:
    target = m.stack[-1]
    if not isinstance(target, dict) or len(items) % 2 or not all(isinstance(k, str) for k in items[::2]):
        raise ModelError("contains a dict whose keys are not strings")
    target.update(zip(items[::2], items[1::2]))


def _append(m: _Machine, items: list) -> None:
    if not isinstance(m.stack[-1], list):
        raise ModelError("appends to something that is not a list")
    m.stack[-1].extend(items)


def _remember(m: _Machine, index) -> None:
    m.memo[len(m.memo) if index is None else index] = m.stack[-1]


def _constant(value) -> Callable:
    return lambda m, _: m.push(value)


def _nothing(m: _Machine, _) -> None:
    pass


_VALUES = "BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE BINBYTES SHORT_BINBYTES"
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
STEPS: dict[str, Callable] = {
    **dict.fromkeys(_VALUES.split(), _Machine.push),
    **{name: lambda m, _, n=n: m.push(m.take(n)) for name, n in _TUPLES.items()},
    **dict.fromkeys(("PROTO", "FRAME"), _nothing),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "MEMOIZE"), _remember),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda m, index: m.push(m.memo[index])),
    "NONE": _constant(None),
    "NEWTRUE": _constant(True),
    "NEWFALSE": _constant(False),
    "MARK": _constant(MARK),
    "EMPTY_TUPLE": _constant(()),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "TUPLE": lambda m, _: m.push(tuple(m.since_mark())),
    "APPEND": lambda m, _: _append(m, list(m.take(1))),
    "APPENDS": lambda m, _: _append(m, m.since_mark()),
    "SETITEM": lambda m, _: _set_items(m, list(m.take(2))),
    "SETITEMS": lambda m, _: _set_items(m, m.since_mark()),
    "GLOBAL": _global,
    "STACK_GLOBAL": lambda m, _: _global(m, " ".join(map(str, m.take(2)))),
    "REDUCE": _reduce,
    "BUILD": _build,
}
