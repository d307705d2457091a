"""`insitu search MODEL`: which layers to train within a budget, from the least memory to all of it."""

from __future__ import annotations

import shlex
from typing import Any

from insitu.cli.again import again
from insitu.cli.compile import add_compiler, recipe, transform_of
from insitu.cli.groups import Groups
from insitu.cli.model import add_model, add_shape, loaded
from insitu.cli.output import add_data, read_data, show
from insitu.cli.reopen import opened
from insitu.cli.values import count, rate, search_folder

# options that are about the search alone
SEARCHED = ("instructions", "millijoules", "measure", "seconds", "sram", "output", "json")
UNWRITTEN = "-o DIR writes the schemes, with a command that compiles each"
HELP = "find what to train within a budget: the best schemes, from little memory to much"
EXAMPLES = """\
  insitu search net.pkl --classes 10 --board stm32f746                     up to all of its SRAM
  insitu search net.pkl --classes 10 --board stm32f746 --sram 128K -o found
  insitu search model.onnx --data x.npz --board nrf52840 --instructions 20000000
  insitu search model.onnx --data x.npz --board nrf52840 --measure -o found     what your own samples say
  insitu search learned.insitu --board nrf52840 -o found      what a learner could train there, from what it learned
  insitu compile net.pkl --classes 10 --board stm32f746 --sram 128K --scheme found/119kb.txt
"""


def arguments(parser) -> None:
    add_model(parser)
    groups = Groups(parser)
    add_shape(groups.data)
    add_data(groups.data, required=False, help="samples to calibrate a float model for int8")
    add_compiler(groups, program=False)
    groups.board.add_argument(
        "--instructions", type=count, default=0, metavar="N", help="of one step, at most; estimated if they are many"
    )
    groups.board.add_argument(
        "--millijoules", type=rate, default=0.0, metavar="N",
        help="of one step, at most, from the instructions and the board's profile",
    )  # fmt: skip
    groups.data.add_argument(
        "--measure", action="store_true", help="find out by short trainings on the data what each part brings"
    )
    groups.data.add_argument("--seconds", type=count, default=None, metavar="N", help="for measuring, at most")
    groups.output.add_argument(
        "-o", "--output", metavar="DIR", type=search_folder, help="write scheme files and a picture to this folder"
    )


def run(arguments) -> int:
    from insitu import pipeline
    from insitu.graph.file import is_learner
    from insitu.reports.front import KEPT, front_table, score_words, write_front

    name, model, options = (learned if is_learner(arguments.model) else fresh)(arguments)
    points = pipeline.search(
        model, **options, recipe=recipe(arguments), board=arguments.board, sram=arguments.sram, flash=arguments.flash,
        instructions=arguments.instructions, millijoules=arguments.millijoules, seed=arguments.seed,
        max_classes=arguments.max_classes, measure=arguments.seconds or arguments.measure,
        kept=arguments.output and arguments.output / KEPT,
    )  # fmt: skip
    written = write_front(points, arguments.output) if arguments.output else []
    lines = [line_of(arguments, point) for point in points]
    front = [{**point.to_json(), "command": line} for point, line in zip(points, lines)]
    report = {"model": name, "board": arguments.board, "front": front, "files": [str(path) for path in written]}
    told = "\n".join(filter(None, lines)) if arguments.output else UNWRITTEN
    score = score_words(bool(arguments.seconds or arguments.measure))
    show(arguments, f"{front_table(points)}\n{score}\n\n{told}", report)
    return 0


def fresh(arguments) -> tuple[str, Any, dict[str, Any]]:
    """The name of a model, the model, and the options of a compiler for it."""
    from insitu import pipeline
    from insitu.training.train import has_targets

    graph = loaded(arguments, pipeline.load)
    transform = transform_of(arguments, graph)
    graph = transform.applied_to(graph) if transform else graph
    targets = has_targets(recipe(arguments))
    samples = read_data(arguments, graph, arguments.data, targets=targets) if arguments.data else None
    names = ("classes", "precision", "batch", "head", "head_after", "head_init", "rounding")
    return graph.name, graph, {"data": samples, **{name: getattr(arguments, name) for name in names}}


def learned(arguments) -> tuple[str, Any, dict[str, Any]]:
    """The same for a learner's file, which has all options but its samples."""
    learner, samples = opened(arguments, arguments.data)
    return learner.graphs["predict"].name, learner, {"data": samples}


def line_of(arguments, point) -> str | None:
    """The command that makes a point's program: what was typed, with its scheme. None if that was not written."""
    scheme = "head" if not point.scheme.updates else arguments.output and arguments.output / f"{point.scheme.name}.txt"
    budget = [] if point.budget_bytes is None else ["--sram", str(point.budget_bytes)]
    more = shlex.join(["--scheme", str(scheme), *budget])
    found = again(arguments.parser, arguments.words, model=str(arguments.model), without=SEARCHED, more=more,
                  prog="insitu compile")  # fmt: skip
    return found if scheme else None
