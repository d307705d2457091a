"""The names of a table's columns, and its words, wherever what was learned goes: others must know what to put in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.graph import Builder, build, f32
from insitu.ops.linear import linear

from .metadata_reader import read

COLUMNS = ("age", "job=clerk", "job=driver")
TOLD = "in this order: age, job=clerk, job=driver; NAME=WORD is 1 where the column NAME says WORD, else 0"


@pytest.fixture(scope="module")
def learner() -> insitu.Learner:
    builder, rng = Builder("loans"), np.random.default_rng(0)
    with build(builder):
        w = builder.constant("fc.weight", rng.normal(size=(2, 3)).astype(np.float32))
        y = linear(builder.input("row", f32(1, 3)), w, builder.constant("fc.bias", np.zeros(2, np.float32)), name="fc")
        graph = replace(builder.graph(y), columns=COLUMNS)
    return insitu.compile(insitu.Model(graph), precision="float", classes=("refer", "refuse"), scheme="head")


@pytest.mark.parametrize("to", ["litert", "litert-train"])
def test_the_metadata_of_litert_says_what_the_numbers_are(learner, to: str, tmp_path):
    pytest.importorskip("ai_edge_litert", reason="writes .tflite files")
    (x,) = read(learner.export(tmp_path / "net.tflite", to=to).path.read_bytes()).inputs
    assert x.description == TOLD


def test_core_ml_says_what_the_numbers_are(learner, tmp_path):
    ct = pytest.importorskip("coremltools")
    path = learner.export(tmp_path / "net.mlmodel").path
    assert ct.utils.load_spec(str(path)).description.input[0].shortDescription == TOLD


def test_onnx_has_the_columns_as_a_property(learner, tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(learner.export(tmp_path / "net.onnx").path)
    assert {p.key: p.value for p in model.metadata_props}["columns"] == '["age", "job=clerk", "job=driver"]'


def test_the_header_and_info_say_what_the_numbers_are(learner, tmp_path, capsys):
    learner.write(tmp_path / "build")
    header = (tmp_path / "build" / "net.h").read_text()
    assert "/* The columns of row: */\n/* [0] age */\n/* [1] job=clerk: 1 where job is clerk, else 0 */" in header
    assert main(["info", str(learner.save(tmp_path / "loans.insitu"))]) == 0
    assert "age, job=clerk, job=driver" in capsys.readouterr().out
