"""Output: results go to stdout as text or JSON, progress goes to stderr and only if that is a terminal."""

from __future__ import annotations

import json
import math
import sys
from contextlib import contextmanager

from insitu.cli.values import count, names, pixels
from insitu.data import Samples, as_samples
from insitu.errors import DataError, Error
from insitu.graph import Graph
from insitu.terminal.colour import is_terminal, say
from insitu.terminal.wording import number_of


def show(arguments, text: str, data) -> None:
    """Print the result of a verb: `data` with --json, else `text`."""
    words = json.dumps(_plain(data), indent=2, allow_nan=False) if arguments.json else text
    try:
        print(words, flush=True)
    except BrokenPipeError:  # its reader has seen enough
        raise
    except OSError as e:
        raise Error(f"the result cannot be printed: {e.strerror}", hint="print it where there is space") from e


def _plain(data):
    """The data with null for infinity and NaN, which JSON does not have."""
    if isinstance(data, dict):
        return {str(k): _plain(v) for k, v in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(v) for v in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


@contextmanager
def progress(label: str):
    """Yields `report(done, total)`: a bar on stderr if that is a terminal, else a no-op."""
    if not is_terminal(sys.stderr):
        yield lambda done, total=None: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total=None: bar.update(task, completed=done, total=total)


def add_data(parser, required: bool = True, help: str = ".npz, .npy, .csv, or a folder of images") -> None:
    """Add the options of every verb that reads samples."""
    parser.add_argument("--data", required=required, metavar="FILE", help=help)
    parser.add_argument("--targets", type=names, metavar="NAME,..", help="columns of a .csv to learn as numbers, with "
                        "--loss mse (headed target_..., or the last ones)")  # fmt: skip
    add_label(parser)
    parser.add_argument("--samples", type=count, metavar="N", help="take the first N samples only")
    parser.add_argument(
        "--pixels",
        type=pixels,
        metavar="LO:HI",
        help="scale pixels 0..255 to this range (the one that the model or learner says it takes, else 0:1)",
    )


def add_label(parser) -> None:
    parser.add_argument(
        "--label", default="", metavar="NAME", help="column of a .csv that is the label (headed label, or the last)"
    )


def read_data(arguments, graph: Graph, path: str | None = None, *, part: str = "train", targets=False) -> Samples:
    """The checked samples of a file (default: --data); says on stderr what was left out."""
    path = arguments.data if path is None else path
    if arguments.targets and not targets:
        raise DataError("--targets are numbers, and the loss is about classes", hint="--loss mse")
    targets = arguments.targets or targets
    found = as_samples(path, graph, pixels=arguments.pixels, part=part, targets=targets, label=arguments.label)
    for note in found.notes:
        say(f"note: {path}: {note}")
    return found if arguments.samples is None else found.head(arguments.samples)


def tell(history) -> None:
    """What a fit found, how many epochs it ran, and what it warned of."""
    found = history.found and f"{history.epochs}: {history.settings}"
    for words in filter(None, [found, *(f"note: {words}" for words in history.notes)]):
        say(words)


def counted(samples: Samples) -> str:
    """`x_train, y_train of digits.npz: 300 samples`"""
    return f"{samples.source}: {number_of(len(samples), 'sample')}"
