"""What Android's libraries find in a .tflite file: names of classes, the meaning of pixels, the size of images."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import insitu

pytest.importorskip("ai_edge_litert", reason="writes .tflite files")

from insitu.graph import Builder, build, f32
from insitu.ops.conv import conv2d
from insitu.ops.linear import linear
from insitu.ops.reduce import mean as mean_of

from .metadata_reader import read

NAMES = ["rest", "tap", "wave"]


def channels_last() -> insitu.Model:
    """A small network that takes images as Android's libraries give them."""
    rng, builder = np.random.default_rng(0), Builder("photos")
    with build(builder):
        x = builder.input("x", f32(1, 6, 5, 3))
        w = builder.constant("conv.weight", rng.normal(size=(4, 3, 3, 3)).astype(np.float32))
        y = mean_of(conv2d(x, w, builder.constant("conv.bias", np.zeros(4, np.float32)), name="conv"), axes=(1, 2))
        v = builder.constant("fc.weight", rng.normal(size=(3, 4)).astype(np.float32))
        graph = builder.graph(linear(y, v, builder.constant("fc.bias", np.zeros(3, np.float32)), name="fc"))
    return insitu.Model(graph)


def channels_first(**options) -> insitu.Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    return insitu.compile(module.eval(), example=torch.zeros(1, 3, 6, 5), precision="float", classes=NAMES, **options)


@pytest.mark.parametrize("to", ["litert", "litert-train"])
def test_a_float_image_has_its_size_its_normalisation_and_its_class_names(to: str, tmp_path):
    learner = insitu.compile(channels_last(), precision="float", classes=NAMES)
    path = learner.export(tmp_path / "net.tflite", to=to, mean=127.5, std=(60, 61, 62)).path
    found = read(path.read_bytes())
    (x,), (y, *_) = found.inputs, found.outputs
    assert (x.kind, x.colours, x.size, x.mean, x.std) == ("image", "rgb", (5, 6), (127.5,), (60.0, 61.0, 62.0))
    assert (y.kind, y.labels, found.parser) == ("feature", NAMES, "1.0.0")


def test_an_image_of_bytes_is_normalised_inside_and_says_so(tmp_path):
    learner = channels_first(transform=insitu.Transform(0.5, 0.5))
    (x,) = read(learner.export(tmp_path / "net.tflite").path.read_bytes()).inputs
    assert (x.kind, x.size, x.mean, x.std) == ("image", (5, 6), (0.0,), (1.0,))
    assert x.description == "takes bytes 0..255; they are normalised inside the model"


@pytest.mark.parametrize(("options", "words", "hint"), [
    ({}, r"of float images \[1, height, width, 1 or 3\], this model takes f32\[1x3x6x5\]", "Transform"),
    ({"transform": insitu.Transform(0.5, 0.5)}, "takes bytes and normalises inside", "leave them out"),
])  # fmt: skip
def test_numbers_that_no_library_could_use_are_an_error(options: dict, words: str, hint: str, tmp_path):
    with pytest.raises(insitu.DataError, match=words) as found:
        channels_first(**options).export(tmp_path / "net.tflite", mean=1, std=2)
    assert hint in found.value.hint and not list(tmp_path.iterdir())
