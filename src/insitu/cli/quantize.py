"""`insitu quantize MODEL --data FILE`: an int8 model, and the accuracy it costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from insitu.cli.model import add_model, add_shape, loaded, taking
from insitu.cli.output import add_data, counted, read_data, say, show
from insitu.cli.values import count, model_file
from insitu.data import Samples, fit, read_held_out
from insitu.devices.host import open_host
from insitu.errors import ModelError
from insitu.graph import Graph
from insitu.learner.model import Model, load

METHODS = ("mse", "minmax", "percentile")
HELP = "make an int8 model, calibrated on samples, and show the error layer by layer"
EXAMPLES = """\
  insitu quantize model.onnx --data samples.npz                      writes model.insitu
  insitu quantize model.onnx --data samples.npz --method minmax      no calibration value is clipped
  insitu quantize model.tflite --data photos/ --pixels -1:1 -o m.insitu
"""


def arguments(parser) -> None:
    add_model(parser, "a float model: .onnx, .tflite, .pt2, .keras or .insitu")
    add_shape(parser)
    add_data(parser)
    parser.add_argument("-o", "--output", type=model_file, metavar="FILE", help="the int8 model (MODEL with .insitu)")
    parser.add_argument("--method", choices=METHODS, default=METHODS[0], help="how ranges are found (mse)")
    parser.add_argument("--int8-io", action="store_true", help="make inputs and outputs int8 too (default: float)")
    parser.add_argument("--batches", type=count, metavar="N", help="calibrate on the first N samples")
    parser.add_argument(
        "--compare", type=count, default=200, metavar="N", help="samples to compare float and int8 on (200)"
    )


def run(arguments) -> int:
    model = loaded(arguments, load)
    model = Model(taking(model.graph, arguments.pixels))
    target = arguments.output or Path(arguments.model).with_suffix(".insitu")
    if target.exists() and target.samefile(arguments.model):
        raise ModelError("would be overwritten by its own result", where=str(target), hint="-o FILE")
    if model.is_int8:
        raise ModelError("is already int8: nothing to quantise", where=arguments.model)
    samples = read_data(arguments, model.graph)
    held_out = read_held_out(arguments.data, model.graph, pixels=arguments.pixels)
    compared = (held_out or samples).head(arguments.compare)
    say(f"calibrating on {counted(samples)}; comparing on {counted(compared)}")
    made, reference = quantized(model, samples, arguments)
    report = measure(reference, made, compared.inputs)
    made.save(target)
    report = replace(report, model=Path(arguments.model).stem, output=str(target))
    show(arguments, report.to_text(), report.to_json())
    return 0


def quantized(model: Model, samples: Samples, arguments) -> tuple[Model, Graph]:
    """The int8 model, and the float graph whose values its values stand for."""
    from insitu.quantizer import calibrate, fold, quantize, reference

    inference = fold(model.graph)
    items = samples.inputs[0] if len(samples.inputs) == 1 else list(zip(*samples.inputs))
    run = {"run": open_host(inference, keep=True).values, "at_once": True}
    ranges = calibrate(inference, items, method=arguments.method, batches=arguments.batches, **run)
    made = quantize(inference, ranges, float_io=not arguments.int8_io)
    return Model(made), reference(inference, ranges)


def measure(before: Graph, made: Model, inputs):
    """Both graphs, run by the generated C with every value kept."""
    from insitu.quantizer import fold
    from insitu.reports.quantization import compare

    after = fold(made.graph)
    device = open_host(after, keep=True)

    def run_after(*x):
        return device.values(*(fit(v, a) for v, a in zip(after.inputs, x)))

    return compare(before, after, open_host(before, keep=True).values, run_after, inputs)
