"""`insitu boards`: the known boards, their memory, and whether their firmware runs here."""

from __future__ import annotations

from insitu.cli.output import show

HELP = "list the boards a program can be compiled for"
EXAMPLES = """\
  insitu boards                        all of them
  insitu boards stm32f746              one board; its profile is a start for your own
  insitu boards stm32f746 --json > mine.json
"""
RUNS = {"unicorn": "emulated", "qemu": "emulated by QEMU, where installed", "": "compiled only"}


def arguments(parser) -> None:
    parser.add_argument("board", nargs="?", metavar="BOARD", help="a name, or your own profile.json")


def run(arguments) -> int:
    import json

    from insitu.boards import boards, find_board

    if arguments.board:
        board = find_board(arguments.board)
        show(arguments, json.dumps(board.to_json(), indent=2), board.to_json())
    else:
        show(arguments, to_text(boards().values()), [b.to_json() for b in boards().values()])
    return 0


def to_text(boards) -> str:
    from insitu.terminal.table import table

    head = ("board", "core", "SRAM", "flash", "MHz", "FPU", "DSP", "here", "what")
    rows = [
        (
            b.name, b.core.title, f"{b.sram.bytes // 1024} K", f"{b.flash.bytes // 1024} K", f"{b.clock_mhz:g}",
            "yes" if b.core.fpu else "-", "yes" if b.core.dsp else "-", RUNS[b.emulated], b.title,
        )
        for b in boards
    ]  # fmt: skip
    return table(head, rows)
