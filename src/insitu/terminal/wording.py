"""Options in the caller's own language: flags on the command line, arguments in Python.

    option(scheme="last:4", batch=8)       --scheme last:4 --batch 8     or   scheme="last:4", batch=8
    option(rows=True)                      --rows                        or   recipe=Recipe(rows=True)
    either(shell="...", python="...")      a sentence that is different altogether
    layer_words("0")                       layer "0"
    number_of(2, "sample")                 2 samples
    Caller.teaches                         is a network of our own trained, whose settings nobody can choose?

Errors and notes are worded when they are made. Whoever makes them does not know the caller: the command line says once
that it is the one (`in_shell`), and everybody else is a Python program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

RECIPE = ("loss", "optimizer", "arithmetic", "clip", "decay", "smoothing", "grad", "rows")  # fields of a Recipe


def layer_words(name: str) -> str:
    """A layer's name within a sentence: features.0, but layer "0", where it is a number alone."""
    return name if any(map(str.isalpha, name)) else f'layer "{name}"'


class Caller:
    """Who reads what is said now."""

    is_shell = False
    teaches = False


@contextmanager
def in_shell(yes: bool = True) -> Iterator[None]:
    """Within this block, the reader is at the command line."""
    before, Caller.is_shell = Caller.is_shell, yes
    try:
        yield
    finally:
        Caller.is_shell = before


@contextmanager
def in_lesson() -> Iterator[None]:
    """Within this block a network of our own is trained: nobody can choose a scheme, an optimizer or a rate."""
    before, Caller.teaches = Caller.teaches, True
    try:
        yield
    finally:
        Caller.teaches = before


def number_of(count: int, one: str, more: str = "") -> str:
    """1 sample, 1,200 samples"""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def either(*, shell: str, python: str) -> str:
    """The words for the caller."""
    return shell if Caller.is_shell else python


def option(**settings: Any) -> str:
    """These options as the caller would write them. A value in capitals (N, NAME) stands for one of the user's."""
    if Caller.is_shell:
        return " ".join(flag(name, value) for name, value in settings.items())
    own = [f"{name}={_value(value)}" for name, value in settings.items() if name in RECIPE]
    others = [f"{name}={_value(value)}" for name, value in settings.items() if name not in RECIPE]
    return ", ".join([*others, *([f"recipe=Recipe({', '.join(own)})"] if own else [])])


def flag(name: str, value: Any = True) -> str:
    """One option on the command line."""
    return f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")


def meant(word: str, known: Iterable[str]) -> str:
    """A question after an unknown word, if it is like one of the known ones."""
    near = get_close_matches(word, list(known), 1, 0.7)
    return f" (did you mean {near[0]}?)" if near else ""


def _value(value: Any) -> str:
    """A value in Python; bytes such as 64K are a string there, and a placeholder is not."""
    if not isinstance(value, str) or (value.isupper() and value.isalpha()):
        return str(value)
    return f'"{value}"'


def one_each(names: Sequence[str]) -> str:
    """How samples are given to a model with several inputs."""
    if len(names) == 1:
        return ""
    each = ", ".join(f'"{name}": ...' for name in names)
    return either(shell=f"an .npz with one array per input: {', '.join(names)}",
                  python=f"a tuple with one array per input, ({', '.join(names)}), or a dict: {{{each}}}")  # fmt: skip
