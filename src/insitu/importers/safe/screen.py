"""Is a .pt2 or .keras file worth starting its framework for? If not, `screen(path)` raises a ModelError.

Checks the zip structure (zipped.py), the json parts, and for .keras that every class and function is one of Keras's
own: a file must not choose what gets imported or called. The loader checks the weights and the meaning of the graph.
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from insitu.errors import ModelError
from insitu.importers.safe.zipped import MAX_PART, parts

MAX_DEPTH = 200  # of nested json
MAX_DIGITS = 400  # of an integer: reading one takes time quadratic in its length
CONFIG = "config.json"
LOAD_IT = "load it with keras in Python, where its classes are known, and pass the model to insitu.load"


def screen(path: Path) -> None:
    """Returns nothing, or raises a ModelError that says what is wrong and where."""
    look = LOOKS.get(path.suffix.lower())
    if look is None:
        raise ModelError(f"is none of {', '.join(LOOKS)}", where=str(path))
    found = set()
    for name, data in parts(path, lambda name: name.endswith(".json")):
        if name.endswith(".json"):
            found.add(name)
            try:
                look(name, None if data is None else json_of(data))
            except ModelError as e:
                raise ModelError(e.what, where=": ".join(filter(None, (str(path), name, e.where))), hint=e.hint) from e
    if not found or (look is _look_at_keras and CONFIG not in found):
        raise ModelError("is a zip file, but contains no model", where=str(path))


def _look_at_program(name: str, tree: dict | None) -> None:
    """Being json is enough: the loader checks its own schema."""


def _look_at_keras(name: str, tree: dict | None) -> None:
    if name != CONFIG:
        return
    if tree is None:
        raise ModelError(f"is over {MAX_PART >> 20} MB, which is too large for the description of a network")
    for trail, node in _nodes(tree):
        if isinstance(node, dict) and "class_name" in node:
            _check_class(node, ".".join(map(str, trail)))


LOOKS = {".pt2": _look_at_program, ".keras": _look_at_keras}


def _check_class(node: dict, where: str) -> None:
    """A class or function must be one of Keras's own; Python builtins and code in the file are refused."""
    kind, module = node["class_name"], node.get("module")
    if not isinstance(kind, str) or not isinstance(module, str | None):
        raise ModelError("has a class name that is not text", where=where)
    if kind == "__lambda__":
        raise ModelError("carries Python code, which is not run", where=where, hint=LOAD_IT)
    name = str(node.get("config") if kind == "function" else kind)[:80]
    package = (module or "keras").split(".")[0]
    own = package == "keras" or (package == "builtins" and kind == "function" and not hasattr(builtins, name))
    if not own:  # Keras writes its own functions as builtins
        raise ModelError(
            f"needs {module[:80] if module else ''}.{name}, which is not part of Keras", where=where, hint=LOAD_IT
        )


# json


def json_of(data: bytes) -> dict:
    try:
        tree = json.loads(data.decode(), parse_int=_integer)
    except (ValueError, RecursionError) as e:
        raise ModelError(f"is not json ({str(e)[:100]})") from e
    if not isinstance(tree, dict):
        raise ModelError("is not a json object")
    if any(len(trail) > MAX_DEPTH for trail, _ in _nodes(tree)):
        raise ModelError(f"is nested deeper than {MAX_DEPTH}")
    return tree


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of {len(text):,} digits")
    return int(text)


def _nodes(tree: dict | list) -> Iterator[tuple[list, dict | list]]:
    """(keys that lead to it, object or list) for everything nested, without recursion or a list of everything."""
    trail: list[Any] = []
    yield trail, tree
    open_nodes = [_items(tree)]
    while open_nodes:
        for key, node in open_nodes[-1]:
            if isinstance(node, dict | list):
                trail.append(key)
                yield trail, node
                open_nodes.append(_items(node))
                break
        else:
            open_nodes.pop()
            del trail[-1:]


def _items(node: dict | list) -> Iterator[tuple[Any, Any]]:
    return iter(node.items()) if isinstance(node, dict) else iter(enumerate(node))
