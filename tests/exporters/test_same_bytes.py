"""Exported and loaded again: an int8 network gives the same bytes, whatever its rounding, also if it takes bytes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.errors import Error
from insitu.exporters.learned import learned_graph
from insitu.graph import evaluate
from insitu.importers import load
from insitu.importers.tflite.read import read_tflite

pytest.importorskip("ai_edge_litert", reason="writes .tflite files")
pytest.importorskip("onnxruntime", reason="checks .onnx files")

SHAPE = (3, 12, 10)


class Net(nn.Module):
    """What files write in several ways: a mean, an average, a lookup, a gate, a rescaled sum, a concatenation."""

    def __init__(self):
        super().__init__()
        self.stem, self.side = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 1)
        self.gate, self.head = nn.Linear(8, 8), nn.Linear(16, 4)

    def forward(self, x):
        x = nn.functional.hardswish(self.stem(x))
        x = nn.functional.avg_pool2d(torch.cat([x, 2 * torch.relu(self.side(x))], 1), 2)
        a, b = x.chunk(2, 1)
        a = a * torch.sigmoid(self.gate(a.mean((2, 3))))[:, :, None, None]
        return self.head(torch.cat([a, b], 1).mean((2, 3)))


def learner(rounding: str, **more):
    torch.manual_seed(1)
    x, y = samples(more), np.arange(32) % 4
    made = insitu.compile(
        insitu.load(Net().eval(), torch.zeros(1, *SHAPE)), data=(x, y), scheme="last:1", rounding=rounding, **more
    )
    made.fit(x, y, epochs=1, rate=0.02)
    return made


def samples(more: dict) -> np.ndarray:
    if "transform" in more:
        return np.random.default_rng(0).integers(0, 256, (32, 12, 10, 3)).astype(np.uint8)
    return np.random.default_rng(0).standard_normal((32, *SHAPE)).astype(np.float32)


def same(made, path, x: np.ndarray) -> bool:
    ours, again = learned_graph(made), load(path)
    return all(np.array_equal(evaluate(ours, i[None]), evaluate(again, i[None])) for i in x)


@pytest.mark.parametrize("rounding", ["single", "litert"])
def test_the_same_bytes_come_back(rounding, tmp_path):
    made = learner(rounding)
    for name in ("net.tflite", "net.onnx"):
        assert same(made, made.export(tmp_path / name).path, samples({})), name


@pytest.mark.parametrize("precision", [None, "float"])
@pytest.mark.parametrize("mean", [(127.5,), (120.0, 110.0, 100.0)])
def test_a_network_that_takes_bytes_comes_back(mean, precision, tmp_path):
    transform = insitu.Transform(mean, (60.0,) * len(mean))
    made = learner("single", transform=transform)
    made.export(tmp_path / "net.tflite", precision=precision)
    again, x = load(tmp_path / "net.tflite"), samples({"transform": transform})
    assert again.inputs[0].dtype == "u8" and [n.op.name for n in again.nodes].count("normalize") == 1
    if precision is None:
        assert same(made, tmp_path / "net.tflite", x)


def test_the_file_says_its_rounding_and_anything_strange_there_is_left_out(tmp_path):
    data = learner("single").export(tmp_path / "net.tflite").path.read_bytes()
    assert json.dumps({"rounding": "single"}).encode() in data
    broken = data.replace(b'{"rounding": "single"}', b'{"rounding": [[[[[[[[[')
    found = {n.attrs["rounding"] for n in read_tflite(broken).nodes if n.op.kind == "int8" and "rounding" in n.attrs}
    assert found == {"litert"}


def test_an_onnx_file_that_was_changed_is_not_taken_for_the_one_that_was_written(tmp_path):
    onnx = pytest.importorskip("onnx")
    path = learner("single").export(tmp_path / "net.onnx").path
    model = onnx.load(path)
    model.graph.node[-1].name = "renamed"
    onnx.save(model, path)
    with pytest.raises(Error, match="Round"):
        load(path)
