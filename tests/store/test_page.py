"""The page about a learner's life is true: its program runs as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "continual.md"


def test_the_program_on_the_page_runs_and_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    pytest.importorskip("sklearn")
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert code is not None
    monkeypatch.chdir(tmp_path)
    exec(compile(code[1], str(PAGE), "exec"), {})
    told, score = capsys.readouterr().out.splitlines()[-2:]
    assert "guards" in told and float(score.split("%")[0]) > 85 and (tmp_path / "life" / "bank0").exists()
