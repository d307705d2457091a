"""A learner as a Core ML network (.mlmodel): updatable with what its scheme trains, or for inference alone.

The layers are in layers.py. What Core ML cannot update at all is an error before anything is written; what it leaves
as it is, is said in a note.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from insitu.errors import DataError, ModelError, Unsupported
from insitu.exporters.compared import FAR
from insitu.exporters.coreml import composed  # noqa: F401, more rows of the table
from insitu.exporters.coreml.evaluate import evaluated, network, validated
from insitu.exporters.coreml.layers import TABLE, softmax
from insitu.exporters.coreml.net import Blob, Net, builder_for, sizes_of
from insitu.exporters.coreml.quiet import coremltools, silent
from insitu.exporters.features import real_features, sample_rate, sound_words
from insitu.exporters.functions import refuse_tables
from insitu.exporters.learned import learned_graph, unfolded_graph
from insitu.exporters.real import real_graph
from insitu.exporters.samples import compared
from insitu.exporters.saturation import float_distance, reason, saturating, way_out
from insitu.exporters.written import Options, Written
from insitu.graph import Graph, evaluate
from insitu.graph.classes import column_words
from insitu.learner import Learner
from insitu.ops.activation import gelu
from insitu.ops.channels import merge_channels
from insitu.ops.depthwise import depthwise2d
from insitu.ops.dropout import dropout_train
from insitu.ops.norm import batch_norm, dropout
from insitu.ops.norm import softmax as softmax_op
from insitu.quantizer.fold import is_int8
from insitu.terminal.wording import layer_words, option
from insitu.training.train import Recipe

LOSSES = ("cross_entropy", "mse")
RATES = {"sgd": 0.01, "momentum": 0.01, "adam": 0.001}  # defaults in the file; an app may set others
EPOCHS, MOST_EPOCHS = 5, 1000
OUTPUT = "output"
CLOSE = 1e-4  # of the largest output


def write(learner: Learner, options: Options) -> Written:
    """An updatable model."""
    trained = trained_layers(learner)
    graph = unfolded_graph(learner)  # Core ML keeps batch norms fixed beside layers that it updates
    graph = real_graph(real_features(graph))
    made = _network(graph, learner.names, _chances(learner, graph))
    updated = [name for name in trained if name in made.layers]
    with silent():
        notes = _updates(made.builder, learner, options, updated)
    return Written(_bytes(made.builder, learner), (*notes, *_kept(learner, graph, updated)))


def write_inference(learner: Learner, options: Options) -> Written:
    """A model that predicts and cannot be updated."""
    graph = real_graph(real_features(learned_graph(learner)))
    made = _network(graph, learner.names, _chances(learner, graph))
    return Written(_bytes(made.builder, learner), (_inference_note(learner),))


def _inference_note(learner: Learner) -> str:
    """An updatable model is only advised if this learner can be one."""
    try:
        trained_layers(learner)
    except Unsupported as e:
        return f"for inference only: {e.what}"
    return f"for inference only; {option(to='coreml')} writes an updatable model"


def _inference() -> str:
    return f"{option(to='coreml-predict')} writes a model for inference"


def trained_layers(learner: Learner) -> list[str]:
    """The layers that the scheme trains; an error if Core ML cannot update exactly those."""
    graph, loss = learner.graphs["predict"], learner.recipe.loss
    if loss not in LOSSES:
        raise Unsupported(f"Core ML trains with {' or '.join(LOSSES)}, not {loss}", hint=_inference())
    found = []
    for node in graph.nodes:
        where = layer_words(node.name)
        if node.op is merge_channels:
            raise Unsupported("Core ML updates whole layers, and this scheme trains some of a layer's channels",
                              where=where, hint=f"scheme head, last:k or full; {_inference()}")  # fmt: skip
        state = [v.name in graph.state for v in node.inputs[1:3]]
        if node.op.facts.parameters is None or not any(state) or node.op is batch_norm:
            continue
        if not all(state):
            raise Unsupported("Core ML updates weights and biases together, and this scheme trains one of them",
                              where=where, hint=f"scheme head, last:k or full; {_inference()}")  # fmt: skip
        if any(v.dtype == "s8" for v in node.inputs):
            raise Unsupported("Core ML trains in float, and this layer is int8", where=where,
                              hint=f"compile with {option(precision='float')}, or {option(scheme='head')}; "
                              f"{_inference()}")  # fmt: skip
        found.append(node.name)
    return found


def _fixed(learner: Learner, updated: list[str]) -> list[str]:
    """The trained tensors that no updatable layer has: of norms, PReLU, and bare parameters."""
    graph = learner.graphs["predict"]
    inside = {v.name for name in updated for v in graph.producer[name].inputs[1:]}
    return [name for name in graph.state if name not in inside]


def _kept(learner: Learner, graph: Graph, updated: list[str]) -> tuple[str, ...]:
    """Notes on what Core ML does not do as the learner does."""
    ops = {node.op for g in learner.graphs.values() for node in g.nodes}
    state, fixed = learner.graphs["predict"].state, _fixed(learner, updated)
    grouped = [n.name for n in graph.nodes if n.op is depthwise2d and n.inputs[1].name in state]
    first = next((i for i, n in enumerate(graph.nodes) if any(v.name in state for v in n.inputs)), len(graph.nodes))
    curved = [n.name for n in graph.nodes[first:] if n.op is gelu and n.attrs["approximate"] != "tanh"]
    recipe = learner.recipe
    found = {
        f"Core ML updates dense and convolution layers only; these stay as learned: {', '.join(fixed)}": bool(fixed),
        "Core ML has no dropout: it trains without": bool(ops & {dropout, dropout_train}),
        f"depthwise layers are marked updatable ({_listed(grouped)}): try whether your system takes them": grouped,
        f"gradients must pass through GELU ({_listed(curved)}): try whether your system can": curved,
        f"Core ML has no weight decay: {recipe.decay} is left out": bool(recipe.decay),
        f"Core ML has no label smoothing: {recipe.smoothing} is left out": bool(recipe.smoothing),
        "Core ML has no Nesterov momentum: plain momentum is used": recipe.nesterov and recipe.optimizer == "momentum",
    }
    return tuple(words for words, holds in found.items() if holds)


# the network ------------------------------------------------------------------------------------


def _chances(learner: Learner, graph: Graph) -> bool:
    """Are the outputs logits, which the file turns into probabilities?"""
    last = graph.producer.get(graph.outputs[0].name)
    return learner.recipe.loss == "cross_entropy" and (last is None or last.op is not softmax_op)


def _network(graph: Graph, names: tuple[str, ...], chances: bool) -> Net:
    refuse_tables(graph, "a Core ML model")
    for node in graph.nodes:
        if node.op not in TABLE:
            raise Unsupported(f"Core ML cannot express op {node.op.name}", where=f"%{node.name}")
    classifier = any(names) and graph.outputs[0].shape == (1, len(names)) and (chances or _ends_in_softmax(graph))
    inputs = [(name, _trimmed(v.shape)) for name, v in zip(input_names(graph), graph.inputs)]
    out = (OUTPUT, None if classifier else _trimmed(graph.outputs[0].shape))
    with silent():
        net = Net(builder_for(inputs, [out], classifier), graph)
        env = {v.name: Blob(name, v.shape) for name, v in zip(input_names(graph), graph.inputs)}
        for node in graph.nodes:
            given = [env[v.name] for v in node.inputs if v.name in env]
            made = TABLE[node.op](net, node, given)
            env.update(zip((v.name for v in node.outputs), made if isinstance(made, list) else [made]))
        _finish(net, env[graph.outputs[0].name], chances)
        if classifier:
            net.builder.set_class_labels([n or str(i) for i, n in enumerate(names)], "label", OUTPUT)
    return net


def input_names(graph: Graph) -> list[str]:
    return ["x"] if len(graph.inputs) == 1 else [f"x{i}" for i in range(len(graph.inputs))]


def _ends_in_softmax(graph: Graph) -> bool:
    last = graph.producer.get(graph.outputs[0].name)
    return last is not None and last.op is softmax_op


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of a feature: a vector has one axis, all else three."""
    sizes = sizes_of(shape, False)
    return sizes[:1] if len(shape) <= 2 else sizes


def _finish(net: Net, last: Blob, chances: bool) -> None:
    """Give the output its name: the last layer's output is renamed, or a softmax follows."""
    last = net.plain(last)
    if chances:
        softmax(net, last, OUTPUT)
        return
    layers = net.builder.nn_spec.layers
    if layers and layers[-1].output[0] == last.name:
        layers[-1].output[0] = OUTPUT
    else:
        net.builder.add_activation(OUTPUT, "LINEAR", last.name, OUTPUT, [1.0, 0.0])


# training ---------------------------------------------------------------------------------------


def _updates(builder: Any, learner: Learner, options: Options, layers: list[str]) -> tuple[str, ...]:
    """Mark the layers, set loss, optimizer, batch and epochs; notes say what an app gives and may change."""
    ct = coremltools()
    builder._check_fp16_weight_param_exists = lambda _: False  # it fails at scale layers, and our weights are float32
    builder.make_updatable(layers)
    if learner.recipe.loss == "mse":
        shape = _trimmed(learner.graphs["predict"].outputs[0].shape)
        builder.set_mean_squared_error_loss("loss", (OUTPUT, ct.models.datatypes.Array(*shape)))
    else:
        builder.set_categorical_cross_entropy_loss("loss", OUTPUT)
    _optimizer(builder, learner.recipe, options.batch or learner.batch)
    builder.set_epochs(EPOCHS, list(range(1, MOST_EPOCHS + 1)))
    target = builder.spec.description.trainingInput[-1].name
    return (
        f"updates {_listed(layers)}; a sample to train with has x and {target}",
        f"defaults an app may change: rate {rate_of(learner.recipe)}, {EPOCHS} epochs",
    )


def _listed(layers: list[str]) -> str:
    return ", ".join(layers) if len(layers) < 6 else f"{len(layers)} layers, {layers[0]} to {layers[-1]}"


def rate_of(recipe: Recipe) -> float:
    """The recipe's own rate, or the usual one of its optimizer."""
    return RATES[recipe.optimizer] if recipe.rate is None else recipe.rate


def _optimizer(builder: Any, recipe: Recipe, batch: int) -> None:
    from coremltools.models.neural_network import AdamParams, SgdParams

    rate, allowed = rate_of(recipe), sorted({batch, *(2**k for k in range(9))})
    if recipe.optimizer == "adam":
        params = AdamParams(lr=rate, batch=batch, beta1=recipe.beta1, beta2=recipe.beta2, eps=recipe.epsilon)
        params.set_lr(rate, 0.0, 10.0)
        params.set_batch(batch, allowed)
        builder.set_adam_optimizer(params)
        return
    params = SgdParams(lr=rate, batch=batch)
    params.set_lr(rate, 0.0, 10.0)
    params.set_momentum(recipe.momentum if recipe.optimizer == "momentum" else 0.0, 0.0, 1.0)
    params.set_batch(batch, allowed)
    builder.set_sgd_optimizer(params)


def _bytes(builder: Any, learner: Learner) -> bytes:
    meta = builder.spec.description.metadata
    meta.shortDescription = f"{learner.graphs['predict'].name}, written by insitu"
    if any(learner.names):
        meta.userDefined["classes"] = "\n".join(learner.names)
    graph = learner.graphs["predict"]
    rate = sample_rate(graph)
    told = sound_words(rate) if rate else column_words(graph.columns, (graph.inputs[0].shape or (0,))[-1])
    if told:
        builder.spec.description.input[0].shortDescription = told
    return builder.spec.SerializeToString(deterministic=True)


# checking ---------------------------------------------------------------------------------------


def check(data: bytes, learner: Learner, options: Options) -> list[str]:
    """Read the file again, hold it to Core ML's rules, and compare what it computes with the learner."""
    spec = loaded(data)
    validated(spec)
    graph = real_features(learned_graph(learner))
    written = real_graph(graph)
    worst = max(_difference(spec, written, graph, sample) for sample in compared(graph, options.data))
    if not worst <= CLOSE:
        raise ModelError(f"the file's outputs differ by {worst:.1e} of the largest from what was written",
                         hint="please report this model")  # fmt: skip
    int8 = is_int8(graph)
    off = float_distance(graph, written, options.data) if int8 else worst
    if off > FAR:
        what = f"in float, the outputs would be off by {off:.0%} of the largest"
        raise DataError(what + reason(saturating(graph, options.data)), hint=way_out(graph))
    why = ", because its int8 weights are float in this file and nothing is rounded" if int8 else ""
    near = f"outputs within {off:.0e} of the largest output of the learner's{why}"
    return [f"{near}; computed from the file, Core ML itself runs on Apple only"]


def loaded(data: bytes) -> Any:
    coremltools()
    from coremltools.proto import Model_pb2

    spec: Any = Model_pb2.Model()
    spec.ParseFromString(data)
    return spec


def _difference(spec: Any, written: Graph, graph: Graph, sample: tuple[np.ndarray, ...]) -> float:
    """The largest difference of the outputs for one sample; of logits, where the file adds a softmax."""
    blobs = evaluated(spec, dict(zip(input_names(graph), map(_fed, sample, graph.inputs))))
    last = network(spec).layers[-1]
    logits = last.WhichOneof("layer") == "softmax" and not _ends_in_softmax(graph)
    got = blobs[last.input[0] if logits else OUTPUT].reshape(-1)
    want = evaluate(replace(written, outputs=written.outputs[:1]), *sample)
    assert isinstance(want, np.ndarray)  # one output
    return float(np.abs(got - want.reshape(-1)).max() / max(np.abs(want).max(), 1e-6))


def _fed(x: np.ndarray, v: Any) -> np.ndarray:
    q = v.type.quant
    x = x if q is None else (x.astype(np.float64) - q.zero) * q.scale[0]
    return np.asarray(x).reshape(sizes_of(v.shape, False))
