"""Sizes that a model leaves open are settled by samples, an example or --shape."""

import os

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.cli import main
from insitu.errors import Unsupported
from insitu.importers import load

os.environ.setdefault("KERAS_BACKEND", "torch")
SHAPE = (1, 3, 12, 20)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3, 2, 1), nn.Linear(4, 5)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def files(net, tmp_path_factory):
    """The network with height and width left open, in two formats."""
    folder, x = tmp_path_factory.mktemp("open"), torch.zeros(2, *SHAPE[1:])
    axes = {"x": {0: "n", 2: "height", 3: "width"}}
    torch.onnx.export(net, (x,), str(folder / "net.onnx"), input_names=["x"], dynamic_axes=axes, dynamo=False)
    dim = torch.export.Dim
    free = {"x": {0: dim("n"), 2: dim("h", min=8, max=64), 3: dim("w", min=8, max=64)}}
    torch.export.save(torch.export.export(net, (x,), dynamic_shapes=free), folder / "net.pt2")
    return {"onnx": folder / "net.onnx", "pt2": folder / "net.pt2"}


@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_an_example_settles_the_sizes_that_a_file_leaves_open(kind, files, net):
    graph = load(files[kind], np.zeros(SHAPE))
    assert graph.inputs[0].shape == SHAPE
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    expected = net(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(insitu.load(files[kind], x).predict(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_without_an_example_the_error_shows_the_shape_and_a_way_out(kind, files):
    with pytest.raises(Unsupported) as caught:
        load(files[kind])
    assert "takes 1x3x?x?: size 2 is open" in str(caught.value)
    assert "example=numpy.zeros((1, 3, 224, 224))" in str(caught.value)


def test_an_example_that_contradicts_the_file_settles_nothing(files):
    with pytest.raises(Unsupported, match=r"1x3x\?x\?"):
        load(files["onnx"], np.zeros((1, 12, 20, 3)))


def test_samples_settle_open_sizes_for_compile(files):
    x = np.random.default_rng(0).normal(size=(8, *SHAPE[1:])).astype(np.float32)
    learner = insitu.compile(str(files["onnx"]), data=(x, np.arange(8) % 5), scheme="head")
    assert learner.predict(x).shape == (8, 5)


def test_shape_on_the_command_line(files, capsys):
    assert main(["check", str(files["onnx"])]) == 1
    assert "--shape 3x224x224" in capsys.readouterr().out
    assert main(["check", str(files["onnx"]), "--shape", "3x12x20"]) == 0
    assert "f32[1x6x10x4]" in capsys.readouterr().out


def test_a_shape_that_contradicts_the_file_is_an_error(files, net, tmp_path, capsys):
    torch.onnx.export(net, (torch.zeros(SHAPE),), str(tmp_path / "fixed.onnx"), dynamo=False)
    assert main(["quantize", str(tmp_path / "fixed.onnx"), "--data", "none.npz", "--shape", "3x8x8"]) == 1
    assert "takes 3x12x20 by its own file, not 3x8x8" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "3x0x4", "3,4", "axb", "-1x3"])
def test_a_shape_that_is_none_is_refused(text, files, capsys):
    with pytest.raises(SystemExit):
        main(["check", str(files["onnx"]), f"--shape={text}"])
    assert "3x224x224" in capsys.readouterr().err


def test_a_keras_model_with_open_sizes(tmp_path):
    keras = pytest.importorskip("keras")
    layers = keras.layers
    model = keras.Sequential([keras.Input((None, 6)), layers.Conv1D(4, 3, activation="relu"),
                              layers.GlobalAveragePooling1D(), layers.Dense(3)])  # fmt: skip
    with pytest.raises(Unsupported, match=r"1x\?x6"):
        load(model)
    assert load(model, np.zeros((1, 50, 6))).inputs[0].shape == (1, 50, 6)
    model.save(tmp_path / "net.keras")
    assert load(tmp_path / "net.keras", np.zeros((1, 30, 6))).inputs[0].shape == (1, 30, 6)
