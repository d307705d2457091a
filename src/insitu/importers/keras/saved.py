"""The settings that a Keras model was compiled with, as its .keras file has them: `saved_settings(path)`.

They are read from config.json as data: no class is looked up, and no code runs. compiled.py says what they mean here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from insitu.errors import ModelError
from insitu.importers.safe.screen import CONFIG, json_of
from insitu.importers.safe.zipped import parts

SUFFIX = ".keras"


class Stored:
    """An object as a file describes it: the name of its class, and its settings as attributes."""

    def __init__(self, class_name: str, settings: dict[str, Any]):
        self.class_name, self.settings = class_name, settings

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["settings"][name]
        except KeyError:
            raise AttributeError(f"{self.class_name} in the file has no {name}") from None


def is_file(model: Any) -> bool:
    return isinstance(model, str | Path) and Path(model).suffix.lower() == SUFFIX


def saved_settings(path: str | Path) -> Stored | None:
    """The arguments of `compile` in a file, and `every`: is no layer frozen? None if it was not compiled, or is no such
    file: the loader says so."""
    try:
        found = [data for name, data in parts(Path(path), lambda name: name == CONFIG) if name == CONFIG and data]
        whole = json_of(found[0]) if found else {}
    except (ModelError, OSError):
        return None
    tree = whole.get("compile_config")
    if not isinstance(tree, dict):
        return None
    given = {name: _stored(value) for name, value in tree.items()}
    return Stored("compile", {**given, "every": not _frozen(whole.get("config"))})


def _frozen(tree: Any) -> bool:
    """Is there a layer that does not learn?"""
    if isinstance(tree, dict):
        return tree.get("trainable") is False or any(map(_frozen, tree.values()))
    return isinstance(tree, list) and any(map(_frozen, tree))


def _stored(value: Any) -> Any:
    """An object of the file in the form above; a function is its name."""
    if isinstance(value, list):
        return [_stored(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind, config = value.get("class_name"), value.get("config")
    if kind == "function" and isinstance(config, str):
        return config
    if isinstance(kind, str) and isinstance(config, dict):
        return Stored(kind, {name: _stored(item) for name, item in config.items()})
    return {name: _stored(item) for name, item in value.items()}
