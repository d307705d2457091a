"""What cannot be trained as asked says what to do, and doing so works, through the API and the command line."""

import re

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import insitu
from insitu.cli import main
from insitu.errors import GraphError, ModelError, SchemeError, Unsupported
from insitu.graph import evaluate
from insitu.pipeline import load, to_precision, trainable
from insitu.terminal.wording import in_shell
from insitu.training.head import find_head

X = np.random.default_rng(0).normal(size=(6, 3, 12, 12)).astype(np.float32)
Y = np.arange(6) % 2


class Fire(nn.Module):
    """SqueezeNet's module: squeeze, then 1x1 and 3x3 side by side."""

    def __init__(self, i: int, squeezed: int, o: int):
        super().__init__()
        self.squeeze, self.one = nn.Conv2d(i, squeezed, 1), nn.Conv2d(squeezed, o, 1)
        self.three = nn.Conv2d(squeezed, o, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.one(x)), torch.relu(self.three(x))], 1)


@pytest.fixture(autouse=True)
def at_the_command_line():
    """The ways out are read as flags."""
    with in_shell():
        yield


def squeezenet() -> nn.Module:
    classifier = [nn.Dropout(0.5), nn.Conv2d(12, 5, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), Fire(8, 3, 6), nn.Sequential(*classifier), nn.Flatten())


def nin() -> nn.Module:
    """Network in network: the last of three 1x1 convolutions has one channel per class."""
    block = [nn.Conv2d(3, 6, 5, padding=2), nn.ReLU(), nn.Conv2d(6, 6, 1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*block, nn.Conv2d(6, 5, 1), nn.ReLU(), nn.AvgPool2d(6), nn.Flatten())


@pytest.mark.parametrize("precision", ["float", "int8"])
@pytest.mark.parametrize("make, name", [(squeezenet, "3.1"), (nin, "5")])
def test_a_classifier_that_is_a_convolution_under_a_mean_is_found(make, name, precision):
    torch.manual_seed(0)
    module = make().eval()
    graph = load(module, torch.zeros(1, 3, 12, 12))
    assert find_head(graph).name == name
    made = insitu.compile(graph, data=X, precision=precision, classes=2, scheme="head")
    assert made.fit(X, Y, epochs=2).loss[-1] < 2.0
    with pytest.raises(GraphError, match="ends in a ReLU") as e:
        insitu.compile(graph, data=X, precision=precision, scheme="head")
    assert "--classes N" in e.value.hint


class Unclear(nn.Module):
    """Ends in a convolution that does not look like a classifier."""

    def __init__(self):
        super().__init__()
        self.body, self.last = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 3)

    def forward(self, x):
        return torch.relu(self.last(torch.relu(self.body(x)))).amax((2, 3))


@pytest.mark.parametrize("precision", ["float", "int8"])
def test_the_names_that_a_refusal_gives_can_be_used(precision):
    torch.manual_seed(0)
    options = {"example": torch.zeros(1, 3, 12, 12), "data": X, "precision": precision, "scheme": "head", "classes": 2}
    module = Unclear().eval()
    with pytest.raises(GraphError, match="cannot tell which layer is the classifier") as e:
        insitu.compile(module, **options)
    names = re.findall(r"--head-after (\S+)", e.value.hint)
    assert len(names) == 2 and "in place of last" in e.value.hint
    shapes = [insitu.compile(module, head_after=name, **options).graphs["predict"].values["head.weight"].shape
              for name in names]  # fmt: skip
    assert shapes == [(2, 5), (2, 4)]


def test_the_command_line_takes_the_name_that_it_gave(tmp_path, capsys):
    torch.manual_seed(0)
    path, data = tmp_path / "net.pt2", tmp_path / "x.npz"
    torch.export.save(torch.export.export(Unclear().eval(), (torch.zeros(1, 3, 12, 12),)), path)
    np.savez(data, x=X, y=Y)
    command = ["train", str(path), "--data", str(data), "--precision", "float", "--scheme", "head", "--classes", "2"]
    assert main(command) == 1
    name = re.findall(r"--head-after (\S+)", capsys.readouterr().err)[1]
    assert main([*command, "--head-after", name]) == 0


SCHEMES = [("last:2", "--scheme last:1   or   --scheme full"), ("bias:3", "--scheme bias:1")]


@pytest.mark.parametrize("scheme, hint", SCHEMES)
def test_a_scheme_for_more_layers_names_the_one_for_all(scheme, hint):
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).eval()
    with pytest.raises(SchemeError, match="only 1 layer before its head") as e:
        insitu.compile(net, example=torch.zeros(1, 6), precision="float", scheme=scheme)
    assert e.value.hint == hint
    alone = nn.Sequential(nn.Linear(6, 3)).eval()
    with pytest.raises(SchemeError, match="no layer before its head") as e:
        insitu.compile(alone, example=torch.zeros(1, 6), precision="float", scheme=scheme)
    assert e.value.hint == "--scheme head"


# two outputs --------------------------------------------------------------------------------------


class TwoOutputs(nn.Module):
    """One output, and a second one that comes last in the network."""

    def __init__(self):
        super().__init__()
        self.body, self.first = nn.Sequential(nn.Linear(6, 5), nn.ReLU()), nn.Linear(5, 2)
        self.norm, self.second = nn.LayerNorm(5), nn.Linear(5, 3)

    def forward(self, x):
        x = self.body(x)
        return self.first(x), self.second(self.norm(x))


@pytest.mark.parametrize("scheme", ["full", "last:2", "last:1"])
def test_of_two_outputs_the_first_is_trained_and_the_other_stays(scheme, capsys):
    torch.manual_seed(0)
    module = TwoOutputs().eval()
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 6)).astype(np.float32), rng.normal(size=(8, 2)).astype(np.float32)
    options = {"precision": "float", "recipe": insitu.Recipe(loss="mse"), "scheme": scheme}
    made = insitu.compile(module, example=torch.zeros(1, 6), **options)
    assert any("is not trained" in note for note in made.notes) and "is not trained" in capsys.readouterr().err
    assert not any(name.startswith(("second", "norm")) for name in made.device.state())
    before = made.predict(x)
    losses = made.fit(x, y, epochs=20, rate=0.05).loss
    after = made.predict(x)
    assert losses[-1] < losses[0] and after[0].tobytes() != before[0].tobytes()
    assert (after[1].tobytes() == before[1].tobytes()) == (scheme == "last:1")  # else the shared body changes, too
    assert insitu.prove(module, example=torch.zeros(1, 6), **options).ok


def test_a_layer_that_leads_to_another_output_cannot_be_named(tmp_path):
    (tmp_path / "scheme.txt").write_text("second bias weight 1\n")
    with pytest.raises(SchemeError, match="no such layer") as e:
        insitu.compile(TwoOutputs().eval(), example=torch.zeros(1, 6), precision="float",
                       recipe=insitu.Recipe(loss="mse"), scheme=str(tmp_path / "scheme.txt"))  # fmt: skip
    assert "first" in e.value.hint and "second" not in e.value.hint


# inputs of integers -------------------------------------------------------------------------------


class Pixels(nn.Module):
    """Takes integers and converts them to float itself."""

    def __init__(self, how):
        super().__init__()
        self.fc, self.how = nn.Linear(6, 3), how

    def forward(self, x):
        return self.fc(self.how(x))


@pytest.mark.parametrize("how", [lambda x: x.float() / 255, lambda x: x / 255, lambda x: x.to(torch.float32) - 128])
def test_an_input_of_integers_that_is_made_float_arrives_as_float(how):
    module = Pixels(how).eval()
    x = torch.arange(6).reshape(1, 6)
    graph = load(module, x)
    assert graph.notes == ("input x is int64 in the model and f32 here",)
    with torch.no_grad():
        np.testing.assert_allclose(evaluate(graph, x.numpy().astype(np.float32)), module(x).numpy(), rtol=1e-5)


@pytest.mark.parametrize("how, op", [(lambda x: (x * 2).float(), "mul"), (lambda x: (x // 2).float(), "floor_divide")])
def test_integers_that_are_computed_with_are_refused_with_the_way_out(how, op):
    with pytest.raises(Unsupported, match=f"int64 and goes into {op}") as e:
        load(Pixels(how), torch.zeros(1, 6, dtype=torch.int64))
    assert "x.float()" in e.value.hint


def test_an_embedding_is_refused_with_the_way_out():
    with pytest.raises(Unsupported, match="int64 and goes into embedding") as e:
        load(nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 3)), torch.zeros(1, 6, dtype=torch.int64))
    assert "embedded vectors" in e.value.hint
    with pytest.raises(ModelError, match="cannot trace") as e:
        insitu.compile(
            nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(24, 3)), data=np.zeros((8, 6), np.int64)
        )
    assert "embedded vectors" in e.value.hint


def test_an_onnx_input_of_integers_that_is_cast_arrives_as_float(tmp_path):
    onnx = pytest.importorskip("onnx")
    h = onnx.helper
    nodes = [h.make_node("Cast", ["x"], ["c"], to=1), h.make_node("Gemm", ["c", "w"], ["y"])]
    weight = onnx.numpy_helper.from_array(np.ones((6, 3), np.float32), "w")
    for element in (onnx.TensorProto.INT64, onnx.TensorProto.UINT8):
        ends = [h.make_tensor_value_info("x", element, [1, 6])], [h.make_tensor_value_info("y", 1, [1, 3])]
        onnx.save(
            h.make_model(h.make_graph(nodes, "g", *ends, [weight]), opset_imports=[h.make_opsetid("", 17)]),
            tmp_path / "net.onnx",
        )
        graph = load(tmp_path / "net.onnx")
        assert str(graph.inputs[0].type) == "f32[1x6]" and "in the file and f32 here" in graph.notes[0]


def test_layers_are_counted_towards_the_first_output():
    graph = to_precision(load(TwoOutputs().eval(), torch.zeros(1, 6)), "float", None, "full")
    assert [layer.name for layer in trainable(graph)] == ["body.0", "first"]
