"""`insitu demo`: a watch lives a week in the firmware of an emulated board; a page shows what it took."""

from __future__ import annotations

from dataclasses import replace

from insitu.cli.output import say, show
from insitu.cli.values import count, saved_file

HELP = "a week of a smartwatch's life in the firmware of an emulated Cortex-M; writes report.html"
EXAMPLES = """\
  insitu demo                        under two minutes, from installed packages only; no download
  insitu demo --wearer 2 --board stm32f746
  insitu demo --board host           the same program on this computer, in seconds
  insitu demo --vision               mcunet-5fps and photos, if the zoo's cache has them
  insitu demo --audio                spoken words as raw samples, if the zoo's cache has them
"""


def arguments(parser) -> None:
    parser.add_argument("--wearer", type=count, metavar="N", help="1 to 10: the person the network has not seen (5)")
    parser.add_argument("--board", metavar="NAME", help="a board that can be emulated, or host (nrf52840)")
    parser.add_argument(
        "--epochs",
        type=count,
        metavar="N",
        help="how often each sample is learned from; of the watch, eight lessons per bout (20)",
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--vision", action="store_true", help="photos instead: needs files from `insitu zoo`")
    other.add_argument("--audio", action="store_true", help="spoken words instead: needs files from `insitu zoo`")
    parser.add_argument(
        "-o", "--output", type=saved_file, default="report.html", metavar="FILE", help="the page (report.html)"
    )


def run(arguments) -> int:
    from insitu.reports.html import write_page
    from insitu.terminal.progress import bar

    with bar() as progress:
        chosen = run_vision if arguments.vision else run_audio if arguments.audio else run_watch
        demo = chosen(arguments, progress)
    demo = replace(demo, page=write_page(demo.report, arguments.output))
    show(arguments, demo.to_text(), demo.to_json())
    return 0 if demo.equal else 1


def run_watch(arguments, progress):
    from insitu.demo.lesson import LESSON
    from insitu.demo.run import BOARD, run_demo
    from insitu.demo.watch import WEARER

    lesson = replace(LESSON, epochs=arguments.epochs or LESSON.epochs)
    return run_demo(arguments.wearer or WEARER, arguments.board or BOARD, lesson, say=say, progress=progress)


def run_vision(arguments, progress):
    from insitu.demo.vision import BOARD, run_vision_demo

    return run_vision_demo(arguments.board or BOARD, arguments.epochs, say=say, progress=progress)


def run_audio(arguments, progress):
    from insitu.demo.audio import BOARD, run_audio_demo

    return run_audio_demo(arguments.board or BOARD, arguments.epochs, say=say, progress=progress)
