"""Where words go: results on stdout as text or JSON, progress on stderr and only where someone watches."""

from __future__ import annotations

import json
import math
import sys
from argparse import ArgumentTypeError
from contextlib import contextmanager
from pathlib import Path

from insitu.data import Samples, read_samples
from insitu.graph import Graph


def show(arguments, text: str, data) -> None:
    """The result of a verb: `data` with --json, else `text`."""
    print(json.dumps(_plain(data), indent=2, allow_nan=False) if arguments.json else text)


def _plain(data):
    """JSON has no infinity and no NaN: null says that there is no number."""
    if isinstance(data, dict):
        return {str(k): _plain(v) for k, v in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(v) for v in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


@contextmanager
def progress(label: str):
    """Gives `report(done, total)`, a bar on stderr where that is a terminal and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total=None: bar.update(task, completed=done, total=total)


def add_data(parser, required: bool = True) -> None:
    """The options of every verb that reads samples."""
    parser.add_argument("--data", required=required, metavar="FILE", help=".npz, .npy, .csv, or a folder of images")
    parser.add_argument("--samples", type=count, metavar="N", help="take the first N samples only")
    parser.add_argument(
        "--pixels", type=_pixels, default=(0.0, 1.0), metavar="LO:HI", help="what 0..255 of an image becomes (0:1)"
    )


def read_data(arguments, graph: Graph) -> Samples:
    samples = read_samples(arguments.data, graph, pixels=arguments.pixels)
    return samples if arguments.samples is None else samples.head(arguments.samples)


def count(text: str) -> int:
    """An argparse type: a number of something, at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(text)
    return int(text)


def target_file(text: str) -> Path:
    """An argparse type: a file that can be written, found out before the work and not after it."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise ArgumentTypeError(f"{path} is not a file that can be written")
    return path


def _pixels(text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    return float(low), float(high)
