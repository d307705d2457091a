"""`insitu search MODEL`: which layers to train within a budget, from the least memory to all of it."""

from __future__ import annotations

from pathlib import Path

from insitu.cli.compile import add_compiler, recipe, transform_of
from insitu.cli.groups import Groups
from insitu.cli.model import add_model, add_shape, loaded
from insitu.cli.output import add_data, read_data, show
from insitu.cli.values import count, search_folder

HELP = "find what to train within a budget: the best schemes, from little memory to much"
EXAMPLES = """\
  insitu search net.pkl --classes 10 --board stm32f746                     up to all of its SRAM
  insitu search net.pkl --classes 10 --board stm32f746 --sram 128K -o found
  insitu search model.onnx --data x.npz --board nrf52840 --instructions 20000000
  insitu search model.onnx --data x.npz --board nrf52840 --measure -o found     what your own samples say
  insitu compile net.pkl --classes 10 --board stm32f746 --sram 128K --scheme found/119kb.txt
"""


def arguments(parser) -> None:
    add_model(parser, ".onnx, .tflite, .pt2, .keras or .pkl")
    groups = Groups(parser)
    add_shape(groups.data)
    add_data(groups.data, required=False, help="samples to calibrate a float model for int8")
    add_compiler(groups, program=False)
    groups.board.add_argument(
        "--instructions", type=count, default=0, metavar="N", help="of one step, at most, estimated"
    )
    groups.data.add_argument(
        "--measure", action="store_true", help="find out by short trainings on the data what each part brings"
    )
    groups.data.add_argument("--seconds", type=count, default=None, metavar="N", help="for measuring, at most")
    groups.output.add_argument(
        "-o", "--output", metavar="DIR", type=search_folder, help="write scheme files and a picture to this folder"
    )


def run(arguments) -> int:
    from insitu import pipeline
    from insitu.reports.front import KEPT, front_table, write_front
    from insitu.training.train import has_targets

    graph = loaded(arguments, pipeline.load)
    transform = transform_of(arguments, graph)
    graph = transform.applied_to(graph) if transform else graph
    targets = has_targets(recipe(arguments))
    samples = read_data(arguments, graph, arguments.data, targets=targets) if arguments.data else None
    points = pipeline.search(
        graph, classes=arguments.classes, data=samples, precision=arguments.precision, batch=arguments.batch,
        head=arguments.head, head_after=arguments.head_after, head_init=arguments.head_init,
        rounding=arguments.rounding, recipe=recipe(arguments), board=arguments.board, sram=arguments.sram,
        flash=arguments.flash, instructions=arguments.instructions, seed=arguments.seed,
        measure=arguments.seconds or arguments.measure, kept=arguments.output and arguments.output / KEPT,
    )  # fmt: skip
    written = write_front(points, arguments.output) if arguments.output else []
    lines = [again(arguments, point, arguments.output) for point in points]
    front = [{**point.to_json(), "command": line} for point, line in zip(points, lines)]
    report = {"model": graph.name, "board": arguments.board, "front": front, "files": [str(path) for path in written]}
    show(arguments, "\n\n".join(filter(None, [front_table(points), "\n".join(lines)])), report)
    return 0


def again(arguments, point, folder: Path | None) -> str:
    """The command that makes a point's program; its scheme file must have been written."""
    scheme = "head" if not point.scheme.updates else str((folder or Path("FOLDER")) / f"{point.scheme.name}.txt")
    shape = arguments.shape and "x".join(map(str, arguments.shape))
    given = {"--shape": shape, "--data": arguments.data, "--classes": arguments.classes, "--scheme": scheme}
    if arguments.board != "host":
        given |= {"--board": arguments.board, "--sram": point.budget_bytes}
    words = [f"{option} {_text(value)}" for option, value in given.items() if value is not None]
    return " ".join(["insitu compile", str(arguments.model), *words])


def _text(value) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
