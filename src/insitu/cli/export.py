"""`insitu export FILE -o MODEL`: what was learned, in the file of another framework."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from insitu.cli.output import show
from insitu.cli.values import count, numbers, saved_file
from insitu.exporters import FORMATS

HELP = "write what was learned for LiteRT, Core ML, ONNX, PyTorch or a web page"
EXAMPLES = """\
  insitu export gesture.insitu -o gesture.tflite                      int8, for LiteRT on phones and boards
  insitu export gesture.insitu --precision float -o gesture.tflite    the same in float
  insitu export gesture.insitu -o gesture.tflite --probabilities      ends in a softmax, as apps expect
  insitu export gesture.insitu --to litert-train -o gesture.tflite    a model that goes on learning in LiteRT
  insitu export gesture.insitu -o gesture.mlmodel                     an updatable Core ML model
  insitu export gesture.insitu -o gesture.onnx                        ONNX, equal to ours in every int8 value
  insitu export gesture.insitu -o gesture.onnx --form qdq             ONNX for toolchains that compile plain QDQ
  insitu export gesture.insitu -o gesture.html                        a page that predicts and goes on learning
  insitu export gesture.insitu -o gesture.mjs                         the same as a module for a page of your own
  insitu export gesture.insitu -o gesture.pt                          PyTorch: the weights of each layer
"""


def arguments(parser) -> None:
    parser.add_argument("learner", metavar="FILE", type=Path, help="a learner's .insitu file")
    parser.add_argument("--to", choices=tuple(FORMATS), metavar="FORMAT", help=", ".join(FORMATS) + " (by suffix)")
    parser.add_argument("-o", "--output", required=True, type=saved_file, metavar="FILE", help="the file to write")
    parser.add_argument("--precision", choices=("int8", "float"), help="arithmetic of the file (the learner's own)")
    parser.add_argument("--form", choices=("exact", "qdq"), help="of int8 ONNX: our integers (default), or plain QDQ")
    parser.add_argument("--batch", type=count, metavar="N", help="samples per call, for litert-train")
    parser.add_argument("--probabilities", action="store_true", help="the file ends in the loss's softmax or sigmoid")
    parser.add_argument("--data", metavar="FILE", help="samples to compare the file with the learner")
    parser.add_argument("--mean", type=numbers, metavar="M,..", help="of pixels 0..255, for the metadata of LiteRT")
    parser.add_argument("--std", type=numbers, metavar="S,..", help="standard deviation of pixels 0..255")


def run(arguments) -> int:
    from insitu.exporters import export
    from insitu.learner.file import open_learner

    names = ("to", "precision", "form", "batch", "data", "mean", "std", "probabilities")
    options = {name: getattr(arguments, name) for name in names}
    made = export(open_learner(arguments.learner), arguments.output, **options)
    text = [f"{made.path}: {made.format}, {made.size_bytes:,} bytes", *(f"note: {words}" for words in made.notes)]
    data = {"path": str(made.path), "format": made.format, "bytes": made.size_bytes, "notes": list(made.notes),
            "compared": [asdict(found) for found in made.compared]}  # fmt: skip
    show(arguments, "\n".join(text), data)
    return 0
