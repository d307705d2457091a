"""`insitu teach FOLDER`: from a folder of examples to a learner, tested, with a report."""

from __future__ import annotations

import shlex
from pathlib import Path

from insitu.cli.output import add_label, say, show
from insitu.cli.values import export_file, index, page_file, saved_file, share, size, target_folder
from insitu.cli.watching import kept_by
from insitu.errors import DataError, Error

HELP = "learn a folder of examples: chooses a network that fits, trains, tests, and writes what you ask for"
EXAMPLES = """\
  insitu teach photos/                                   one subfolder per class; writes learned.insitu and a report
  insitu teach photos/ --board stm32f746 --build build   a network that fits this board, and its firmware
  insitu teach photos/ --export model.tflite             what was learned, for LiteRT
  insitu teach words/                                    one subfolder per class, with .wav files
  insitu teach motion/                                   one subfolder per class, with one .csv per recording
  insitu teach wine.csv                                  one example per line; the label is the last column
  insitu teach wine.csv --label quality                  another column is the label
  insitu teach more-photos/ -o learned.insitu            goes on with what is there already
"""
DEFAULT = "learned.insitu"


def arguments(parser) -> None:
    parser.add_argument(
        "data", metavar="DATA", type=Path, help="one subfolder per class, or a .csv with a label column"
    )
    add_label(parser)
    what = parser.add_argument_group("network")
    what.add_argument("--backbone", metavar="NAME", help="a network for photos or words, or `new` (the best)")
    what.add_argument("--board", metavar="B", help="choose a network that fits (`insitu boards`)")
    what.add_argument("--sram", type=size, metavar="BYTES", help="SRAM it may use, e.g. 128K")
    what.add_argument("--flash", type=size, metavar="BYTES", help="flash it may use, e.g. 512K")
    how = parser.add_argument_group("test")
    how.add_argument("--test-share", type=share, metavar="S", help="share kept for the test (0.2)")
    how.add_argument("--seed", type=index, metavar="N", help="(0)")
    out = parser.add_argument_group("output")
    out.add_argument("-o", "--output", type=saved_file, metavar="FILE", help=f"the learner ({DEFAULT})")
    out.add_argument("--again", action="store_true", help="start anew, even if the output already exists")
    out.add_argument("--build", type=target_folder, metavar="DIR", help="write the C program, and a board's firmware")
    out.add_argument("--export", type=export_file, metavar="FILE", help=".tflite, .onnx, ... (`insitu export`)")
    out.add_argument("--report", type=page_file, metavar="FILE", help="a page (the output's name with .html)")


def run(arguments) -> int:
    from insitu.learner.file import open_learner
    from insitu.teach import teach

    output = arguments.output or saved_file(DEFAULT)
    if output.suffix.lower() != ".insitu":
        raise DataError("a learner is written to an .insitu file", where=str(output), hint=_instead(output))
    go_on = open_learner(output) if output.exists() and not arguments.again else None
    if go_on is not None and _has_examples(arguments.data):
        say(f"going on with {output} (-o writes another file, --again starts anew)")
    options = {name: getattr(arguments, name) for name in ("board", "sram", "flash", "backbone", "seed", "label")}
    options |= {"strangers": arguments.output is not None}
    stopped: list = []
    try:
        taught = teach(arguments.data, **options, share=arguments.test_share, go_on=go_on, keep=stopped.append)
    except KeyboardInterrupt:
        _interrupted(stopped, output)
        raise
    written = [kept_by(taught.learner.save, output)]
    if arguments.build:
        taught.learner.write(arguments.build)
        written.append(arguments.build)
    report = arguments.report or output.with_suffix(".html")
    written.append(_page(taught, report, arguments, output))
    failed = _exported(taught.learner, arguments.export, written) if arguments.export else None
    names = [str(path) for path in written]
    show(arguments, "\n".join([str(taught), "", *(f"written to {name}" for name in names)]),
         {**taught.to_json(), "written": names})  # fmt: skip
    if failed is not None:
        raise failed
    return 0


def _instead(output: Path) -> str:
    from insitu.exporters import FORMATS

    exported = output.suffix.lower() in {row.suffix for row in FORMATS.values()}
    return f"--export {output}, beside -o {DEFAULT}" if exported else f"-o {output.with_suffix('.insitu')}"


def _has_examples(data: Path) -> bool:
    """A file, or a folder with files in its subfolders; anything else is an error, and nothing goes on."""
    return data.is_file() or any(data.glob("*/*"))


def _page(taught, path: Path, arguments, output: Path) -> Path:
    from insitu.reports.page import About, write_report

    data = arguments.data.resolve()
    words = ["insitu", "teach", str(arguments.data), "-o", str(output), "--board", "NAME", "--again"]
    about = About(
        data.stem if data.is_file() else data.name, str(output), str(arguments.build or ""), shlex.join(words)
    )
    return write_report(taught.learner, path, test=taught.test if taught.tested else None, about=about)


def _exported(learner, target: Path, written: list[Path]) -> Error | None:
    """The error if the network cannot be written for others: what was learned is shown before it."""
    try:
        learner.export(target)
    except Error as e:
        return e
    written.append(target)
    return None


def _interrupted(learners: list, output: Path) -> None:
    """Keep the learner that was being trained, if any."""
    if not learners:
        say("interrupted before anything was learned\n  to start again: the same command")
        return
    kept_by(learners[-1].save, output)
    say(f"interrupted; what was learned is in {output}\n  to go on: the same command again")
