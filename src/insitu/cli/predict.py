"""`insitu predict MODEL --data FILE`: run the generated C on samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from insitu.cli.output import add_data, count, read_data, show, target_file
from insitu.model import load

HELP = "run the generated C of a model on samples"
EXAMPLES = """\
  insitu predict model.onnx --data samples.npz              top classes of each sample
  insitu predict model.insitu --data photos/ --top 1        a folder of images, a subfolder a class
  insitu predict model.tflite --data x.npy -o y.npz         every output, by name
"""


def arguments(parser) -> None:
    parser.add_argument("model", metavar="MODEL", help=".onnx, .tflite, .pt2, .keras, .pkl or .insitu")
    add_data(parser)
    parser.add_argument("--top", type=count, default=3, metavar="K", help="classes to name for each sample (3)")
    parser.add_argument("-o", "--output", type=target_file, metavar="FILE", help="write the outputs to this .npz file")


def run(arguments) -> int:
    from insitu.reports.outputs import describe

    model = load(arguments.model)
    samples = read_data(arguments, model.graph)
    outputs = model.predict(*samples.inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    if arguments.output:
        named = {v.name: y for v, y in zip(model.graph.outputs, outputs)}
        with arguments.output.open("wb") as f:  # a file, not a name: numpy would append .npz to one
            np.savez(f, **named)  # type: ignore[arg-type]
    report = replace(describe(model.graph, outputs, samples, arguments.top), model=Path(arguments.model).stem)
    show(arguments, report.to_text(), report.to_json())
    return 0
