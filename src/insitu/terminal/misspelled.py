"""A public call with an argument that it does not have: which one was meant?

Python refuses such a call before it begins. The refusal is put into insitu's own words then, so a call that is right
costs nothing, and a signature stays as it is written.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from insitu.errors import ArgumentError
from insitu.terminal.wording import RECIPE, meant

# arguments of other libraries: what they are called here, and what takes their place
HERE = {"learning_rate": "rate", "lr": "rate", "validation_data": "test", "num_epochs": "epochs"}
INSTEAD = {
    "class_weight": "give the samples of a rare class more often",
    "sample_weight": "give a sample that counts more several times",
    "validation_data": "test=(x, y) only measures these samples, as Keras does; validation=(x, y) also chooses by them",
    "verbose": "progress is shown on a terminal and in a notebook; progress=lambda *about: None hides it",
    "validation_split": "validation=(x, y); without it, fit holds samples out by itself",
}

Public = TypeVar("Public", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)


def spelled(function: Public) -> Public:
    """The same function, whose callers are told the nearest name of an argument that it does not have."""

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError as e:
            unknown = None if isinstance(e, ArgumentError) else _unknown(function, named)
            if unknown is None:
                raise
        raise unknown

    return call  # type: ignore[return-value]


def all_spelled(kind: Class) -> Class:
    """The same class, with every public method and `__init__` so."""
    for name, member in list(vars(kind).items()):
        if isinstance(member, FunctionType) and (name == "__init__" or not name.startswith("_")):
            setattr(kind, name, spelled(member))
    return kind


def _unknown(function: Callable[..., Any], named: dict[str, Any]) -> ArgumentError | None:
    """The error for the first name that is none of the function's; None if there is none."""
    known = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        return None
    names = [name for name in known if name != "self"]
    wrong = next((name for name in named if name not in known), None)
    if wrong is None:
        return None
    where = function.__qualname__.removesuffix(".__init__")
    hint = "; arguments: ".join(filter(None, [INSTEAD.get(wrong), ", ".join(names)]))
    return ArgumentError(f"has no argument {wrong}{_here(wrong, names)}", where=where, hint=hint)


def _here(wrong: str, names: list[str]) -> str:
    """What an unknown argument probably means."""
    field = next(iter(get_close_matches(wrong, RECIPE, 1, 0.8)), "") if "recipe" in names else ""
    if field:
        return f" (here: recipe=insitu.Recipe({field}=...))"
    return f" (here: {HERE[wrong]})" if HERE.get(wrong) in names else meant(wrong, names)
