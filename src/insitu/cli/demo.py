"""`insitu demo`: a small real network through every stage there is."""

from __future__ import annotations

import sys

from insitu.cli.output import show

HELP = "take a small real network through every stage: load, quantise, generate C, run, measure"
EXAMPLES = """\
  insitu demo               under a minute, nothing is downloaded
  insitu demo --json        the same for a program
"""


def arguments(parser) -> None:
    """None of its own."""


def run(arguments) -> int:
    from insitu.demo import run_demo

    report = run_demo(lambda text: print(text, file=sys.stderr))
    show(arguments, report.to_text(), report.to_json())
    return 0 if report.equal else 1
