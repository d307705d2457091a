"""The folders are the stages, and imports go one way: a folder imports only folders before it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest

import insitu

ROOT = Path(insitu.__file__).parent

# A folder may import those on the lines before its own, but no other on its own line.
ORDER = """
errors
files terminal
graph
ops
data zoo boards
preprocess importers quantizer schemes
training
planner
codegen
toolchain
firmware
devices
deploy
learner
proof store
exporters federated
reports
pipeline
demo sklearn teach
cli
"""
LEVELS = {name: level for level, line in enumerate(ORDER.split("\n")) for name in line.split()}


def stage_of(path: Path) -> str:
    """The folder of a file, or the file itself if it is in the package's root."""
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and stage of every import of our own, including those inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "insitu":
            parts = (node.module or "").split(".")
            yield from ((node.lineno, part) for part in (parts[1:2] or [a.name for a in node.names]))
        elif isinstance(node, ast.Import):
            names = [a.name.split(".") for a in node.names if a.name.startswith("insitu.")]
            yield from ((node.lineno, name[1]) for name in names)


def violations(path: Path, text: str) -> Iterator[str]:
    """Imports that go the wrong way, with both names."""
    stage = stage_of(path)
    for line, other in imported(ast.parse(text)):
        if other != stage and other in LEVELS and LEVELS[other] >= LEVELS[stage]:
            yield f"{path.relative_to(ROOT)}:{line}: {stage} imports {other}, which does not stand before it"


def sources() -> list[Path]:
    return [p for p in sorted(ROOT.rglob("*.py")) if p.parent != ROOT or stage_of(p) in LEVELS]


def test_imports_go_one_way():
    found = [v for path in sources() for v in violations(path, path.read_text())]
    assert not found, found[0]


def test_every_folder_has_a_place_in_the_order():
    stages = {p.name for p in ROOT.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    assert stages <= set(LEVELS), f"no place for {sorted(stages - set(LEVELS))}"


def test_the_root_holds_few_modules():
    loose = {p.stem for p in ROOT.glob("*.py")} - {"__init__", "__main__"}
    assert loose == {"errors", "files"}


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("graph/x.py", "from insitu.ops import relu", ("graph", "ops")),
        ("codegen/x.py", "def f():\n    from insitu import pipeline", ("codegen", "pipeline")),
        ("importers/x.py", "import insitu.quantizer.fold", ("importers", "quantizer")),
    ],
)
def test_an_import_that_goes_back_is_named(path: str, text: str, names: tuple[str, str]):
    (found,) = violations(ROOT / path, text)
    assert f"{names[0]} imports {names[1]}" in found


def test_importing_insitu_imports_no_framework():
    import subprocess
    import sys

    heavy = ("torch", "onnx", "scipy", "keras", "sklearn", "pandas", "unicorn", "ai_edge_litert")
    code = f"import sys, insitu; print([m for m in {heavy!r} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_every_public_name_is_found_when_it_is_used():
    assert set(insitu.HOMES) < set(insitu.__all__) and set(insitu.__all__) <= set(dir(insitu))
    for name in insitu.__all__:
        assert getattr(insitu, name).__name__ == name
    kinds = {
        c.__name__ for c in vars(insitu.errors).values() if isinstance(c, type) and c.__module__ == "insitu.errors"
    }
    assert kinds <= set(insitu.__all__), "whatever insitu raises or warns of can be caught by its public name"
    assert insitu.graph.parse.__module__.startswith("insitu.graph")
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        insitu.colour  # noqa: B018


@pytest.mark.parametrize(
    "verb, words", [("train", "compile(model, data=x).fit"), ("info", "insitu.open"), ("check", "command")]
)
def test_a_command_that_is_no_function_says_what_to_write_in_python(verb, words):
    with pytest.raises(AttributeError, match=re.escape(f"no attribute '{verb}': ")) as e:
        getattr(insitu, verb)
    assert words in str(e.value)


def test_every_command_is_found_in_python_or_says_what_to_write():
    for verb in (module.__name__.rpartition(".")[2] for module in insitu.cli.VERBS):
        assert hasattr(insitu, verb) or verb in insitu.VERBS, verb


@pytest.mark.parametrize("name", insitu.__all__)
def test_help_says_what_every_public_name_and_its_methods_are_for(name):
    found = getattr(insitu, name)
    assert name in re.findall(r"\w+", insitu.__doc__), "help(insitu) names it"
    assert found.__doc__ and not found.__doc__.startswith(f"{name}("), "not only the fields of a dataclass"
    homes = [c for c in found.__mro__ if c.__module__.startswith("insitu.")] if isinstance(found, type) else []
    members = [getattr(found, m) for home in homes for m in vars(home) if not m.startswith("_")]
    told = [m for m in members if callable(m) or isinstance(m, (property, cached_property))]
    assert [m for m in told if not m.__doc__] == []
