"""The quantizer's results as generated C: equal to their numpy meaning. One program has every lowering."""

import numpy as np

from insitu.devices.host import open_host
from insitu.graph import evaluate
from insitu.quantizer import calibrate, fallbacks, quantize
from tests.quantizer.nets import SHAPE, Net, samples
from tests.quantizer.test_int8 import CASES, UNARY


def everything():
    """One input, one output per case."""
    net = Net()
    x = net.input(*SHAPE)
    results = [case(net, x) for case in CASES]
    positive = net.op("add", net.op("abs", x), net.array("half", 0.5))
    return net.graph(*results, *(net.op(name, positive) for name in UNARY))


def test_the_c_of_every_lowering_is_equal_to_numpy():
    g = everything()
    q = quantize(g, calibrate(g, samples(g, 30)), float_io=False)
    assert fallbacks(q) == []
    device = open_host(q)
    rng = np.random.default_rng(5)
    for _ in range(5):
        x = rng.integers(-128, 128, SHAPE).astype(np.int8)
        for v, wanted, found in zip(q.outputs, evaluate(q, x), device.predict(x)):
            assert np.array_equal(wanted, found), v
