"""The float meaning of an int8 graph is close to its integers."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.exporters.compared import distance
from insitu.exporters.real import real_graph
from insitu.graph import check, evaluate
from insitu.quantizer import fold

from .test_networks import network


@pytest.mark.parametrize("name", ["mobilenet_v3", "random3", "1d-tcn"])
def test_the_real_network_is_close_to_the_integers(name: str):
    _, quantised, samples = network(name)
    graph = fold(quantised)
    made = check(real_graph(graph))
    assert not [n.op.name for n in made.nodes if n.op.kind == "int8" and n.op.name != "lut_s8"]
    for sample in samples:
        assert distance(evaluate(made, *sample), evaluate(graph, *sample)) < 0.1


def test_a_float_file_of_an_int8_learner(tmp_path):
    from insitu.exporters.litert.runtime import Runtime

    from ..learners import data, learner

    x, y = data(40)
    made = learner(precision="int8", data=x)
    made.fit(x, y, epochs=2, rate=0.05)
    runtime = Runtime(made.export(tmp_path / "net.tflite", precision="float").path.read_bytes(), "XNNPACK")
    got = np.concatenate([runtime.run(sample[None])[0] for sample in x])
    assert distance(got, made.predict(x)) < 0.1
    assert {d["dtype"] for d in runtime.interpreter.get_tensor_details()} <= {np.float32, np.int32}
