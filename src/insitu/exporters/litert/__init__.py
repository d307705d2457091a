"""The learned model as a .tflite file, for LiteRT on phones, computers and boards. No TensorFlow is needed.

`write` makes the file, `check` runs it in LiteRT beside our own integers and says how equal they are. A file that goes
on learning is written by litert_train.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from insitu.errors import ModelError
from insitu.exporters.compared import FAR, Comparison
from insitu.exporters.features import sample_rate
from insitu.exporters.learned import chosen_graph
from insitu.exporters.litert.metadata import add_metadata, pixels_for, with_labels
from insitu.exporters.litert.runtime import Runtime
from insitu.exporters.litert.translate import translate
from insitu.exporters.samples import compared
from insitu.exporters.written import Options, Written
from insitu.graph import Graph, evaluate
from insitu.ops.arith import add_s8, mul_s8, sub_s8
from insitu.ops.conv import conv2d_s8
from insitu.ops.depthwise import depthwise2d_s8
from insitu.ops.linear import linear_s8, matmul_s8
from insitu.ops.quant import quantize
from insitu.ops.reduce import mean_s8
from insitu.terminal.wording import layer_words

MEANT = {"XNNPACK": "single", "reference": "litert"}  # kernels -> the rounding whose results are theirs
# op -> why the kernels that are meant to have the same results may still differ
GIVEN = "its scales came with the model or from an earlier version; quantised anew, the float model is equal"
WHY = {
    matmul_s8: "LiteRT rounds a product of two computed matrices twice",
    quantize: "floats computed by float operators before",
    **dict.fromkeys((conv2d_s8, depthwise2d_s8, linear_s8, add_s8, sub_s8, mul_s8, mean_s8), GIVEN),
}
OTHERWISE = "please report this model"


def write(learner, options: Options) -> Written:
    """The bytes of the file, and notes."""
    graph = chosen_graph(learner, options)
    pixels = pixels_for(graph, options)
    made = translate(graph)
    add_metadata(made.file, graph, graph.name, pixels, sample_rate(learner.graphs["predict"]))
    return Written(with_labels(made.file.data(), graph.classes), tuple(made.notes))


def check(data: bytes, learner, options: Options) -> list[Comparison]:
    """Run the file, and compare every int8 tensor and every output with our own, with each kind of kernels."""
    graph = chosen_graph(learner, options)
    made, samples = translate(graph), compared(graph, options.data)
    expected = [evaluate(graph, *sample, keep=True) for sample in samples]
    found = []
    for kernels in ("XNNPACK", "reference"):
        runtime = Runtime(data, kernels, keep=True)
        found.append(compare(graph, made.tensors, runtime, samples, expected).of(learner.recipe))
    return found


def compare(graph: Graph, tensors: dict[str, int], runtime: Runtime, samples: Sequence,
            expected: Sequence) -> Comparison:  # fmt: skip
    """How equal int8 values and outputs are, and where the first one differs; an error if an output is far off."""
    names = [n for n in tensors if n not in graph.constants and graph.values[n].dtype == "s8"]
    found, unequal = Comparison(f"LiteRT, {runtime.kernels} kernels"), dict.fromkeys(names, 0)
    for sample, values in zip(samples, expected):
        outputs = runtime.run(*sample)
        for name in names:
            before, found = found.unequal, found.inside(runtime.tensor(tensors[name]), values[name])
            unequal[name] += found.unequal - before
        for v, got in zip(graph.outputs, outputs):
            found = found.output(got, values[v.name], v is graph.outputs[0])
    if found.worst > FAR:
        raise ModelError(f"the written file gives other outputs: off by {found.worst:.0%} of the largest",
                         where=graph.name)  # fmt: skip
    return replace(found, why=first_words(graph, runtime.kernels, unequal))


def first_words(graph: Graph, kernels: str, unequal: dict[str, int]) -> str:
    """Where values differ first, and why; nothing if all are equal."""
    first = next((name for name in graph.values if unequal.get(name)), None)
    if first is None:
        return ""
    node = graph.producer[first]
    rounding = node.attrs.get("rounding", MEANT[kernels])
    why = WHY.get(node.op, OTHERWISE) if rounding == MEANT[kernels] else f"they have rounding={MEANT[kernels]!r}"
    return f"{layer_words(first)}, {node.op.name}: {why}"
