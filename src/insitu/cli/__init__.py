"""The command line: `insitu VERB ...`. Each verb has its own file; this one parses, dispatches and reports errors.

A user's mistake prints without a traceback and exits with 1, a wrong command line exits with 2. A bug keeps its
traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings

from insitu import __version__
from insitu.cli import bench, boards, check, compile, demo, export, info, ops, predict, prove, quantize, run, train, zoo
from insitu.cli.hints import message
from insitu.errors import Error, LearningWarning

VERBS = (train, predict, export, info, compile, run, check, quantize, prove, bench, boards, ops, demo, zoo)
EXAMPLES = """\
examples:
  insitu train model.tflite --data photos/ -o flowers.insitu   learn your photos, keep what was learned
  insitu predict flowers.insitu photo.jpg             what is in this photo?
  insitu compile flowers.insitu --board nrf52840 -o build      what was learned, in a board's firmware
  insitu export flowers.insitu -o flowers.tflite      what was learned, for LiteRT, Core ML, ONNX or PyTorch
  insitu info flowers.insitu                          what does this file hold?
  insitu check model.onnx                             can it be imported, and trained?
  insitu ops conv2d                                   everything about one op
  insitu quantize model.onnx --data samples.npz       an int8 model, and what that cost
  insitu compile model.onnx --data x.npz --classes 5  a program in C that trains it
  insitu compile model.onnx ... --board stm32f746 -o build    firmware for a board
  insitu run build --data x.npz                       train with that firmware, on an emulated core
  insitu train model.onnx --data x.npz --classes 5    train it here, with that program
  insitu predict model.insitu --data samples.npz      run the generated C
  insitu prove model.onnx --classes 5 --scheme last:6  are its gradients, C and memory plan correct?
  insitu bench model.tflite                           time and memory
  insitu demo                                         a watch learns its wearer on an emulated board
  insitu zoo                                          named models and data sets
"""


def main(argv: list[str] | None = None) -> int:
    """Run one verb and return the exit status."""
    arguments = parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LearningWarning)  # the verbs say it in their own way
            return arguments.run(arguments)
    except Error as e:
        print(message(e), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `insitu ops | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class Parser(argparse.ArgumentParser):
    """Says what is wrong and how to get help, instead of listing every option."""

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message}\n  try: {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    top = Parser(
        prog="insitu",
        description="Train neural networks where their data is: a compiler from your model to plain C99.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"insitu {__version__}")
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in VERBS:
        _add(verbs, verb)
    return top


def _add(verbs, verb) -> None:
    """A verb is a module with HELP, EXAMPLES, `arguments(parser)` and `run(arguments) -> exit status`."""
    made = verbs.add_parser(
        verb.__name__.rpartition(".")[2],
        help=verb.HELP,
        description=verb.HELP[0].upper() + verb.HELP[1:] + ".",
        epilog=f"examples:\n{verb.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.arguments(made)
    made.add_argument("--json", action="store_true", help="print the result as JSON")
    made.set_defaults(run=verb.run)
