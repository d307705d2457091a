"""Kernels for microcontrollers, built for this machine: the results of the numpy meaning, and the host's bytes."""

import numpy as np
import pytest

from insitu.devices.host import open_plans
from insitu.graph import evaluate
from insitu.importers import load
from insitu.planner import plan
from insitu.planner.plan import call_of
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.head import HEAD, replace_head
from insitu.training.train import train_graphs

from ..each import each
from .case_library import TARGETS, all_bound, library


def _kernels(graph, machine: str) -> list[str]:
    return [call_of(node, graph, machine).function for node in graph.nodes]


# the cases for which a microcontroller has its own kernels
LABELS = tuple(name for name, b in all_bound().items() if _kernels(b.graph, "mcu") != _kernels(b.graph, "host"))


@pytest.mark.parametrize("target", TARGETS)
def test_small_kernels_give_the_bytes_of_the_wide_ones(target):
    small, wide = library(target, "mcu", LABELS), library("scalar", "host")

    def claim(label: str) -> None:
        bound = all_bound()[label]
        small[label].poison(0xA5)
        got, want = (_many(d[label].predict(*bound.feeds)) for d in (small, wide))
        meant = map(np.asarray, _many(evaluate(bound.graph, *bound.feeds, precision=np.float64)))
        for v, g, w, m in zip(bound.graph.outputs, got, want, meant):
            if v.dtype in ("f32", "f64"):
                np.testing.assert_allclose(g, m, rtol=1e-5, atol=1e-5 * np.abs(m).max())
                if any(i.dtype == "s8" for i in bound.graph.nodes[0].inputs):  # int8 programs learn the same everywhere
                    assert g.tobytes() == w.tobytes()
            else:
                np.testing.assert_array_equal(g, m)

    each(LABELS, claim)


def _many(x):
    return x if isinstance(x, tuple) else (x,)


@pytest.fixture(scope="module")
def training(shared_models):
    """The training program of the published scheme that is measured on a board with 256 KB."""
    graph = replace_head(load(shared_models / "mcunet-5fps.pkl"), 10)
    scheme = read_scheme("mcunet-5fps/49kb", [layer for layer in layers(graph) if layer.name != HEAD])
    return train_graphs(graph, scheme)


@pytest.fixture(scope="module")
def devices(training):
    return {t: open_plans({verb: plan(g, target=t) for verb, g in training.items()}) for t in ("host", "mcu")}


def test_each_weight_is_stored_once_and_scratch_is_small(devices):
    program = devices["mcu"].program
    assert program.const_bytes < 600_000
    assert program.arena_bytes < 170_000
    assert program.const_bytes < devices["host"].program.const_bytes


def test_a_microcontroller_learns_the_bytes_a_host_learns(devices):
    rng = np.random.default_rng(3)
    for label in range(4):
        x = rng.integers(-128, 128, (1, 128, 128, 3)).astype(np.int8)
        losses = [d.run("train_step", x, np.array([label], np.int32), np.float32(0.05)) for d in devices.values()]
        assert [a.tobytes() for a in losses[0]] == [a.tobytes() for a in losses[1]]
    first, second = (d.state() for d in devices.values())
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)
    before = devices["mcu"].program.state.first
    trained = [n for n in first if n.endswith(".trained") or n.endswith(".bias")]
    assert sum((first[n] != before[n]).any() for n in trained) > len(trained) / 2
