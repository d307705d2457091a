"""`insitu ops [NAME]`: what the registry knows."""

from __future__ import annotations

from insitu.cli.output import show

HELP = "list all ops, or everything about one of them"
EXAMPLES = """\
  insitu ops                 a line an op: meaning, gradient, kernels, importers
  insitu ops conv2d          where it is declared, its attributes, kernels, cases and tests
  insitu ops --json          the same for a program
"""


def arguments(parser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="an op, for instance conv2d")


def run(arguments) -> int:
    from insitu.reports.ops import all_ops, op_info, ops_table

    if arguments.name:
        info = op_info(arguments.name)
        show(arguments, info.to_text(), info.to_json())
        return 0
    infos = all_ops()
    show(arguments, ops_table(infos), [i.to_json() for i in infos])
    return 0
