"""Every error and note speaks its reader's language: flags at the command line, arguments in Python."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.demo import TARGET, digits
from insitu.errors import DataError
from insitu.terminal.wording import either, in_shell, layer_words, option

ROOT = Path(insitu.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-zX][a-z-]*")
ARGUMENT = re.compile(
    r"\b(insitu|learner|model)\.[a-z_]+\(|\bRecipe\(|\b(classes|scheme|precision|batch|data|head|head_init|head_after|"
    r"store|max_classes|board|sram|flash|rate|epochs|views|loss|optimizer)=[\"'\w\[(.]"
)
# what speaks one language on purpose, and why
ONE_READER = {
    "cli/": "the command line itself", "demo/": "shows the command that it is",
    "federated/processes.py": "flags of Flower's commands",
    "toolchain/": "flags of compilers", "firmware/": "flags of compilers",
    "deploy/bundle_texts.py": "files for the shell", "deploy/packages.py": "files for the shell",
    "deploy/tradeoff.py": "the column is called flags", "reports/html": "colours of a style sheet",
    "importers/": "code of other frameworks", "exporters/torch/": "takes a module, so its caller is in Python",
    "store/": "a life on Linux has no command", "sklearn/": "an estimator has no command",
    "terminal/wording.py": "makes both", "terminal/misspelled.py": "arguments of calls in Python",
    "__init__.py": "is asked for names in Python",
}  # fmt: skip


@pytest.mark.parametrize("settings, shell, python", [
    ({"scheme": "last:4", "batch": 8}, "--scheme last:4 --batch 8", 'scheme="last:4", batch=8'),
    ({"rows": True, "grad": "s8"}, "--rows --grad s8", 'recipe=Recipe(rows=True, grad="s8")'),
    ({"optimizer": "adam", "batch": 8}, "--optimizer adam --batch 8", 'batch=8, recipe=Recipe(optimizer="adam")'),
    ({"head_after": "pool", "classes": "N"}, "--head-after pool --classes N", 'head_after="pool", classes=N'),
    ({"store": "64K"}, "--store 64K", 'store="64K"'),
])  # fmt: skip
def test_an_option_is_a_flag_or_an_argument(settings, shell, python):
    assert option(**settings) == python
    with in_shell():
        assert option(**settings) == shell and either(shell="a", python="b") == "a"
    assert either(shell="a", python="b") == "b"


def spoken_to(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts of a file that are neither documentation nor worded for both readers."""
    skipped = {id(n) for n in _worded(tree)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield node.lineno, "".join(parts)


def one_sided(source: str) -> list[tuple[int, str]]:
    return [(line, text) for line, text in spoken_to(ast.parse(source)) if FLAG.search(text) or ARGUMENT.search(text)]


def _worded(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        called = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("either", "option")
        named = isinstance(node, ast.Assign) and {"shell", "python"} & {
            n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)
        }
        if called or named or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield from ast.walk(node)


def test_the_library_names_no_option_in_one_language_only():
    files = [p for p in ROOT.rglob("*.py") if not p.relative_to(ROOT).as_posix().startswith(tuple(ONE_READER))]
    found = [f"{path.relative_to(ROOT)}:{line}: {text}" for path in files for line, text in one_sided(path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text, seen", [
    ('raise E("x", hint="--scheme last:2")', True), ("raise E(f'x {y} classes={n}')", True),
    ('"""Says --scheme."""', False), ('hint = either(shell="--a b", python="classes=2")', False),
])  # fmt: skip
def test_the_check_sees_what_it_should(text, seen):
    assert bool(one_sided(text)) == seen


def test_one_mistake_is_answered_in_both_languages(tmp_path, capsys):
    """Too many classes for the head, and a float model without samples."""
    data = digits()
    with pytest.raises(DataError) as error:
        insitu.compile(TARGET, classes=3, data=(data.x_train[:50], [f"c{k}" for k in data.y_train[:50]]))
    assert error.value.hint == "classes=10"
    with pytest.raises(DataError) as error:
        insitu.compile(TARGET)
    assert error.value.hint == 'data=x with typical inputs, or precision="float"'
    np.savez(tmp_path / "x.npz", x=data.x_train[:50], y=np.array([f"c{k}" for k in data.y_train[:50]]))
    assert main(["compile", str(TARGET), "--classes", "3", "--data", str(tmp_path / "x.npz")]) == 1
    assert "try: --classes 10" in capsys.readouterr().err
    assert main(["compile", str(TARGET)]) == 1
    assert "try: --data FILE with typical inputs, or --precision float" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"), [("features.0", "features.0"), ("0", 'layer "0"'), ("1.2", 'layer "1.2"'), ("conv", "conv")]
)
def test_a_layer_whose_name_is_a_number_is_called_a_layer(name, words):
    assert layer_words(name) == words
