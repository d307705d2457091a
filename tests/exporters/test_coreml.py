"""Core ML files, read back as protobuf and computed in numpy: what they predict, what they update, what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("coremltools", reason="writes Core ML files")

import insitu
from insitu.errors import Unsupported
from insitu.exporters.coreml import check, write
from insitu.exporters.coreml.evaluate import evaluated, network
from insitu.exporters.coreml.export import _network, loaded, write_inference
from insitu.exporters.coreml.layers import TABLE
from insitu.exporters.coreml.net import sizes_of
from insitu.exporters.written import Options
from insitu.graph import Case, evaluate, f32
from insitu.graph.op import lookup
from insitu.training.train import Recipe

from ..ops.case_library import bind
from .test_litert_train import cnn, learner_of
from .torch_nets import net

NOTHING = Options()
OPS = {op.name: op for op in TABLE if op.name not in ("quantize", "dequantize")}  # these two only in int8 graphs


# most cases of these ops have several samples
MORE = {
    "amax": [Case("image", (f32(1, 3, 4, 5),), {"axes": (1, 2)}), Case("row", (f32(1, 6, 5),), {"axes": (2,)})],
    "mean": [Case("image", (f32(1, 3, 4, 5),), {"axes": (1, 2), "keepdims": True}),
             Case("first", (f32(1, 3, 4, 5),), {"axes": (2, 3)})],
    "batch_norm": [Case("image", (f32(1, 3, 2, 5), *[f32(5)] * 4)), Case("flat", (f32(1, 7), *[f32(7)] * 4)),
                   Case("first", (f32(1, 3, 4, 2), *[f32(3)] * 4), {"axis": 1})],
    "sum": [Case("image", (f32(1, 3, 4, 5),), {"axes": (1, 2)})],
    "log_softmax": [Case("flat", (f32(1, 7),)), Case("image", (f32(1, 2, 3, 5),))],
    "gelu": [Case("flat", (f32(1, 9),)), Case("tanh", (f32(1, 3, 2, 5),), {"approximate": "tanh"})],
    "prelu": [Case("image", (f32(1, 3, 2, 5), f32(5))), Case("one", (f32(1, 9), f32(1)))],
    "layer_norm": [Case("flat", (f32(1, 9), f32(9), f32(9))), Case("rows", (f32(1, 4, 6), f32(6), f32(6)))],
    "slice": [Case("image", (f32(1, 5, 6, 4),), {"starts": (0, 1, 0, 1), "stops": (1, 5, 6, 4), "steps": (1, 2, 1, 1)}),
              Case("flat", (f32(1, 9),), {"starts": (0, 2), "stops": (1, 8), "steps": (1, 3)})],
    "split": [Case("image", (f32(1, 3, 4, 6),), {"sizes": (2, 4), "axis": 3})],
    "resize": [Case("twice", (f32(1, 2, 3, 2),), {"size": (4, 9)})],
    "conv_transpose2d": [Case("cut", (f32(1, 3, 2, 3), f32(3, 3, 3, 5), f32(5)),
                              {"stride": (2, 1), "padding": (1, 0, 1, 1)})],
    "reshape": [Case("flat", (f32(1, 3, 4, 2),), {"shape": (1, -1)}),
                Case("image", (f32(1, 24),), {"shape": (1, 2, 3, 4)})],
    "transpose": [Case("last", (f32(1, 3, 4, 2),), {"perm": (0, 2, 3, 1)}),
                  Case("row", (f32(1, 3, 4),), {"perm": (0, 2, 1)}),
                  Case("first", (f32(1, 3, 4, 2),), {"perm": (0, 3, 1, 2)})],
}  # fmt: skip


def cases_of(name: str):
    """The float cases of one sample, with at most three axes beside it; parameters are constants."""
    for case in (*OPS[name].cases, *MORE.get(name, ())):
        bound = bind(OPS[name], case, fixed=len(case.inputs) > 1 and name != "concat")
        if all(v.dtype == "f32" and 1 < len(v.shape) <= 4 and v.shape[0] == 1 for v in bound.graph.inputs):
            yield bound


@pytest.mark.parametrize("name", sorted(OPS))
def test_layers_compute_what_the_op_means(name):
    """In the cases that Core ML can express; the others are refused by name."""
    done = 0
    for bound in cases_of(name):
        graph = bound.graph
        try:
            spec = loaded(_network(graph, (), False).builder.spec.SerializeToString())
        except Unsupported as e:
            assert "Core ML" in e.what and e.where
            continue
        feeds = {
            ("x" if len(bound.feeds) == 1 else f"x{i}"): x.reshape(sizes_of(x.shape, False))
            for i, x in enumerate(bound.feeds)
        }
        want = evaluate(graph, *bound.feeds)
        want = want[0] if isinstance(want, tuple) else want
        got = evaluated(spec, feeds)["output"]
        np.testing.assert_allclose(got.reshape(-1), want.reshape(-1), rtol=2e-5, atol=2e-5)
        done += 1
    assert done


def test_the_file_predicts_what_torch_does():
    torch.manual_seed(3)
    module = cnn().eval()
    spec = loaded(write(learner_of("cnn", classes=None), NOTHING).data)
    x = np.random.default_rng(5).normal(size=(3, 16, 16)).astype(np.float32)
    with torch.no_grad():
        want = torch.softmax(module(torch.tensor(x)[None]), 1)[0].numpy()
    np.testing.assert_allclose(evaluated(spec, {"x": x})["output"].reshape(-1), want, atol=1e-6)


@pytest.mark.parametrize("scheme, trained", [("head", ["head"]), ("last:2", ["5", "8", "head"]),
                                             ("full", ["0", "3", "5", "8", "head"])])  # fmt: skip
def test_exactly_the_layers_of_the_scheme_are_updatable(scheme, trained):
    learner = learner_of("cnn", scheme=scheme)
    spec = loaded(write(learner, NOTHING).data)
    marked = {layer.name: layer for layer in network(spec).layers if layer.isUpdatable}
    assert spec.isUpdatable and sorted(marked) == sorted(trained)
    params = marked["head"].innerProduct
    assert params.weights.isUpdatable and params.bias.isUpdatable
    state = learner.graphs["predict"].state
    np.testing.assert_array_equal(np.array(params.weights.floatValue, np.float32), state["head.weight"].ravel())


@pytest.mark.parametrize("name, fixed", [
    ("group_norm", "1.weight, 1.bias"), ("prelu", "1.weight"), ("gamma", "gamma, beta"),
    ("layer_norm", "1.weight, 1.bias"),
])  # fmt: skip
def test_every_trained_tensor_that_is_not_updatable_is_named(name, fixed):
    module, shape = net(name)
    learner = insitu.compile(module, example=torch.zeros(1, *shape), precision="float", scheme="full")
    made = write(learner, NOTHING)
    assert f"Core ML updates dense and convolution layers only; these stay as learned: {fixed}" in made.notes
    layers = network(loaded(made.data)).layers
    assert {k.WhichOneof("layer") for k in layers if k.isUpdatable} <= {"innerProduct", "convolution"}


@pytest.mark.parametrize("optimizer, field", [("sgd", "sgdOptimizer"), ("momentum", "sgdOptimizer"),
                                              ("adam", "adamOptimizer")])  # fmt: skip
def test_the_recipe_is_in_the_file(optimizer, field):
    spec = loaded(write(learner_of("mlp", optimizer), Options(batch=8)).data)
    updates = network(spec).updateParams
    found = getattr(updates.optimizer, field)
    assert updates.optimizer.WhichOneof("OptimizerType") == field
    assert found.miniBatchSize.defaultValue == 8 and updates.epochs.defaultValue == 5
    assert field == "adamOptimizer" or found.momentum.defaultValue == (0.9 if optimizer == "momentum" else 0.0)
    assert updates.lossLayers[0].categoricalCrossEntropyLossLayer.input == "output"
    assert [v.name for v in spec.description.trainingInput] == ["x", "output_true"]


def test_class_names_make_a_classifier_that_learns_from_labels():
    spec = loaded(write(learner_of("mlp", classes=["rest", "walk", "run", "jump"]), NOTHING).data)
    assert list(spec.neuralNetworkClassifier.stringClassLabels.vector) == ["rest", "walk", "run", "jump"]
    assert [v.name for v in spec.description.trainingInput] == ["x", "label"]
    assert spec.description.metadata.userDefined["classes"] == "rest\nwalk\nrun\njump"


def test_mean_squared_error_takes_targets():
    learner = learner_of("mlp", recipe=Recipe(loss="mse"), classes=None)
    spec = loaded(write(learner, NOTHING).data)
    loss = network(spec).updateParams.lossLayers[0]
    assert loss.meanSquaredErrorLossLayer.input == "output"
    assert check(spec.SerializeToString(), learner, NOTHING)


def test_what_was_learned_is_in_the_file():
    learner = learner_of("mlp")
    x = np.random.default_rng(0).normal(size=(8, 1, 3, 4)).astype(np.float32)
    learner.fit(x, np.arange(8) % 4, epochs=2, rate=0.1)
    for made in (write(learner, NOTHING), write_inference(learner, NOTHING)):
        assert check(made.data, learner, NOTHING)  # an error if other outputs come


def test_batch_norm_stays_and_is_said():
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    learner = insitu.compile(module.eval(), example=torch.zeros(1, 3, 4, 4), precision="float", scheme="full", batch=4)
    made = write(learner, NOTHING)
    fixed = "1.weight, 1.bias, 1.running_mean, 1.running_var"
    assert f"Core ML updates dense and convolution layers only; these stay as learned: {fixed}" in made.notes
    assert any(layer.WhichOneof("layer") == "batchnorm" for layer in network(loaded(made.data)).layers)
    assert check(made.data, learner, NOTHING)


def test_an_int8_learner_is_written_in_float_and_the_difference_is_measured(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 3, 16, 16)).astype(np.float32)
    learner = learner_of("cnn", precision="int8", data=x, scheme="head")
    made = learner.export(tmp_path / "net.mlmodel")
    assert "because its int8 weights are float in this file" in made.notes[-1]
    assert learner.export(tmp_path / "plain.mlmodel", to="coreml-predict").size_bytes > 1000


@pytest.mark.parametrize("words, options", [
    ("Core ML updates weights and biases together", {"scheme": "bias:2"}),
    ("Core ML trains with cross_entropy or mse", {"recipe": Recipe(loss="binary_cross_entropy"), "classes": None}),
])  # fmt: skip
def test_what_core_ml_cannot_train_is_one_clear_line_and_no_file(words, options, tmp_path):
    with pytest.raises(Unsupported, match=words) as found:
        learner_of("cnn", **options).export(tmp_path / "net.mlmodel")
    assert "\n" not in found.value.what and not list(tmp_path.iterdir())


def test_int8_layers_that_are_trained_are_refused(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 3, 16, 16)).astype(np.float32)
    learner = learner_of("cnn", precision="int8", data=x, scheme="last:2")
    with pytest.raises(Unsupported, match="Core ML trains in float, and this layer is int8") as found:
        learner.export(tmp_path / "net.mlmodel")
    assert 'to="coreml-predict" writes a model for inference' in found.value.hint
    notes = " ".join(learner.export(tmp_path / "net.mlmodel", to="coreml-predict").notes)
    assert 'to="coreml"' not in notes and "of the largest output of the learner's" in notes


def test_coremltools_opens_the_file_and_the_bytes_are_always_the_same(tmp_path):
    import coremltools as ct

    learner = learner_of("cnn", "adam")
    learner.export(tmp_path / "net.mlmodel")
    spec = ct.utils.load_spec(str(tmp_path / "net.mlmodel"))
    assert spec.specificationVersion >= 4 and spec.isUpdatable
    assert write(learner, NOTHING).data == write(learner, NOTHING).data == (tmp_path / "net.mlmodel").read_bytes()


@pytest.mark.parametrize("op", ["matmul", "cumsum"])
def test_an_op_that_core_ml_lacks_is_refused_by_its_name(op):
    bound = bind(lookup(op), lookup(op).cases[0], fixed=False)
    with pytest.raises(Unsupported, match=f"Core ML cannot express op {op}"):
        _network(bound.graph, (), False)


@pytest.mark.parametrize("scheme, said", [("full", True), ("head", False)])
def test_a_gelu_that_gradients_must_pass_is_said(scheme, said):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 6), nn.GELU(), nn.Linear(6, 3)).eval()
    x = np.zeros((6, 5), np.float32)
    learner = insitu.compile(net, data=(x, np.arange(6) % 3), precision="float", scheme=scheme)
    assert any("GELU" in note for note in write(learner, NOTHING).notes) == said


def test_the_swift_example_gives_what_the_file_takes():
    code = (Path(__file__).parents[2] / "examples" / "ios" / "Update.swift").read_text()
    spec = loaded(write(learner_of("mlp"), NOTHING).data)
    given = re.search(r"dictionary: \[(.*?)\]\)", code)
    assert given and re.findall(r'"(\w+)":', given[1]) == [v.name for v in spec.description.trainingInput]
    assert "never compiled" in code
