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
from insitu.cli import (
    bench,
    boards,
    check,
    compile,
    demo,
    export,
    fleet,
    info,
    live,
    ops,
    predict,
    prove,
    quantize,
    run,
    search,
    teach,
    train,
    zoo,
)
from insitu.errors import Error, LearningWarning
from insitu.terminal.colour import error_text, tell
from insitu.terminal.progress import speaking
from insitu.terminal.wording import in_shell, meant

PURPOSES = (
    ("teach a model and use it", (teach, train, predict, info, export)),
    ("put it on a board", (compile, run, live, boards)),
    ("let devices learn together", (fleet,)),
    ("understand a model", (check, search, quantize, ops)),
    ("be sure of it", (prove, bench)),
    ("try it without files of your own", (demo, zoo)),
)
VERBS = tuple(verb for _, verbs in PURPOSES for verb in verbs)
MEASURES = "`insitu predict FILE --data TEST` tells the accuracy, if TEST has labels; so does `insitu train --test`"
OF_OTHERS = {  # verbs of other tools -> how it is done here
    **dict.fromkeys(("evaluate", "eval", "test", "score", "validate"), MEASURES),
    **dict.fromkeys(
        ("fit", "learn", "finetune", "fine-tune"), "`insitu teach DATA`, or `insitu train MODEL --data DATA`"
    ),
    **dict.fromkeys(("infer", "inference", "classify"), "`insitu predict MODEL FILE`"),
    **dict.fromkeys(("convert", "save"), "`insitu export FILE -o MODEL`"),
    **dict.fromkeys(("build", "generate", "codegen"), "`insitu compile MODEL --board NAME -o DIR`"),
    **dict.fromkeys(("plan", "memory", "profile"), "`insitu check MODEL`"),
}
EXAMPLES = """\
examples:
  insitu teach photos/                                          learn your photos, with nothing to choose
  insitu train model.tflite --data photos/ -o flowers.insitu    learn your photos, keep what was learned
  insitu predict flowers.insitu photo.jpg                       what is in this photo?
  insitu export flowers.insitu -o flowers.tflite                for LiteRT, Core ML, ONNX, PyTorch, the web
  insitu compile flowers.insitu --board nrf52840 -o build       what was learned, in a board's firmware
  insitu run build --data x.npz                                 train with that firmware, on an emulated core
  insitu check model.onnx                                       can it be trained, and how much memory does that take?
  insitu prove model.onnx --classes 5 --scheme last:6           are its gradients, C and memory plan correct?
  insitu demo                                                   a week of a watch's life on an emulated board

`insitu VERB --help` lists the options of a verb, with more examples.
"""


def main(argv: list[str] | None = None) -> int:
    """Run one verb and return the exit status."""
    try:
        with warnings.catch_warnings(), speaking(), in_shell():
            words = sys.argv[1:] if argv is None else argv
            arguments = parsed(words)
            arguments.words = words[1:]  # those after the verb
            warnings.simplefilter("ignore", LearningWarning)  # the verbs say it in their own way
            return arguments.run(arguments)
    except Error as e:
        tell(error_text(f"{type(e).__name__}: {e}", sys.stderr))
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `insitu ops | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class Parser(argparse.ArgumentParser):
    """Says what is wrong and how to get help, instead of listing every option."""

    def error(self, message: str):
        self.exit(2, error_text(f"{self.prog}: {message}\n  try: {self.prog} --help\n", sys.stderr))


def parsed(words: list[str]) -> argparse.Namespace:
    """The arguments. One that is unknown is an error of its verb, whose help lists the known ones."""
    top, names = parser(), [_name(verb) for verb in VERBS]
    if words and not words[0].startswith("-") and words[0] not in names:
        top.error(f"there is no verb {words[0]!r}{_instead(words[0]) or meant(words[0], names)}")
    arguments, unknown = top.parse_known_args(words)
    if unknown:
        near = meant(unknown[0], arguments.parser._option_string_actions)
        arguments.parser.error(f"unknown: {' '.join(unknown)}{near}")
    return arguments


def _instead(word: str) -> str:
    """The command for a verb that other tools have; "" for any other word."""
    return f": {OF_OTHERS[word]}" if word in OF_OTHERS else ""


def parser() -> argparse.ArgumentParser:
    top = Parser(
        prog="insitu",
        usage="insitu VERB [options]",
        description="Train neural networks where their data is: a compiler from your model to plain C99.",
        epilog=f"{listed()}\n\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"insitu {__version__}")
    verbs = top.add_subparsers(prog="insitu", metavar="VERB", required=True, help=argparse.SUPPRESS)
    for verb in VERBS:
        _add(verbs, verb)
    return top


def listed() -> str:
    """All verbs by purpose, one line each."""
    parts = (f"{purpose}:\n" + "\n".join(map(_line, verbs)) for purpose, verbs in PURPOSES)
    return "\n\n".join(parts)


def _line(verb) -> str:
    return f"  {_name(verb):<10}{verb.HELP}"


def _name(verb) -> str:
    return verb.__name__.rpartition(".")[2]


def _add(verbs, verb) -> None:
    """A verb is a module with HELP, EXAMPLES, `arguments(parser)` and `run(arguments) -> exit status`."""
    made = verbs.add_parser(
        _name(verb),
        description=verb.HELP[0].upper() + verb.HELP[1:] + ".",
        epilog=f"examples:\n{verb.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.arguments(made)
    made.add_argument("--json", action="store_true", help="print the result as JSON")
    made.set_defaults(run=verb.run, parser=made)
    made.usage = usage(made)


def usage(parser: argparse.ArgumentParser) -> str:
    """One line with what must be given; the groups below it list the options."""
    given = [a for a in parser._actions if a.required or not a.option_strings]
    return " ".join([parser.prog, *map(_given, given), "[options]"])


def _given(action: argparse.Action) -> str:
    words = " ".join([*action.option_strings[-1:], str(action.metavar or "|".join(action.choices or [action.dest]))])
    return f"[{words}{' ...' if action.nargs == '*' else ''}]" if action.nargs in ("*", "?") else words
