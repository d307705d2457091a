"""`export(learner, path)`: choose the format, write the bytes, load them back, and only then let the file appear.

What is done once for all formats is here. The formats themselves are rows of formats.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from insitu.data.arguments import optional
from insitu.errors import DataError
from insitu.exporters.chances import left_out
from insitu.exporters.compared import Comparison
from insitu.exporters.features import has_features, real_features
from insitu.exporters.formats import FORMATS, Format, format_of
from insitu.exporters.learned import learned_graph
from insitu.exporters.real import real_graph
from insitu.exporters.saturation import float_distance
from insitu.exporters.sensed import notes_about, samples_for
from insitu.exporters.written import Options
from insitu.files import check_target, write_whole
from insitu.quantizer.fold import is_int8
from insitu.terminal.misspelled import spelled
from insitu.terminal.wording import option

if TYPE_CHECKING:
    from insitu.learner import Learner

Numbers = float | Sequence[float]
PRECISIONS = (None, "int8", "float")
GIVE_LOGITS = ("litert", "onnx", "torch")
AS_THEY_ARE = ("torch", "web", "page")  # a module has no features in front, a page has the program's own
UNTRAINED = "nothing was learned yet: this is the model as it was compiled"


@dataclass(frozen=True)
class Exported:
    """A file that was written: its format, its size, notes for the user, and how equal it is to the learner."""

    path: Path
    format: str
    size_bytes: int
    notes: tuple[str, ...] = ()
    compared: tuple[Comparison, ...] = ()  # the numbers that some of the notes are about


@spelled
def export(learner: Learner, path: str | Path, *, to: str | None = None, precision: str | None = None,
           form: str | None = None, batch: int | None = None, data=None, mean: Numbers | None = None,
           std: Numbers | None = None, module=None, probabilities: bool | None = None) -> Exported:  # fmt: skip
    """Write what was learned to a file of another framework; the file appears complete, checked, or not at all.

    to          litert, litert-train, coreml, onnx or torch; None: by the suffix
    precision   "float": a float file, even if the learner is int8
    form        of an int8 ONNX file: "exact" (default) gives our integers, "qdq" is plain QDQ for other toolchains
    batch       samples per call, if the format fixes them (litert-train)
    data        samples to compare the file's results with the learner's; by default a few are drawn
    mean, std   for the metadata of a model that takes images as floats: it expects (pixel - mean) / std, pixels 0..255
    module      for torch: your own module, whose state dict is written with what was learned
    probabilities   True: the file ends in the softmax or sigmoid that the loss contains (litert, onnx)
    """
    target = Path(path)
    chosen = format_of(target, to)
    if precision not in PRECISIONS:
        raise DataError(f"precision is {precision!r}, which is unknown", hint="int8 or float")
    check_target(target)
    writer = chosen.load()
    mean, std = _numbers(mean, "mean"), _positive(_numbers(std, "std"))
    heard = chosen.name not in AS_THEY_ARE and has_features(learner.graphs["predict"])
    seen = samples_for(learner, data) if heard else data
    options = Options(precision, form, optional(batch, "batch", 1), seen, mean, std, module, probabilities or None)
    made = writer.write(learner, options)
    checked = writer.check(made.data, learner, options)
    notes = (*made.notes, *(notes_about(learner, data) if heard else ()), *map(str, checked),
             *_unrounded(learner, options, chosen), *_logits(learner, options, chosen),
             *_without_effect(chosen, options))  # fmt: skip
    if not learner.has_learned:
        notes = (UNTRAINED, *notes)
    write_whole(target, made.data)
    numbers = tuple(found for found in checked if isinstance(found, Comparison))
    return Exported(target, chosen.name, len(made.data), notes, numbers)


def _logits(learner: Learner, options: Options, chosen: Format) -> tuple[str, ...]:
    """A note on what a loss contains and the file does not: the learner's outputs, and so the file's, are before it."""
    end = left_out(learner) if chosen.name in GIVE_LOGITS and options.module is None else None
    if end is None or (options.probabilities and "probabilities" in chosen.options):
        return ()
    how = f" ({option(probabilities=True)} adds it)" if "probabilities" in chosen.options else ""
    what = f"outputs are logits, as predict gives them: the {end.name} that makes probabilities is not in the file"
    return (what + how,)


def _unrounded(learner: Learner, options: Options, chosen: Format) -> tuple[str, ...]:
    """A note on how far a float file of an int8 learner is from it: nothing is rounded there, and little saturates."""
    if options.precision != "float" or "precision" not in chosen.options or not is_int8(learned_graph(learner)):
        return ()
    graph = real_features(learned_graph(learner))
    off = float_distance(graph, real_graph(graph), options.data)
    return (f"without the roundings of int8, outputs are within {off:.1%} of the learner's largest",)


def _without_effect(chosen: Format, options: Options) -> tuple[str, ...]:
    """A note on what was given and changes nothing in this format."""
    given = [f.name for f in fields(options) if getattr(options, f.name) is not None]
    idle = [
        name for name in given if name not in chosen.options and (name, options.precision) != ("precision", "float")
    ]
    return (f"no effect on {chosen.what}: {', '.join(idle)}",) if idle else ()


def _numbers(given: Numbers | None, name: str) -> tuple[float, ...] | None:
    if given is None:
        return None
    try:
        found = tuple(map(float, np.atleast_1d(given)))
    except (TypeError, ValueError):
        raise DataError(f"{name} must be a number, or one per channel, not {given!r}") from None
    return found


def _positive(std: tuple[float, ...] | None) -> tuple[float, ...] | None:
    if std is not None and not all(s > 0 for s in std):
        raise DataError(f"std must be above 0, not {min(std):g}", hint="the divisor of pixels: 127.5, or 255")
    return std


def into(module, learner: Learner):
    """Write what was learned into the torch module that the learner was compiled from; returns the module."""
    if not hasattr(learner, "graphs"):
        raise DataError("the module comes first, then the learner", hint="insitu.export.into(module, learner)")
    return FORMATS["torch"].load().into(module, learner)
