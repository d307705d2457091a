"""`insitu bench MODEL`: how long one prediction takes, and how much memory it needs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from insitu.cli.model import add_model, add_shape, loaded
from insitu.cli.output import show
from insitu.cli.values import count
from insitu.errors import ToolError
from insitu.learner.model import load

HELP = "time a model's generated C, and show its memory"
EXAMPLES = """\
  insitu bench model.onnx                 median of 21 timings, arena, constants, multiply-adds
  insitu bench model.tflite               compared with LiteRT (XNNPACK, one thread), if installed
"""


def arguments(parser) -> None:
    add_model(parser)
    add_shape(parser)
    parser.add_argument("--repeats", type=count, default=21, metavar="N", help="take the median of N timings (21)")
    parser.add_argument("--map", action="store_true", help="draw the arena")


def run(arguments) -> int:
    from insitu.reports.memory import memory_map
    from insitu.reports.speed import machine, measure_speed

    device = loaded(arguments, load).device
    report = measure_speed(device, peers(Path(arguments.model), device), arguments.repeats)
    report = replace(report, model=Path(arguments.model).stem)
    arena = memory_map(device.plan)
    text = report.to_text() + (f"\n\n{arena.to_text()}" if arguments.map else "")
    data = {**report.to_json(), **machine(), **({"map": arena.to_json()} if arguments.map else {})}
    show(arguments, text, data)
    return 0


def peers(path: Path, device) -> dict:
    """LiteRT for a .tflite, if it is installed."""
    from insitu.reports.peers import litert_run
    from insitu.reports.speed import random_input

    if path.suffix.lower() != ".tflite":
        return {}
    try:
        return {"LiteRT": litert_run(path, [random_input(v) for v in device.graph.inputs])}
    except ToolError as e:
        print(f"no comparison: {e}", file=sys.stderr)
        return {}
