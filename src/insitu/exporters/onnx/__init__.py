"""The learned model as an .onnx file (opset 21), float or int8.

An int8 learner that rounds once gives a file whose every int8 tensor equals ours in onnxruntime, whatever the
optimisations (exact.py). With form="qdq" it is plain QDQ, float operators between DequantizeLinear and QuantizeLinear,
which toolchains of accelerators compile to integer kernels of their own. Class names are a JSON list in the model's
property `classes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from insitu.errors import DataError, ModelError
from insitu.exporters.compared import FAR, Comparison
from insitu.exporters.features import sample_rate
from insitu.exporters.learned import chosen_graph
from insitu.exporters.onnx.exact import EXACT
from insitu.exporters.onnx.translate import Translated, rounds_once, translate
from insitu.exporters.samples import compared
from insitu.exporters.written import Options, Written
from insitu.graph import Graph, evaluate
from insitu.quantizer.fold import is_int8

FORMS = (None, "exact", "qdq")
TWICE = "the learner rounds as LiteRT does, which ONNX cannot express: it is written as plain QDQ"


def write(learner, options: Options) -> Written:
    """The bytes of the file, and notes."""
    graph = chosen_graph(learner, options)
    made = translated(graph, options, sample_rate(learner.graphs["predict"]))
    twice = options.form != "qdq" and any(node.op in EXACT and not rounds_once(node) for node in graph.nodes)
    idle = options.form is not None and not is_int8(graph)
    notes = ((TWICE, twice), (f"form {options.form} has no effect: a float file has only one", idle))
    return Written(made.model.SerializeToString(deterministic=True), tuple(words for words, holds in notes if holds))


def translated(graph: Graph, options: Options, rate: int | None = None) -> Translated:
    if options.form not in FORMS:
        raise DataError(f"an ONNX file has no form {options.form!r}", hint="exact or qdq")
    return translate(graph, exact=options.form != "qdq", rate=rate)


def check(data: bytes, learner, options: Options) -> Sequence[str | Comparison]:
    """Run the file in onnxruntime, if that is installed, and compare int8 tensors and outputs with our own."""
    graph = chosen_graph(learner, options)
    if find_spec("onnxruntime") is None:
        return ["not run and compared: onnxruntime is not installed"]
    made, samples = translated(graph, options), compared(graph, options.data)
    expected = [evaluate(graph, *sample, keep=True) for sample in samples]
    return [compare(graph, made, optimise, samples, expected).of(learner.recipe) for optimise in (True, False)]


def compare(graph: Graph, made: Translated, optimise: bool, samples, expected) -> Comparison:
    """How equal int8 values and outputs are; an error if an output is far off."""
    session, int8 = Session(made, optimise), is_int8(graph)
    found = Comparison(f"onnxruntime, optimisations {'on' if optimise else 'off'}")
    for sample, values in zip(samples, expected):
        got = session.run(dict(zip((v.name for v in graph.inputs), sample)))
        for name in made.tensors if int8 else ():
            found = found.inside(got[name], values[name])
        for v in graph.outputs:
            found = found.output(got[v.name], values[v.name], v is graph.outputs[0])
    if found.worst > FAR:
        raise ModelError(f"the written file gives other outputs: off by {found.worst:.0%} of the largest",
                         where=graph.name)  # fmt: skip
    return found


class Session:
    """onnxruntime with every int8 tensor as an output, channels last again."""

    def __init__(self, made: Translated, optimise: bool):
        import onnxruntime
        from onnx import ModelProto, TensorProto, helper

        whole = ModelProto()
        whole.CopyFrom(made.model)
        self.plain = [v.name for v in whole.graph.output]
        self.inner = {name: at for name, at in made.tensors.items() if name not in self.plain}
        for name in sorted({name for name, _ in self.inner.values()}):
            whole.graph.output.append(helper.make_tensor_value_info(name, TensorProto.INT8, None))
        options = onnxruntime.SessionOptions()
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            whole.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Every output and every int8 value, by the graph's names."""
        names = [o.name for o in self.session.get_outputs()]
        got = dict(zip(names, (np.asarray(a) for a in self.session.run(names, feeds))))
        found = {name: got[name] for name in self.plain}
        for name, (tensor, first) in self.inner.items():
            found[name] = np.moveaxis(got[tensor], 1, -1) if first else got[tensor]
        return found
