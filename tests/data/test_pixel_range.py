"""Photos of a folder are scaled to what the model takes: its first operators, its file or its user say it, for good."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import insitu
from insitu.cli import main
from insitu.data.reading import read_samples
from insitu.data.source import source_of
from insitu.deploy.manifest import read_manifest
from insitu.graph.graph import Graph, Value
from insitu.graph.text import parse, to_text
from insitu.graph.types import Type

MEAN, STD = torch.tensor([120.0, 115, 100]).view(3, 1, 1), torch.tensor([60.0, 57, 55]).view(3, 1, 1)


class Front(nn.Module):
    def __init__(self, front):
        super().__init__()
        torch.manual_seed(0)
        self.front = front
        layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)]
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return self.body(self.front(x))


def network(front):
    return insitu.load(Front(front).eval(), torch.zeros(1, 3, 8, 8))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Dark ones and light ones, darker than half of white."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for name, level in (("dark", 20), ("light", 100)):
        (folder / name).mkdir()
        for i in range(8):
            made = np.clip(rng.normal(level, 5, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(made).save(folder / name / f"{i}.png")
    return folder


@pytest.mark.parametrize(
    ("front", "taken"),
    [
        (lambda x: x / 255, (0, 255)),
        (lambda x: x * (1 / 127.5) - 1, (0, 255)),
        (lambda x: (x - MEAN) / STD, (0, 255)),
        (lambda x: (x / 255 - 0.45) / 0.225, (0, 255)),
        (lambda x: (x - 0.45) / 0.225, (0, 1)),
        (lambda x: x * 2 - 1, (0, 1)),
        (lambda x: x, (0, 1)),
    ],
)
def test_the_first_operators_say_which_pixels_a_model_takes(front, taken):
    assert source_of(network(front).graph).pixels == taken


def test_photos_are_scaled_to_what_the_model_takes(photos):
    found = read_samples(photos, network(lambda x: x / 255).graph)
    assert 90 < found.inputs[0].max() <= 255
    assert read_samples(photos, network(lambda x: x).graph).inputs[0].max() < 1
    assert read_samples(photos, network(lambda x: x / 255).graph, pixels=(-1, 1)).inputs[0].min() < -0.7


def test_a_range_goes_through_the_text_of_a_graph():
    graph = Graph("net", (Value("x", Type("f32", (1, 2, 2, 3))),), (), (), {}, pixels=(-1.0, 1.0))
    assert parse(to_text(graph)).pixels == (-1.0, 1.0) and to_text(parse(to_text(graph))) == to_text(graph)


@pytest.mark.parametrize("range", ["1.0, 0.0", "0.0, NaN", "0.0, Infinity"])
def test_a_range_without_pixels_is_refused(range):
    graph = Graph("net", (Value("x", Type("f32", (1, 2, 2, 3))),), (), (), {}, pixels=(-1.0, 1.0))
    with pytest.raises(insitu.errors.GraphError, match="pixels"):
        insitu.graph.check(parse(to_text(graph).replace("-1.0, 1.0", range)))


@pytest.mark.parametrize("precision", ["int8", "float"])
def test_a_learner_remembers_the_range_it_was_trained_with(photos, tmp_path, capsys, precision):
    """Before, `predict` scaled its photos to 0..1 again, and nothing said that the answers were nonsense."""
    network(lambda x: x).save(tmp_path / "net.insitu")
    made = str(tmp_path / "made.insitu")
    course = ["--pixels", "0:255", "--precision", precision, "--epochs", "8", "--rate", "0.0002"]
    assert main(["train", str(tmp_path / "net.insitu"), "--data", str(photos), *course, "-o", made]) == 0
    capsys.readouterr()
    assert main(["predict", made, "--data", str(photos), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    learner = insitu.open(made)
    plain = read_samples(photos, learner.graphs["predict"], pixels=(0, 255))
    right = -np.sort(-learner.predict(plain.inputs[0]))
    np.testing.assert_allclose([one["scores"] for one in shown["top"]], right, atol=1e-5)
    assert learner.evaluate(str(photos))["accuracy"] == learner.evaluate(plain)["accuracy"]


def test_the_folder_of_a_board_remembers_it_too(photos, tmp_path):
    learner = insitu.compile(network(lambda x: x / 255), data=str(photos), board="nrf52840")
    learner.write(tmp_path / "build")
    graph = read_manifest(tmp_path / "build").graph
    assert source_of(graph).pixels == (0, 255)
    assert read_samples(photos, graph).inputs[0].max() > 90
