"""A torch module and its ONNX export are the same network, so they must become the same graph."""

import warnings

import numpy as np
import pytest
import torch

from insitu.graph import evaluate
from insitu.graph.compare import first_difference
from insitu.importers.onnx.read import read_onnx
from insitu.importers.torch.read import read_torch
from insitu.quantizer.fold import fold
from tests.models import families, others

FAMILIES = families() | others()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Path of a family's ONNX export, made once."""
    folder = tmp_path_factory.mktemp("onnx")

    def path(name):
        file = folder / f"{name}.onnx"
        if not file.exists():
            module, example = FAMILIES[name]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(module, example, file, dynamo=True, external_data=False, verbose=False)
        return file

    return path


@pytest.mark.parametrize("name", FAMILIES)
def test_after_folding_they_are_the_same_graph_up_to_names(name, exported):
    module, example = FAMILIES[name]
    assert first_difference(fold(read_torch(module, example)), fold(read_onnx(exported(name)))) is None


@pytest.mark.parametrize("name", FAMILIES)
def test_the_onnx_import_computes_what_onnxruntime_computes(name, exported):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(exported(name)), providers=["CPUExecutionProvider"])
    x = FAMILIES[name][1][0].numpy()
    (wanted,) = session.run(None, {session.get_inputs()[0].name: x})
    found = evaluate(read_onnx(exported(name)), x, precision=np.float64)
    assert np.max(np.abs(found - wanted)) <= 1e-5 * np.max(np.abs(found))


def test_a_difference_is_named():
    module, example = FAMILIES["mlp"]
    other = families()["mlp"][0]
    with torch.no_grad():
        other.layers[3].weight[2, 1] += 0.01
    a, b = fold(read_torch(module, example)), fold(read_torch(other, example))
    assert first_difference(a, a) is None
    assert first_difference(a, b) == "%layers.3.weight and %layers.3.weight: constants differ"
