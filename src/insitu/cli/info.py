"""`insitu info FILE`: the contents of a learner's file, a model or a board's folder."""

from __future__ import annotations

from pathlib import Path

from insitu.cli.compile import class_words
from insitu.cli.output import show

HELP = "show the contents of a learner, a model or a board's folder"
EXAMPLES = """\
  insitu info gesture.insitu              classes, scheme, recipe, and how much it has learned
  insitu info model.onnx                  inputs, outputs, layers
  insitu info build/                      the board, the program and its memory
"""


def arguments(parser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a .insitu, a model, or the folder of a board")


def run(arguments) -> int:
    from insitu.graph.file import is_learner
    from insitu.terminal.table import pairs

    path = arguments.file
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
        "holds": "a learner", "model": graph.name, "takes": _types(graph.inputs), "gives": _types(graph.outputs),
        "classes": class_words(learner.classes, learner.names), "scheme": parts.scheme.name,
        "trained_tensors": len(graph.state), "state_bytes": sum(a.nbytes for a in state.values()),
        "batch": parts.batch, "loss": learner.recipe.loss, "optimizer": learner.recipe.optimizer,
        "gradients": learner.recipe.grad or "f32",
        "updates": dict(zip(("skipped", "clipped", "saturated"), map(int, counters))),
    }  # fmt: skip


def of_model(path: Path) -> dict:
    from insitu.learner.model import load
    from insitu.schemes.layers import layers

    model = load(path)
    graph = model.graph
    width = (graph.outputs[0].shape or (1,))[-1]
    return {
        "holds": "a model", "model": graph.name, "takes": _types(graph.inputs), "gives": _types(graph.outputs),
        "arithmetic": "int8" if model.is_int8 else "float", "ops": len(graph.nodes), "layers": len(layers(graph)),
        "parameters": sum(a.size for a in graph.constants.values()), "classes": class_words(width, model.classes),
    }  # fmt: skip


def of_folder(path: Path) -> dict:
    from insitu.deploy.manifest import read_manifest

    found = read_manifest(path)
    graph, figures = found.graph, found.figures
    width = (graph.outputs[0].shape or (1,))[-1]
    return {
        "holds": "a board's program", "model": found.name, "board": found.board.name, "takes": _types(graph.inputs),
        "gives": _types(graph.outputs), "classes": class_words(width, found.interface.classes),
        "functions": ", ".join(found.interface.verbs), "sram_bytes": figures["sram_bytes"],
        "flash_bytes": figures["flash_bytes"], "state_bytes": figures["state_bytes"],
    }  # fmt: skip


def _types(values) -> str:
    return ", ".join(f"{v.name} {v.type}" for v in values)
