"""The learned model as a .tflite file, for LiteRT on phones, computers and boards. No TensorFlow is needed.

`write` makes the file, `check` runs it in LiteRT beside our own integers and says how equal they are. A file that goes
on learning is written by litert_train.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from insitu.errors import DataError, ModelError
from insitu.exporters.learned import learned_graph
from insitu.exporters.litert.metadata import Pixels, add_metadata, with_labels
from insitu.exporters.litert.runtime import Runtime
from insitu.exporters.litert.translate import translate
from insitu.exporters.samples import compared
from insitu.exporters.written import Options, Written
from insitu.graph import Graph, evaluate
from insitu.quantizer.fold import is_int8

CLOSE = 1e-3  # of the largest output; float kernels differ in the order of their sums
FAR = 0.25  # a file whose outputs are further off than this share is wrong, whatever the rounding


def write(learner, options: Options) -> Written:
    """The bytes of the file, and notes."""
    graph = chosen_graph(learner, options)
    made = translate(graph)
    add_metadata(made.file, graph, graph.name, pixels_of(options))
    return Written(with_labels(made.file.data(), graph.classes), tuple(made.notes))


def chosen_graph(learner, options: Options) -> Graph:
    graph = learned_graph(learner)
    if options.precision == "int8" and not is_int8(graph):
        raise DataError("this learner is float", hint="insitu.compile(..., data=x) makes an int8 one")
    return graph


def pixels_of(options: Options) -> Pixels | None:
    if options.mean is None and options.std is None:
        return None
    return Pixels(options.mean or (0.0,), options.std or (1.0,))


def check(data: bytes, learner, options: Options) -> list[str]:
    """Run the file, and compare every int8 tensor and every output with our own; one note per kind of kernels."""
    graph = chosen_graph(learner, options)
    made, samples = translate(graph), compared(graph, options.data)
    expected = [evaluate(graph, *sample, keep=True) for sample in samples]
    notes = []
    for kernels in ("XNNPACK", "reference"):
        runtime = Runtime(data, kernels, keep=True)
        notes.append(f"LiteRT, {kernels} kernels: {compare(graph, made.tensors, runtime, samples, expected)}")
    return notes


def compare(graph: Graph, tensors: dict[str, int], runtime: Runtime, samples: Sequence, expected: Sequence) -> str:
    """How many int8 values are equal; an error if an output is far off."""
    names = [n for n in tensors if n not in graph.constants and graph.values[n].dtype == "s8"]
    unequal = total = 0
    worst = 0.0
    for sample, values in zip(samples, expected):
        outputs = runtime.run(*sample)
        for name in names:
            got = runtime.tensor(tensors[name])
            unequal, total = unequal + int((got != values[name]).sum()), total + got.size
        for v, got in zip(graph.outputs, outputs):
            worst = max(worst, distance(got, values[v.name]))
    if worst > FAR:
        raise ModelError(f"the written file gives other outputs: off by {worst:.0%} of the largest", where=graph.name)
    off = f"outputs within {worst:.1e} of the largest" if worst else "outputs equal"
    return f"{off}, on {len(samples)} samples" if not total else f"{equal_words(unequal, total)}, {off}"


def equal_words(unequal: int, total: int) -> str:
    return f"all {total:,} int8 values equal" if not unequal else f"{unequal:,} of {total:,} int8 values differ"


def distance(got: np.ndarray, want: np.ndarray) -> float:
    a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return float(np.max(np.abs(a - b), initial=0.0) / max(np.max(np.abs(b), initial=0.0), 1e-6))
