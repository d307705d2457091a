"""Networks of unusual kinds are saved and exported: a slope without axes, int8 values that are turned as floats."""

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.learner.file import state_of


def samples(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(8, *shape)).astype(np.float32)


def test_a_trained_parameter_without_axes_is_saved_and_opened(tmp_path):
    net, x = nn.Sequential(nn.Linear(5, 4), nn.PReLU(), nn.Linear(4, 3)).eval(), samples(5)
    learner = insitu.compile(net, example=torch.zeros(1, 5), precision="float", scheme="full", batch=1)
    learner.fit(x, np.arange(8) % 3, epochs=1, rate=0.01)
    learner.save(tmp_path / "net.insitu")
    assert np.array_equal(insitu.open(tmp_path / "net.insitu").predict(x), learner.predict(x))


def test_onnxruntime_takes_real_numbers_that_are_turned_behind_a_dequantisation(tmp_path):
    pytest.importorskip("onnxruntime", reason="checks .onnx files")
    net = nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.Hardswish(), nn.Flatten(), nn.Linear(16, 3)).eval()
    x = samples(2, 4, 4)
    learner = insitu.compile(net, example=torch.zeros(1, 2, 4, 4), data=x, scheme="head")
    for options in ({}, {"form": "qdq"}, {"precision": "float"}):
        assert learner.export(tmp_path / "net.onnx", **options).size_bytes


class Upsampling(nn.Module):
    """Convolutions around an interpolation."""

    def __init__(self, align: bool, **size):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 3, 3), nn.Conv2d(3, 3, 3), nn.Linear(3, 3)
        self.up = nn.Upsample(mode="bilinear", align_corners=align, **size)

    def forward(self, x):
        x = torch.relu(self.b(self.up(torch.relu(self.a(x)))))
        return self.c(x.mean((2, 3)))


@pytest.mark.parametrize("size", [{"size": (9, 11)}, {"scale_factor": (1.7, 2.5)}, {"size": (3, 4)}])
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("scheme", ["full", "last:2"])
def test_an_interpolation_is_never_trained(align, size, scheme):
    """It is a product with a matrix that is none of the model's: the module holds all that was learned."""
    torch.manual_seed(0)
    net, x = Upsampling(align, **size).eval(), samples(2, 7, 8)
    learner = insitu.compile(net, example=torch.zeros(1, 2, 7, 8), precision="float", scheme=scheme, batch=1)
    np.testing.assert_allclose(learner.predict(x), net(torch.tensor(x)).detach(), atol=1e-5)
    learner.fit(x, np.arange(8) % 3, epochs=3, rate=0.05)
    insitu.export.into(net, learner)
    np.testing.assert_allclose(learner.predict(x), net(torch.tensor(x)).detach(), atol=1e-5)


def test_an_int8_interpolation_is_never_trained_either(tmp_path):
    net, x = Upsampling(False, size=(9, 11)).eval(), samples(2, 7, 8)
    learner = insitu.compile(net, example=torch.zeros(1, 2, 7, 8), data=x, scheme="full")
    assert not any(name.startswith("up.") for name in state_of(learner))
    learner.save(tmp_path / "net.insitu")
    insitu.open(tmp_path / "net.insitu").export(tmp_path / "net.tflite")


def test_an_interpolation_of_an_onnx_file_is_never_trained(tmp_path):
    pytest.importorskip("onnxscript", reason="torch writes .onnx files with it")
    net = Upsampling(False, size=(9, 11)).eval()
    torch.onnx.export(net, (torch.zeros(1, 2, 7, 8),), tmp_path / "net.onnx", dynamo=False)
    learner = insitu.compile(tmp_path / "net.onnx", precision="float", scheme="full", batch=1)
    assert not any(name.startswith("up.") for name in state_of(learner))


class Scaled(nn.Module):
    """A factor per channel, and a border that is not zero."""

    def __init__(self):
        super().__init__()
        self.pad, self.conv, self.end = nn.ConstantPad2d((1, 2, 0, 1), 0.5), nn.Conv2d(2, 3, 3), nn.Linear(3, 3)
        self.register_buffer("factor", torch.tensor([0.5, 2.0]).reshape(2, 1, 1))

    def forward(self, x):
        return self.end(torch.relu(self.conv(self.pad(x * self.factor))).mean((2, 3)))


@pytest.mark.parametrize("target", ["coreml", "coreml-predict"])
def test_core_ml_takes_a_scale_and_a_border_that_is_not_zero(tmp_path, target):
    """The file is evaluated again and compared before it is written."""
    pytest.importorskip("coremltools", reason="writes .mlmodel files")
    learner = insitu.compile(
        Scaled().eval(), example=torch.zeros(1, 2, 5, 6), precision="float", scheme="full", batch=1
    )
    assert learner.export(tmp_path / "net.mlmodel", to=target).size_bytes
