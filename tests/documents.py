"""Documents that run: the Python in a page is executed, and the text below it must be what it printed.

A ```python block followed by a ```text block is code and its output; blocks of one page share their names. A
```console block has `$ insitu ...` lines, each followed by its output. Other blocks are left alone.
"""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from insitu.cli import main
from insitu.terminal.lines import Lines

PYTHON = r"```python\n(?P<code>.*?)```\n(?P<gap>\n*)(?P<text>```text\n.*?```)?"
BLOCKS = re.compile(PYTHON + r"|```console\n(?P<console>.*?)```", re.S)


def regenerate(page: str) -> str:
    """The page with the current output of every block."""
    names: dict = {}

    def replaced(m: re.Match) -> str:
        return _console(m["console"]) if m["console"] else _python(m, names)

    return BLOCKS.sub(replaced, page)


def _python(m: re.Match, names: dict) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(m["code"], "<page>", "exec"), names)
    if m["text"] is None:
        return m[0]
    return f"```python\n{m['code']}```\n{m['gap']}```text\n{_tidy(printed.getvalue())}```"


def _console(block: str) -> str:
    commands = [line for line in block.splitlines() if line.startswith("$ insitu ")]
    return "```console\n" + "".join(f"{c}\n{_tidy(_run(c))}" for c in commands) + "```"


def _run(command: str) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), patch.object(Lines, "_say"):  # those depend on the clock
        main(shlex.split(command)[2:])
    return printed.getvalue()


def _tidy(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())
