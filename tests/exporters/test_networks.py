"""Whole networks through LiteRT and onnxruntime: families, 1-D networks, random ones; every int8 tensor is compared."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from insitu.graph import Graph, evaluate
from insitu.importers import load
from insitu.learner.model import Model
from insitu.quantizer import fold
from insitu.quantizer.rounding import with_rounding

from ..models import families, others
from ..models_1d import MAKERS, sequence_net
from ..training.random_nets import random_net

pytest.importorskip("ai_edge_litert", reason="runs the files in LiteRT")
pytest.importorskip("onnxruntime", reason="runs the files in onnxruntime")

from insitu.exporters import litert, onnx
from insitu.exporters.compared import distance
from insitu.exporters.litert.runtime import Runtime

SOME = ("mobilenet_v3", "autoencoder", "random3", "1d-tcn")  # quick; the others are slow
SEEDS = range(30)


@cache
def network(name: str) -> tuple[Graph, Graph, list[tuple[np.ndarray, ...]]]:
    """The float graph, the int8 graph, and four samples."""
    module, example = made(name)
    rng = np.random.default_rng(0)
    shape = (8, *example[0].shape[1:])
    x = rng.normal(size=shape).astype(np.float32)
    graph = fold(load(module, tuple(e[:1] for e in example)))
    return graph, Model(graph).quantize(x).graph, [(x[i : i + 1],) for i in range(4)]


def made(name: str):
    if name.startswith("random"):
        return random_net(int(name.removeprefix("random")))[:2]
    if name.startswith("1d-"):
        return sequence_net(name.removeprefix("1d-"))
    return (families() | others())[name]


def all_names() -> list[str]:
    return [*families(), *others(), *(f"1d-{name}" for name in MAKERS), *(f"random{seed}" for seed in SEEDS)]


NAMES = [pytest.param(name, marks=() if name in SOME else pytest.mark.slow) for name in all_names()]


@pytest.mark.parametrize("name", NAMES)
def test_litert_reference_kernels_give_every_byte(name: str):
    _, quantised, samples = network(name)
    graph = fold(with_rounding(quantised, "litert"))
    file = litert.translate(graph)
    runtime = Runtime(file.file.data(), "reference", keep=True)
    expected = [evaluate(graph, *sample, keep=True) for sample in samples]
    assert "int8 values equal" in litert.compare(graph, file.tensors, runtime, samples, expected).words


@pytest.mark.parametrize("name", NAMES)
def test_litert_xnnpack_gives_every_byte(name: str):
    _, quantised, samples = network(name)
    graph = fold(quantised)
    file = litert.translate(graph)
    runtime = Runtime(file.file.data(), "XNNPACK", keep=True)
    expected = [evaluate(graph, *sample, keep=True) for sample in samples]
    assert "int8 values equal" in litert.compare(graph, file.tensors, runtime, samples, expected).words


@pytest.mark.parametrize("name", NAMES)
def test_onnxruntime_gives_every_byte(name: str):
    _, quantised, samples = network(name)
    graph = fold(quantised)
    file = onnx.translate(graph)
    expected = [evaluate(graph, *sample, keep=True) for sample in samples]
    for optimise in (True, False):
        assert "int8 values equal" in onnx.compare(graph, file, optimise, samples, expected).words


@pytest.mark.parametrize("name", NAMES)
def test_float_files_agree_with_the_float_network(name: str):
    graph, _, samples = network(name)
    session, runtime = (
        onnx.Session(onnx.translate(graph), True),
        Runtime(litert.translate(graph).file.data(), "XNNPACK"),
    )
    for sample in samples:
        want = evaluate(graph, *sample, precision=np.float64, keep=True)
        feeds = dict(zip((v.name for v in graph.inputs), sample))
        for v, theirs in zip(graph.outputs, runtime.run(*sample)):
            assert distance(theirs, want[v.name]) < 1e-4
            assert distance(session.run(feeds)[v.name], want[v.name]) < 1e-4
