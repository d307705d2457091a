"""A learner as a LiteRT file with these signatures:

    train    x, y, rate -> loss          one step on a batch; y: s32 labels, or f32 targets
    infer    x -> output[, logits]       one sample; output is probabilities where the loss makes them
    save     -> every variable           weights, optimizer state, counters, under insitu's own names
    restore  every variable -> done      goes on exactly where `save` was called

`save_android` is `save` with an input that is not read: LiteRT's Java interface refuses a call without inputs.

What cannot be expressed is an error before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.data.arguments import whole
from insitu.errors import GraphError, ModelError, Unsupported
from insitu.exporters.features import real_features, sample_rate
from insitu.exporters.learned import chosen_graph
from insitu.exporters.litert.metadata import BUFFER, flatbuffer, pixels_for, with_labels
from insitu.exporters.litert_train import elements, moves, norms, steps, windows  # noqa: F401  fill the table
from insitu.exporters.litert_train.sheet import File, Sheet
from insitu.exporters.litert_train.table import refuse_unknown, written
from insitu.exporters.litert_train.tensor import Tensor, logistic, reshape
from insitu.exporters.samples import compared
from insitu.exporters.written import Options, Written
from insitu.graph import Graph, Value, evaluate
from insitu.learner import Learner
from insitu.quantizer.fold import is_int8
from insitu.terminal.wording import option
from insitu.training.train import train_graphs

CLOSE = 1e-4  # how far LiteRT may be from the learner, as a share of the largest output
# loss -> the function that makes an output of the logits
CHANCES = {"cross_entropy": norms.softmax, "soft_cross_entropy": norms.softmax, "binary_cross_entropy": logistic}


@dataclass(frozen=True)
class Program:
    """What the file runs: the graphs of a step and of a prediction, and the content of their variables."""

    step: Graph
    predict: Graph
    state: Mapping[str, np.ndarray]
    chances: str = ""  # the loss whose logits become probabilities


def write(learner: Learner, options: Options) -> Written:
    """The file's bytes. `options.batch` is the number of samples per step, by default the learner's own."""
    made = program_of(learner, options)
    file = File()
    _infer(file, made)
    _train(file, made)
    _save(file, made, "save")
    _save(file, made, "save_android").input("any", "s32", (1,))
    _restore(file, made)
    _start(file, made)
    name = learner.graphs["predict"].name
    file.metadata[BUFFER] = _described(learner, made, name, options)
    if any(learner.names):
        file.metadata["insitu.classes"] = "\n".join(learner.names).encode()
    return Written(with_labels(file.written(name), learner.names), _notes(made))


def _described(learner: Learner, made: Program, name: str, options: Options) -> bytes:
    """The metadata of `infer`, the first subgraph, where Android's libraries look for class names."""
    graph = made.predict
    inputs = list(zip(input_names(graph.inputs), (v.type for v in graph.inputs)))
    outputs = ["output", "logits"] if made.chances in CHANCES else ["output"]
    return flatbuffer(name, inputs, outputs, any(learner.names), pixels_for(graph, options),
                      learner.graphs["predict"].columns, sample_rate(learner.graphs["predict"]))  # fmt: skip


def program_of(learner: Learner, options: Options) -> Program:
    """The training step as one graph of a whole batch, starting from what was learned."""
    parts = learner.parts
    if parts is None:
        raise GraphError("a folder has only the interface of its program", hint="export where the model is")
    samples = learner.batch if options.batch is None else whole(options.batch, "batch", 1)
    forward, learned = float_network(learner, options)
    graphs = train_graphs(forward, parts.scheme, replace(parts.recipe, rows=False), samples=samples,
                          head=parts.head)  # fmt: skip
    step, predict = graphs["train_step"], graphs["predict"]
    refuse_unknown((step, predict))
    first = {**step.state, **predict.state}
    return Program(step, predict, {name: learned.get(name, array) for name, array in first.items()}, parts.recipe.loss)


def float_network(learner: Learner, options: Options) -> tuple[Graph, Mapping[str, np.ndarray]]:
    """The network that is trained, and its state; of an int8 learner, the real numbers it stands for."""
    assert learner.parts is not None  # checked by program_of
    if not is_int8(learner.parts.forward):
        return real_features(learner.parts.forward), state_of(learner)
    if options.precision != "float":
        hint = f"{option(precision='float')} trains the float network that it stands for   or   {option(to='litert')}"
        raise Unsupported("LiteRT trains in float only, and this learner is int8", hint=hint)
    return chosen_graph(learner, _logits(options)), {}


def _logits(options: Options) -> Options:
    """A trainable file ends in probabilities beside its network, whatever is asked for."""
    return replace(options, probabilities=None)


def state_of(learner: Learner) -> dict[str, np.ndarray]:
    """Everything persistent; what the program starts with, if it has not run yet."""
    if learner.opened:
        return learner.device.state()
    return {name: array for graph in learner.graphs.values() for name, array in graph.state.items()}


def _notes(made: Program) -> tuple[str, ...]:
    x, y = made.step.inputs[0], made.step.inputs[-2]
    types = f"train takes x {x.type}, y {y.type} and rate f32[1]"
    return (types, f"save returns, and restore takes, {len(made.state)} tensors of {_bytes(made):,} bytes")


def _bytes(made: Program) -> int:
    return sum(a.nbytes for a in made.state.values())


# signatures -------------------------------------------------------------------------------------


def _infer(file: File, made: Program) -> None:
    """First in the file: a reader that knows no signatures finds a plain model."""
    sheet = _begun(file, "infer")
    graph = made.predict
    env = written(sheet, graph, _inputs(sheet, graph.inputs) | _read(sheet, made, graph.state))
    out = env[graph.outputs[0].name]
    chances = CHANCES.get(made.chances)
    if chances is not None:
        sheet.output("output", chances(out).place)
    sheet.output("logits" if chances else "output", out.place)


def _train(file: File, made: Program) -> None:
    sheet = _begun(file, "train")
    graph = made.step
    *samples, target, rate = graph.inputs
    known = _inputs(sheet, samples)
    known[target.name] = Tensor(sheet.input("y", target.dtype, target.shape))
    known[rate.name] = reshape(Tensor(sheet.input("rate", "f32", (1,))), rate.shape)
    known |= _read(sheet, made, graph.state)
    env = written(sheet, graph, known)
    for name, new in graph.updates.items():
        sheet.assign(name, env[new.name].place)
    sheet.output("loss", env[graph.outputs[0].name].place)


def _save(file: File, made: Program, key: str) -> Sheet:
    sheet = _begun(file, key)
    for name, value in _read(sheet, made, made.state).items():
        sheet.output(name, value.place)
    return sheet


def _restore(file: File, made: Program) -> None:
    """It runs the initialisation too: else the first `infer` would, and overwrite what was restored."""
    sheet = _begun(file, "restore")
    for name, array in made.state.items():
        sheet.assign(name, sheet.input(name, _dtype(array), array.shape))
    sheet.output("done", sheet.constant(np.ones(1, np.int32)))


def _start(file: File, made: Program) -> None:
    """The subgraph that gives every variable its first content."""
    sheet = file.sheet("start")
    for name, array in made.state.items():
        sheet.assign(name, sheet.constant(array))


START = 5  # the number of that subgraph: it stands behind the five signatures


def _begun(file: File, name: str) -> Sheet:
    sheet = file.sheet(name, signature=True)
    sheet.once(START)
    return sheet


def _inputs(sheet: Sheet, values: Sequence[Value]) -> dict[str, Tensor]:
    return {v.name: Tensor(sheet.input(name, v.dtype, v.shape)) for v, name in zip(values, input_names(values))}


def input_names(values: Sequence[Value]) -> list[str]:
    """A single input is called x; several x0, x1 and so on, in the order of the model."""
    return ["x"] if len(values) == 1 else [f"x{i}" for i in range(len(values))]


def _read(sheet: Sheet, made: Program, names: Iterable[str]) -> dict[str, Tensor]:
    arrays = {name: made.state[name] for name in names}
    return {name: Tensor(sheet.read(name, _dtype(a), a.shape)) for name, a in arrays.items()}


def _dtype(array: np.ndarray) -> str:
    return {"float32": "f32", "int32": "s32"}[array.dtype.name]


# checking ---------------------------------------------------------------------------------------


def check(data: bytes, learner: Learner, options: Options) -> tuple[str, ...]:
    """LiteRT reads the file and infers what the learner's graph computes."""
    from ai_edge_litert.interpreter import Interpreter

    from insitu.exporters.litert.runtime import silent

    with silent():
        infer = Interpreter(model_content=data).get_signature_runner("infer")
    graph = chosen_graph(learner, _logits(options))
    samples = compared(graph, options.data)
    largest = max(_difference(infer, graph, sample) for sample in samples)
    if not largest <= CLOSE:
        raise ModelError(f"LiteRT differs from the learner by {largest:.1e}", hint="please report this model")
    whose = "the float network of the learner" if is_int8(learner.graphs["predict"]) else "the learner"
    return (f"LiteRT infers what {whose} predicts within {largest:.0e}, on {len(samples)} samples",)


def _difference(infer: Callable, graph: Graph, sample: tuple[np.ndarray, ...]) -> float:
    """The largest difference for one sample, as a share of the largest output."""
    made = infer(**dict(zip(input_names(graph.inputs), sample)))
    want = evaluate(replace(graph, outputs=graph.outputs[:1]), *sample)
    assert isinstance(want, np.ndarray)  # one output
    return float(np.abs(made.get("logits", made["output"]) - want).max() / max(1.0, np.abs(want).max()))
