"""The groups that a verb's options are listed in, in the order in which a user thinks of them."""

from __future__ import annotations

from argparse import ArgumentParser

from insitu.cli.values import page_file


class Groups:
    """Groups of a verb's options; `--help` leaves out those that stay empty.

    note        said in the title of the groups that are about the training program
    """

    def __init__(self, parser: ArgumentParser, note: str = ""):
        self.data = parser.add_argument_group("data")
        self.pixels = parser.add_argument_group(f"incoming pixels or sound{note}")
        self.trained = parser.add_argument_group(f"what is trained{note}")
        self.how = parser.add_argument_group(f"how it is trained{note}")
        self.board = parser.add_argument_group(f"board and memory{note}")
        self.output = parser.add_argument_group("output")

    def add_report(self) -> None:
        """Add --report, for verbs that have a learner."""
        words = "write an HTML page: does it fit, how accurate, how fast, what next"
        self.output.add_argument("--report", type=page_file, metavar="FILE", help=words)
