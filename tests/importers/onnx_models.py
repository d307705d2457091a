"""Small ONNX models built in a line."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def model(nodes, inputs=(("x", (1, 4)),), outputs=("y",), arrays=(), opset=17):
    """A model from its parts; arrays are (name, array)."""
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays]
    graph = helper.make_graph(nodes, "net", given, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def node(op, inputs, outputs, name="", **attrs):
    return helper.make_node(op, inputs, outputs, name=name, **attrs)
