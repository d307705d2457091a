"""`insitu ops [NAME]`: what the registry knows."""

from __future__ import annotations

from insitu.cli.output import show

HELP = "list all ops, or everything about one of them"
EXAMPLES = """\
  insitu ops                 one line per op: meaning, gradient, kernels, importers
  insitu ops conv2d          where it is declared, its attributes, kernels, cases and tests
  insitu ops Conv            what an ONNX, LiteRT or torch op becomes
  insitu ops --json          the same as JSON
"""


def arguments(parser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="an op: conv2d, or a format's name for it (CONV_2D)")


def run(arguments) -> int:
    from insitu.reports.ops import all_ops, find_ops, ops_table

    if arguments.name:
        found = find_ops(arguments.name)
        data = [info.to_json() for info in found]
        show(arguments, "\n\n".join(info.to_text() for info in found), data if len(data) > 1 else data[0])
        return 0
    infos = all_ops()
    show(arguments, ops_table(infos), [i.to_json() for i in infos])
    return 0
