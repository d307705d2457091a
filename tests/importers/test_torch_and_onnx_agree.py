"""A torch module and its ONNX export are the same network, so they must become the same graph."""

import numpy as np
import pytest
import torch

from insitu.graph import evaluate
from insitu.graph.compare import first_difference
from insitu.importers.onnx.read import read_onnx
from insitu.importers.torch.read import read_torch
from insitu.quantizer.fold import fold
from tests.exports import exported, write_onnx
from tests.models import families, others

FAMILIES = families() | others()


@pytest.fixture(scope="module")
def onnx_of(tmp_path_factory):
    """Path of a family's ONNX export, made once."""
    folder = tmp_path_factory.mktemp("onnx")

    def path(name):
        file = folder / f"{name}.onnx"
        return file if file.exists() else write_onnx(program_of(name), None, file, external_data=False)

    return path


def program_of(name):
    module, example = FAMILIES[name]
    return exported(module, *example)


@pytest.mark.parametrize("name", FAMILIES)
def test_after_folding_they_are_the_same_graph_up_to_names(name, onnx_of):
    assert first_difference(fold(read_torch(program_of(name))), fold(read_onnx(onnx_of(name)))) is None


@pytest.mark.parametrize("name", FAMILIES)
def test_the_onnx_import_computes_what_onnxruntime_computes(name, onnx_of):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(onnx_of(name)), providers=["CPUExecutionProvider"])
    x = FAMILIES[name][1][0].numpy()
    (wanted,) = session.run(None, {session.get_inputs()[0].name: x})
    found = evaluate(read_onnx(onnx_of(name)), x, precision=np.float64)
    assert np.max(np.abs(found - wanted)) <= 1e-5 * np.max(np.abs(found))


def test_a_difference_is_named():
    module, example = FAMILIES["mlp"]
    other = families()["mlp"][0]
    with torch.no_grad():
        other.layers[3].weight[2, 1] += 0.01
    a, b = fold(read_torch(module, example)), fold(read_torch(other, example))
    assert first_difference(a, a) is None
    assert first_difference(a, b) == "%layers.3.weight and %layers.3.weight: constants differ"
