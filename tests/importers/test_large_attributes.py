"""Attributes of a model file that need more than 32 bits are refused with that limit."""

from __future__ import annotations

import pytest

import insitu

onnx = pytest.importorskip("onnx")

LARGE = {
    "pads": ([2**31] * 4, "padding must be four integers of 32 bits, not '(2147483648,"),
    "strides": ([2**31, 1], "stride must be two integers of 32 bits, not '(2147483648, 1)'"),
    "dilations": ([1, 2**40], "dilation must be two integers of 32 bits, not '(1, 1099511627776)'"),
    "group": (2**31, "groups must be a 32-bit integer, not '2147483648'"),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_convolution_beyond_32_bits_is_refused_with_the_limit(name, tmp_path):
    value, says = LARGE[name]
    make, kind = onnx.helper, onnx.TensorProto.FLOAT
    ends = [make.make_tensor_value_info(n, kind, shape) for n, shape in (("x", [1, 1, 8, 8]), ("y", None))]
    weight = make.make_tensor("w", kind, [1, 1, 3, 3], [0.0] * 9)
    graph = make.make_graph([make.make_node("Conv", ["x", "w"], ["y"], **{name: value})], "g", *([e] for e in ends),
                            [weight])  # fmt: skip
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)]), tmp_path / "m.onnx")
    with pytest.raises(insitu.Unsupported) as error:
        insitu.load(tmp_path / "m.onnx")
    assert says in str(error.value)
