"""A test that is skipped, or expected to fail, says why."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent


def silent(text: str) -> Iterator[int]:
    """Lines of `pytest.skip()`, `pytest.xfail()` and their marks that give no reason."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            reasons = [k.value for k in node.keywords if k.arg in ("reason", "msg")]
            reasons += node.args if name in ("pytest.skip", "pytest.xfail") else []
            if name in SKIPS and not any(ast.unparse(r) not in ("''", "None") for r in reasons):
                yield node.lineno
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in MARKS and not _is_called(text, node):
            yield node.lineno


MARKS = {f"pytest.mark.{name}" for name in ("skip", "skipif", "xfail")}
SKIPS = {"pytest.skip", "pytest.xfail", *MARKS}


def _is_called(text: str, mark: ast.Attribute) -> bool:
    return any(isinstance(n, ast.Call) and n.func.lineno == mark.lineno for n in ast.walk(ast.parse(text))
               if isinstance(n, ast.Call) and ast.unparse(n.func) == ast.unparse(mark))  # fmt: skip


def test_every_skip_says_why():
    found = [f"{p.relative_to(TESTS)}:{line}" for p in sorted(TESTS.rglob("*.py")) for line in silent(p.read_text())]
    assert not found, found


def test_a_skip_without_a_reason_is_found():
    calls = 'pytest.skip()\npytest.xfail("")\n@pytest.mark.xfail\ndef a(): ...\n@pytest.mark.skip()\ndef b(): ...\n'
    assert sorted(silent(calls)) == [1, 2, 3, 5]
    assert not list(silent('pytest.skip("no board")\n@pytest.mark.xfail(reason="torch rounds")\ndef a(): ...\n'))
