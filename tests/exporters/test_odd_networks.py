"""Networks of unusual kinds are saved and exported: a slope without axes, int8 values that are turned as floats."""

import numpy as np
import pytest
import torch
from torch import nn

import insitu


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
