"""`insitu info FILE`: the contents of a learner's file, a model or a board's folder."""

from __future__ import annotations

from pathlib import Path

from insitu.cli.output import show
from insitu.graph.classes import class_words

HELP = "show the contents of a learner, a model or a board's folder"
EXAMPLES = """\
  insitu info gesture.insitu              classes, scheme, recipe, and how much it has learned
  insitu info model.onnx                  inputs, outputs, layers
  insitu info build/                      the board, the program and its memory
"""


def arguments(parser) -> None:
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="a .insitu, a model, a board's folder or one of samples"
    )


def run(arguments) -> int:
    from insitu.files import check_source
    from insitu.graph.file import is_learner
    from insitu.terminal.table import pairs

    path = arguments.file
    check_source(path)
    found = of_folder(path) if path.is_dir() else of_learner(path) if is_learner(path) else of_model(path)
    show(arguments, pairs([(key.replace("_", " "), _words(value)) for key, value in found.items()]), found)
    return 0


def _words(value) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items()) or "-"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def of_learner(path: Path) -> dict:
    from insitu.learner.file import open_learner

    learner = open_learner(path)
    parts, graph = learner.parts, learner.graphs["predict"]
    assert parts is not None  # a file has them
    state = {name: array for g in learner.graphs.values() for name, array in g.state.items()}
    counters = state.get("counters", ())
    return {
        "holds": "a learner", "model": graph.name, "takes": _types(graph.inputs), **_columns(graph),
        "gives": _types(graph.outputs),
        **_learns(learner.recipe.loss, learner.classes, learner.names), "scheme": parts.scheme.name,
        "trained_tensors": len(graph.state), "state_bytes": sum(a.nbytes for a in state.values()),
        "batch": parts.batch, "loss": learner.recipe.loss, "optimizer": learner.recipe.optimizer,
        "gradients": learner.recipe.grad or "f32",
        "updates": dict(zip(("skipped", "clipped", "saturated"), map(int, counters))),
    }  # fmt: skip


def of_model(path: Path) -> dict:
    from insitu.learner.model import load
    from insitu.reports.trainable import check_graph
    from insitu.schemes.layers import layers

    model = load(path)
    graph = model.graph
    width = (graph.outputs[0].shape or (1,))[-1]
    return {
        "holds": "a model", "model": graph.name, "takes": _types(graph.inputs), **_columns(graph),
        "gives": _types(graph.outputs),
        "arithmetic": "int8" if model.is_int8 else "float", "ops": len(graph.nodes), "layers": len(layers(graph)),
        "parameters": sum(row.parameters for row in check_graph(graph).rows),
        "classes": class_words(width, model.classes),
    }  # fmt: skip


def of_folder(path: Path) -> dict:
    """A board's folder, a C program for no board, or samples."""
    from insitu.deploy.folder import LIFE, is_folder

    if is_folder(path) or (path / LIFE).is_file():
        return of_board(path)
    return of_program(path) if list(path.glob("*_weights.h")) else of_data(path)


def of_program(path: Path) -> dict:
    headers = sorted(p.name for p in path.glob("*.h"))
    return {
        "holds": "a C program for no board in particular", "headers": ", ".join(headers),
        "next": "docs/c-api.md says how to call it; insitu compile MODEL --board NAME -o DIR makes firmware",
    }  # fmt: skip


def of_data(path: Path) -> dict:
    """What could be learned from a folder, by its files alone."""
    from collections import Counter

    from insitu.data.class_folders import class_folders
    from insitu.data.images import IMAGES
    from insitu.errors import DataError
    from insitu.files import files_in

    kinds = {**dict.fromkeys(IMAGES, "photos"), ".wav": "sounds", ".csv": "recordings"}
    found = {p.name: files_in(p, kinds) for p in class_folders(path)}
    loose = [f for f in path.iterdir() if f.suffix.lower() in kinds]
    groups = {name: files for name, files in found.items() if files} or {"": loose}
    counts = Counter(kinds[f.suffix.lower()] for files in groups.values() for f in files)
    if not counts:
        what = "is neither the folder of a board nor one of samples"
        raise DataError(what, where=str(path), hint="a .insitu, a model, or what insitu compile -o wrote")
    kind, sure = counts.most_common(1)[0][0], "" not in groups
    use = f"insitu teach {path}, or insitu train MODEL --data {path}" if sure else f"insitu predict LEARNER {path}"
    return {
        "holds": f"{counts[kind]:,} {kind}" + (", one subfolder per class" if sure else ", without classes"),
        **({"classes": {name: len(files) for name, files in groups.items()}} if sure else {}), "next": use,
    }  # fmt: skip


def of_board(path: Path) -> dict:
    from insitu.deploy.manifest import read_manifest

    found = read_manifest(path)
    graph, figures = found.graph, found.figures
    width = (graph.outputs[0].shape or (1,))[-1]
    return {
        "holds": "a board's program", "model": found.name, "board": found.board.name, "takes": _types(graph.inputs),
        "gives": _types(graph.outputs), **_learns(found.loss, width, found.interface.classes),
        "scheme": found.scheme or "unknown: an older insitu wrote the folder",
        "functions": ", ".join(found.interface.verbs), "sram_bytes": figures["sram_bytes"],
        "flash_bytes": figures["flash_bytes"], "state_bytes": figures["state_bytes"],
    }  # fmt: skip


def _learns(loss: str, count: int, names) -> dict:
    """The classes that are told apart, or the numbers that are predicted."""
    from insitu.learner.measures import MEASURES

    words = class_words(count, names)
    if MEASURES[loss][0] == "accuracy":
        return {"classes": words}
    return {"predicts": words.partition(": ")[2] if any(names) else f"{words} number{'s' * (count != 1)}"}


def _columns(graph) -> dict:
    return {"columns": ", ".join(graph.columns)} if graph.columns else {}


def _types(values) -> str:
    return ", ".join(f"{v.name} {v.type}" for v in values)
