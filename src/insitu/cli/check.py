"""`insitu check MODEL`: can the model be imported and trained? The exit status says so too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from insitu.cli.model import add_model, add_shape, loaded
from insitu.cli.output import show
from insitu.cli.values import count
from insitu.errors import Error, ModelError
from insitu.importers import load
from insitu.importers.survey import form_of, survey

HELP = "list every op of a model: imported or not, trainable or not, and what to do about it"
EXAMPLES = """\
  insitu check model.onnx                 exit status 0 if at least one layer can be trained; ends with its memory
  insitu check model.tflite --json        the same as JSON
  insitu check model.pt2 --batch 4        where the file leaves the batch open
  insitu check model.onnx --shape 3x96x96 where it leaves other sizes open
  insitu check learned.insitu             the model of a learner, as it is compiled
"""


def arguments(parser) -> None:
    add_model(parser)
    add_shape(parser)
    parser.add_argument("--batch", type=count, default=1, metavar="N", help="batch size, where the file leaves it open")


def run(arguments) -> int:
    report = examine(arguments)
    show(arguments, report.to_text(), report.to_json())
    return 0 if report.trainable else 1


def examine(arguments):
    """The report on a file: on its graph, or on its list of ops if it has no graph."""
    from insitu.graph.file import is_learner
    from insitu.reports.trainable import check_graph, check_uses

    path, batch = arguments.model, arguments.batch
    try:
        graph = _model_of(path) if is_learner(path) else loaded(arguments, load, batch=batch)
        found = replace(check_graph(graph), model=Path(path).stem)
        return replace(found, totals=_totals(graph, found)) if found.trainable and batch == 1 else found
    except ModelError as problem:
        try:
            uses = survey(path)
        except (Error, OSError):
            raise problem from None  # not even a list of ops: the first error is the most helpful one
        name = Path(path).stem
        return check_uses(name, form_of(path), uses, f"{problem.where}: {problem.what}", problem.hint)


def _model_of(path):
    """The model in a learner's file, as it predicts now."""
    from insitu.learner.model import load

    return load(path).graph


def _totals(graph, found):
    from insitu.cli.totals import totals
    from insitu.terminal.progress import stage

    with stage("planning training programs"):
        return totals(graph, sum(row.parameters for row in found.rows))
