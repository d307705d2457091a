"""Train neural networks where their data is: a compiler from your model to plain C99.

    import insitu

    learner = insitu.compile("model.onnx", data=x, classes=["rest", "wave"])  # a C program that trains the model
    print(learner.fit(x, y))                         # runs it here; finds rates and epochs by itself
    print(learner.classify(x[:1], top=1))
    learner.save("learned.insitu")                   # insitu.open("learned.insitu") goes on

    with learner.on("emulator", board="nrf52840") as board:    # the same bytes, in a board's firmware
        print(board.evaluate(x, y))
        board.write("build")                         # the folder with that firmware

a model               load(path) -> Model: predict, classify, quantize, save
a model that learns   compile(model) -> Learner: fit, partial_fit, classify, evaluate, save, on, write; open(file),
                      open_folder(folder) on a board; fit returns a History; prove(model) checks its gradients
settings              Recipe: loss, optimizer, batch, ...
samples               arrays, files and folders; Samples, split, Augment
raw input             Transform (images), Audio, Motion: the program takes what the sensor gives
a life                learner.keep(folder) -> Life, on a board BoardLife; When it may learn; Rehearsed: what a bout did
inside                Graph, Type: insitu.load("model.onnx").graph; stages are modules: insitu.graph, insitu.export, ...
what goes wrong       Error, which says what, where and what to do. ArgumentError, BoardError, BudgetError, DataError,
                      DeviceError, GraphError, ModelError and its Unsupported, SchemeError, ToolError; LearningWarning

On the command line: `insitu --help`.
"""

from __future__ import annotations

from insitu.terminal import starting

if starting.is_command():
    starting.begin()  # first of all: what Ctrl-C means from here on

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from insitu.errors import (
    ArgumentError,
    BoardError,
    BudgetError,
    DataError,
    DeviceError,
    Error,
    GraphError,
    LearningWarning,
    ModelError,
    SchemeError,
    ToolError,
    Unsupported,
)

if TYPE_CHECKING:
    from insitu.data import Augment, Samples, split
    from insitu.graph import Graph, Type
    from insitu.learner import History, Learner
    from insitu.learner.file import open
    from insitu.learner.folder import open_folder
    from insitu.learner.model import Model, load
    from insitu.pipeline import compile, prove
    from insitu.preprocess import Audio, Motion, Transform
    from insitu.store.bout import Rehearsed
    from insitu.store.life import Life
    from insitu.store.on_board import BoardLife
    from insitu.store.power import When
    from insitu.training.train import Recipe

__version__ = "0.1.0"
__all__ = [
    "ArgumentError",
    "Audio",
    "Augment",
    "BoardError",
    "BoardLife",
    "BudgetError",
    "DataError",
    "DeviceError",
    "Error",
    "Graph",
    "GraphError",
    "History",
    "Learner",
    "LearningWarning",
    "Life",
    "Model",
    "ModelError",
    "Motion",
    "Recipe",
    "Rehearsed",
    "Samples",
    "SchemeError",
    "ToolError",
    "Transform",
    "Type",
    "Unsupported",
    "When",
    "compile",
    "load",
    "open",
    "open_folder",
    "prove",
    "split",
]

# public name -> the module that defines it
HOMES = {
    "Augment": "data", "Samples": "data", "split": "data", "Graph": "graph", "Type": "graph", "History": "learner",
    "Learner": "learner", "Model": "learner.model", "load": "learner.model", "open": "learner.file",
    "open_folder": "learner.folder", "compile": "pipeline", "prove": "pipeline", "Audio": "preprocess",
    "Motion": "preprocess", "Transform": "preprocess", "Recipe": "training.train", "Life": "store.life",
    "BoardLife": "store.on_board", "Rehearsed": "store.bout", "When": "store.power",
}  # fmt: skip
# command -> what does the same in Python
VERBS = {
    "bench": "`insitu bench` is a command only",
    "check": "`insitu check` is a command; insitu.compile(...) says what cannot be trained",
    "evaluate": "insitu.open(file).evaluate(x, y)",
    "fit": "insitu.compile(model, data=x).fit(x, y)",
    "fleet": "insitu.federated has what `insitu fleet` does",
    "info": "insitu.open(file) prints what a learner is; .info() has its bytes",
    "live": "insitu.open_folder(folder).life",
    "predict": "insitu.open(file).predict(x), or insitu.load(model).predict(x)",
    "quantize": "insitu.load(model).quantize(x)",
    "run": "insitu.open_folder(folder).fit(x, y)",
    "save": "learner.save(file)",
    "search": "insitu.pipeline.search(...)",
    "train": "insitu.compile(model, data=x).fit(x, y)",
    "write": "insitu.compile(model, board=...).write(folder)",
}
STAGES = {"export": "exporters"}  # a stage under another name: insitu.export.into(module, learner)


def __getattr__(name: str) -> Any:
    """Each name is imported on first use, so `import insitu` is cheap if only part of it is needed."""
    if name in STAGES:
        found = import_module(f"insitu.{STAGES[name]}")
    elif name in HOMES:
        found = getattr(import_module(f"insitu.{HOMES[name]}"), name)
    elif not name.startswith("_") and find_spec(f"insitu.{name}"):  # a stage, as in insitu.graph.parse
        found = import_module(f"insitu.{name}")
    else:
        raise AttributeError(f"module 'insitu' has no attribute {name!r}{_in_python(name)}")
    globals()[name] = found
    return found


def _in_python(verb: str) -> str:
    """What to write in place of a command, which is not a function here."""
    return f": {VERBS[verb]}" if verb in VERBS else ""


def __dir__() -> list[str]:
    return sorted({*globals(), *HOMES})
