"""A living program: encode a sample, then learn from its latents; the same bytes as a training step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import insitu
from insitu.devices.host import open_plans
from insitu.errors import GraphError
from insitu.planner import plan
from insitu.training.living import living

from ..learners import learner
from ..models import imported

SCHEMES = [("head", "float"), ("last:2", "float"), ("head", "int8"), ("last:2", "int8"), ("full", "float")]


def compiled(scheme: str, precision: str) -> tuple[insitu.Learner, np.ndarray]:
    graph = imported("mobilenet_v2")
    x = np.random.default_rng(1).normal(size=(4, *graph.inputs[0].shape[1:])).astype(np.float32)
    return insitu.compile(graph, classes=5, data=x, scheme=scheme, precision=precision,
                          head_init="uniform"), x  # fmt: skip


@pytest.mark.parametrize("scheme, precision", SCHEMES)
def test_encode_and_learn_are_a_training_step(scheme: str, precision: str):
    made, x = compiled(scheme, precision)
    device = open_plans({verb: plan(g) for verb, g in living(made.graphs).items()})
    for i, sample in enumerate(x):
        sample, label, rate = sample[None], np.array([i], np.int32), np.float32(0.05)
        latents = device.run("encode", sample) if "encode" in device.verbs else (sample,)
        outputs, *features = device.run("recall", *latents)
        assert outputs.tobytes() == device.run("predict", sample)[0].tobytes() and len(features) == 1
        loss, _ = device.run("learn", *latents, label, rate)
        wanted, _ = made.device.run("train_step", sample, label, rate)
        assert loss.tobytes() == wanted.tobytes()
    mine, theirs = device.state(), made.device.state()
    assert set(mine) == set(theirs) and all(mine[k].tobytes() == theirs[k].tobytes() for k in mine)


def test_nothing_is_encoded_where_everything_is_trained():
    made, _ = compiled("full", "float")
    assert "encode" not in living(made.graphs)


def test_the_cut_is_where_little_is_stored():
    """Of an inverted residual block, the narrow input is stored instead of the expanded tensor."""
    made, _ = compiled("last:2", "int8")
    kept = living(made.graphs)["recall"].inputs
    assert sum(v.type.bytes for v in kept) < 1000


def test_rows_are_refused_with_a_way_out():
    graphs = {verb: replace(g, by_rows=g.inputs[0].name) for verb, g in learner().graphs.items()}
    with pytest.raises(GraphError, match=r"rows that went by are gone[\s\S]*bytes of SRAM"):
        living(graphs)


def test_batches_are_refused():
    with pytest.raises(GraphError, match="one sample at a time"):
        living(learner(batch=4).graphs)
