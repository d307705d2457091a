"""A model you can call: a graph, and the C program made from it, built on first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from insitu.codegen import Program, emit_program
from insitu.data import to_classify
from insitu.data.arguments import optional
from insitu.devices.host import HostDevice, open_host
from insitu.errors import DataError
from insitu.graph import Graph
from insitu.graph.classes import checked
from insitu.graph.file import is_learner
from insitu.graph.file import save as save_graph
from insitu.graph.graph import shown_in_notebook
from insitu.importers import load as load_graph
from insitu.learner.classify import Classified, classified
from insitu.learner.feed import predicted
from insitu.planner import plan
from insitu.planner.changes.looped import macs
from insitu.terminal.misspelled import all_spelled, spelled
from insitu.terminal.wording import either
from insitu.toolchain.compiler import NATIVE, QUICK

MUCH = 300_000_000  # multiply-adds: plain C takes about as long as it takes to compile vectors of floats
LEARNS = ("evaluate", "fit", "partial_fit")  # what a learner can do, and a model cannot


@all_spelled
class Model:
    """The result of `insitu.load`. `predict` runs the generated C, not numpy."""

    def __init__(self, graph: Graph):
        self.graph: Graph = graph

    @cached_property
    def device(self) -> HostDevice:
        """This model on the host."""
        from insitu.quantizer import fold

        return open_host(fold(self.graph))

    @property
    def is_int8(self) -> bool:
        """Is any of its layers computed in int8?"""
        return any(node.op.kind == "int8" for node in self.graph.nodes)

    def predict(self, *inputs: Any) -> Any:
        """The outputs for these inputs, from the generated C. Any number of samples along the first axis."""
        return predicted(self.device, self.graph, inputs)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes that it tells apart; () if they are not known."""
        return self.graph.classes

    def classify(self, x: Any, *, top: int | None = None) -> list[Classified]:
        """For each sample its classes with their probabilities, the likeliest first; `top` of them, or all."""
        top, inputs = optional(top, "top", 1), to_classify(x, self.graph)
        return (
            classified(self.graph, self.device.run("predict", *inputs)[0], self.classes, top) if len(inputs[0]) else []
        )

    def quantize(
        self, data: Any = None, *, method: str = "mse", batches: int | None = None, progress: Any = None, **options: Any
    ) -> Model:
        """An int8 model, calibrated on `data` (an array, or any iterable of samples or batches)."""
        from insitu.quantizer import calibrate, fold, quantize

        if self.is_int8:
            return self
        if data is None:
            raise DataError(
                "a float model needs samples to be quantised",
                hint=f"{either(shell='--data FILE', python='model.quantize(x)')} with typical inputs",
            )
        inference = fold(self.graph)
        runner = open_host(inference, keep=True, flags=_flags(inference, data, batches))
        run = {"run": runner.values, "at_once": True}
        ranges = calibrate(inference, data, method=method, batches=batches, progress=progress, **run)
        return Model(quantize(inference, ranges, **options))

    def program(self, prefix: str = "net", *, rows: bool = False) -> Program:
        """The C program: `program.files` is name -> text. With `rows`, it takes its first input row by row."""
        from insitu.quantizer import fold

        graph = fold(self.graph)
        return emit_program(plan(replace(graph, by_rows=graph.inputs[0].name if rows else "")), prefix)

    def save(self, path: str | Path) -> Path:
        """Write the model to a file that `insitu.load` reads."""
        return save_graph(self.graph, path)

    def __getstate__(self) -> dict[str, Graph]:
        return {"graph": self.graph}  # a device cannot be copied; the copy makes its own

    if not TYPE_CHECKING:  # a type checker would believe that a model has every attribute

        def __getattr__(self, name: str) -> Any:
            how = either(shell="insitu info FILE", python='insitu.open("own.insitu")')
            more = (
                f": a learner has one. {how} opens a saved learner, compile makes a new one" if name in LEARNS else ""
            )
            raise AttributeError(f"a Model has no {name!r}{more}", name=name, obj=self)

    def __str__(self) -> str:
        return str(self.graph)

    def _repr_html_(self) -> str:
        return shown_in_notebook(repr(self), str(self.graph))

    def __repr__(self) -> str:
        g = self.graph
        ins = ", ".join(f"{v.name} {v.type}" for v in g.inputs)
        outs = ", ".join(str(v.type) for v in g.outputs)
        return f"<insitu.Model {g.name}: {ins} -> {outs}, {len(g.nodes)} ops>"


def _flags(graph: Graph, data: Any, batches: int | None) -> tuple[str, ...]:
    """How the program that calibrates is compiled: quickly, if its work is less than that of the compiler."""
    items = min(len(data) if hasattr(data, "__len__") else MUCH, batches or MUCH)
    return (NATIVE, QUICK) if items * sum(map(macs, graph.nodes)) < MUCH else (NATIVE,)


@spelled
def load(source: Any, example: Any = None, *, batch: int = 1, classes: Sequence[str] = ()) -> Model:
    """A model from a path (.onnx, .tflite, .pt2, .keras, .pkl, .insitu), a torch module or a Keras model.

    `classes` names its classes in the order of its outputs. A file that holds a learner gives the model as it learned.
    """
    if isinstance(source, str | Path) and is_learner(source):
        from insitu.learner.file import open_learner
        from insitu.learner.learned import learned_model

        return learned_model(open_learner(source))
    graph = load_graph(source, example, batch=batch)
    return Model(replace(graph, classes=own_names(graph, classes)) if classes else graph)


def own_names(graph: Graph, classes: Sequence[str]) -> tuple[str, ...]:
    """These names, if they are as many as the model has outputs."""
    names, width = checked(classes), (graph.outputs[0].shape or (1,))[-1]
    if len(names) != width:
        raise DataError(f"{len(names)} names for {width} classes", where=graph.name, hint="one name per output")
    return names
