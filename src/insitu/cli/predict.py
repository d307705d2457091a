"""`insitu predict MODEL --data FILE`: run the generated C on samples, with the model's own or a learned state."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np

from insitu.cli.compile import add_compiler, build
from insitu.cli.groups import Groups
from insitu.cli.model import add_model, add_shape, loaded
from insitu.cli.output import add_data, counted, read_data, say, show
from insitu.cli.values import count, outputs_file
from insitu.data import Samples, by_name, check_labels
from insitu.data.labels import is_number
from insitu.errors import DataError, Error
from insitu.files import replacing
from insitu.graph import Graph
from insitu.graph.classes import listed
from insitu.learner.model import Model, load

HELP = "run the generated C of a model or learner on samples"
EXAMPLES = """\
  insitu predict gesture.insitu photo.jpg                   what a learner thinks of one file
  insitu predict model.onnx --data samples.npz              top classes of each sample
  insitu predict model.insitu --data photos/ --top 1        a folder of images, one subfolder per class
  insitu predict model.tflite --data x.npy -o y.npz         every output, by name
  insitu predict model.tflite --data x.npy --state state.bin --classes 5      what `insitu train --classes 5` saved
"""


def arguments(parser) -> None:
    add_model(parser)
    parser.add_argument("files", nargs="*", metavar="FILE", help="images, .wav, .csv, .npz, .npy, or a folder")
    groups = Groups(parser, ", with --state: as in training")
    add_shape(groups.data)
    add_data(groups.data, required=False)
    groups.data.add_argument("--state", type=Path, metavar="FILE", help="use this state (`insitu train --save`)")
    groups.data.add_argument("--calibrate", metavar="FILE", help="with --state: the --data of training (float models)")
    groups.output.add_argument("--top", type=count, default=3, metavar="K", help="classes to name for each sample (3)")
    groups.output.add_argument(
        "-o", "--output", type=outputs_file, metavar="FILE", help="write the outputs to this .npz file"
    )
    add_compiler(groups)


def run(arguments) -> int:
    from insitu.reports.outputs import describe, is_scores

    if bool(arguments.files) == bool(arguments.data):
        raise DataError("nothing to predict" if not arguments.files else "two things to predict",
                        hint="insitu predict MODEL FILE ..., or --data FILE")  # fmt: skip
    model = learned(arguments) if arguments.state else loaded(arguments, load)
    scores = is_scores(model.graph.outputs[0]) and not is_taught_targets(arguments.model)
    graph = model.graph
    read = read_files if arguments.files else read_samples
    samples, files, status = read(arguments, graph, scores)
    outputs = model.predict(*samples.inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    if arguments.output:
        write_outputs(arguments.output, {v.name: y for v, y in zip(model.graph.outputs, outputs)})
    report = describe(model.graph, outputs, samples, arguments.top if scores else 0, files)
    report = replace(report, model=Path(arguments.model).stem)
    show(arguments, report.to_text(), report.to_json())
    return status


def write_outputs(path: Path, named: dict[str, np.ndarray]) -> None:
    """An .npz with one array per output; it appears complete or not at all."""
    with replacing(path) as part, part.open("wb") as f:  # a file, not a name: numpy would append .npz to one
        np.savez(f, **named)  # type: ignore[arg-type]


def learned(arguments) -> Model:
    """The model as it was when the state was saved."""
    from insitu.learner.file import state_in
    from insitu.learner.learned import learned_model

    if not arguments.calibrate and arguments.precision == "int8" and not loaded(arguments, load).is_int8:
        raise DataError(
            "a float model must be converted to int8 exactly as in training", where=arguments.model,
            hint="--calibrate FILE, the --data of training; or predict with the model that `train --save-model` wrote",
        )  # fmt: skip
    classes = arguments.classes or state_in(arguments.state)[1] or None
    whole = Namespace(**{**vars(arguments), "samples": None, "classes": classes})  # --samples: what to predict
    learner, _ = build(whole, arguments.calibrate)
    try:
        learner.load(arguments.state)
    except DataError as e:
        hint = "give the options used in training: --classes, --scheme, --batch, ...; --calibrate with its --data"
        raise DataError(e.what, where=e.where, hint=hint) from e
    return learned_model(learner)


def read_files(arguments, graph: Graph, scores: bool) -> tuple[Samples, tuple[str, ...], int]:
    """The samples of all files, the file that each comes from, and the exit status: 1 if a file cannot be read, which
    is left out. With labels, if all are classes of the model."""
    read, errors = readable(arguments, graph)
    for error in errors:
        say(f"left out: {error}")
    inputs = tuple(np.concatenate(arrays) for arrays in zip(*(samples.inputs for _, samples in read)))
    names = [own for name, samples in read for own in samples.files or _numbered(name, len(samples))]
    labels = labels_of([samples for _, samples in read], graph) if scores else None
    return Samples(inputs, labels, source=", ".join(name for name, _ in read)), tuple(names), int(bool(errors))


def readable(arguments, graph: Graph) -> tuple[list[tuple[str, Samples]], list[DataError]]:
    """The files that can be read, with their samples, and what is wrong with the others; raises if nothing is read."""
    read, errors = [], []
    for name in arguments.files:
        try:
            read.append((name, read_data(arguments, graph, name, part="test", targets=True)))
        except DataError as e:
            errors.append(e)
    if not read:
        raise errors[0]
    return read, errors


def labels_of(read: list[Samples], graph: Graph) -> np.ndarray | None:
    """The labels, if the files say them in the model's own words (subfolders named like its classes)."""
    named = {name for s in read for name in s.names}
    unknown = sorted(named - set(graph.classes))
    if unknown and named & set(graph.classes):
        say(f"note: no class of the model is named {listed(unknown, 4)}, so no labels are shown "
            f"(known: {listed(graph.classes, 12)})")  # fmt: skip
    if not all(s.labels is not None and s.names and set(s.names) <= set(graph.classes) for s in read):
        return None
    return np.concatenate([np.asarray(by_name(s, graph.classes).labels) for s in read])


def _numbered(name: str, count: int) -> list[str]:
    """A name for each sample of a file."""
    return [name] if count == 1 else [f"{name} {i}" for i in range(count)]


def is_taught_targets(path: str) -> bool:
    """Is this the file of a learner whose outputs are trained towards numbers, not classes?"""
    from insitu.learner.file import open_learner
    from insitu.training.train import has_targets

    try:
        return Path(path).suffix == ".insitu" and has_targets(open_learner(path).recipe)
    except Error:  # a model, not a learner
        return False


def read_samples(arguments, graph: Graph, scores: bool) -> tuple[Samples, tuple[str, ...], int]:
    """The test part of the data, the file of each, and the exit status. If the model's outputs are class scores, the
    labels must be its classes."""
    value = graph.outputs[0]
    samples = read_data(arguments, graph, part="test", targets=not scores)
    say(f"predicting {counted(samples)}")
    if samples.labels is None or not scores:
        return samples, samples.files, 0
    if samples.names and not any(graph.classes) and not all(map(is_number, samples.names)):
        say("note: the model does not name its classes, so the labels are not compared with them")
        return replace(samples, labels=None), samples.files, 0
    try:
        return check_labels(by_name(samples, graph.classes), value.shape[-1]), samples.files, 0
    except DataError as e:
        raise DataError(e.what, where=arguments.data) from e
