"""What converters make of models, beyond single operators: shapes computed in the file, stored weights, names."""

from __future__ import annotations

from argparse import Namespace

import numpy as np
import pytest

from insitu.cli.check import examine
from insitu.errors import ModelError, Unsupported
from insitu.graph import check, evaluate
from insitu.importers.tflite.read import layer_name, read_tflite
from tests.importers.tflite_files import File, T, const, ints, litert, one

RNG = np.random.default_rng(2)


def keras_reshape() -> bytes:
    """A Reshape layer with an open batch becomes SHAPE, STRIDED_SLICE, PACK, RESHAPE."""
    file = File()
    file.inputs = [file.tensor(T((1, 6), signature=(-1, 6)))]
    shape = file.op("SHAPE", [0], T((2,), np.int32), outType=2)
    begin, end, step = (file.tensor(ints(n)) for n in (0, 1, 1))
    batch = file.op("STRIDED_SLICE", [shape, begin, end, step], T((), np.int32), shrinkAxisMask=1)
    sizes = [file.tensor(const(np.int32(n))) for n in (2, 3)]
    target = file.op("PACK", [batch, *sizes], T((3,), np.int32), valuesCount=3, axis=0)
    file.outputs = [file.op("RESHAPE", [0, target], T((1, 2, 3), signature=(-1, 2, 3)))]
    return file.bytes()


@pytest.mark.parametrize("batch", [1, 5])
def test_shapes_computed_in_the_file_are_known_at_import(batch):
    graph = check(read_tflite(keras_reshape(), batch=batch))
    assert [n.op.name for n in graph.nodes] == ["reshape"]
    assert graph.outputs[0].shape == (batch, 2, 3)


def test_a_reshape_made_for_one_sample_serves_a_batch():
    file = File()
    file.inputs = [file.tensor(T((1, 2, 3), signature=(-1, 2, 3)))]
    file.outputs = [file.op("RESHAPE", [0, file.tensor(ints(1, 6))], T((1, 6)))]
    assert read_tflite(file.bytes(), batch=4).outputs[0].shape == (4, 6)


@pytest.mark.parametrize("stored", ["float16", "int8"])
def test_weights_the_file_itself_dequantises_are_constants(stored):
    file = File()
    file.inputs = [file.tensor(T((2, 5)))]
    if stored == "float16":
        kernel = file.tensor(const(RNG.standard_normal((3, 5)).astype(np.float16)))
    else:
        kernel = file.tensor(const(RNG.integers(-127, 128, (3, 5)).astype(np.int8), (0.01, 0.02, 0.03)))
    w = file.op("DEQUANTIZE", [kernel], T((3, 5)))
    file.outputs = [file.op("FULLY_CONNECTED", [0, w, -1], T((2, 3)))]
    graph = check(read_tflite(file.bytes()), "inference")
    assert [n.op.name for n in graph.nodes] == ["linear"]
    x = RNG.standard_normal((2, 5)).astype(np.float32)
    want = evaluate(graph, x, precision=np.float64)
    if stored == "float16":
        assert np.abs(litert(file.bytes(), x)[file.outputs[0]] - want).max() < 1e-6
    else:
        real = file.tensors[kernel].data * np.float32([[0.01], [0.02], [0.03]])
        assert np.abs(x @ real.T - want).max() < 1e-6


def q(*shape, s=0.05, z=3) -> T:
    return T(shape, np.int8, s, z)


IN_FLOAT = {
    "prelu": ("PRELU", [q(1, 4, 4, 8), const(RNG.integers(-99, 99, (1, 1, 8)).astype(np.int8), 0.01, 0)],
              [q(1, 4, 4, 8, s=0.06, z=-3)], {}),
    "log softmax": ("LOG_SOFTMAX", [q(9, 10, s=0.1)], [q(9, 10, s=16 / 256, z=127)], {}),
    "transpose conv": ("TRANSPOSE_CONV",
                       [ints(1, 8, 6, 4), const(RNG.integers(-127, 128, (4, 3, 3, 2)).astype(np.int8), 0.01, 0),
                        q(1, 4, 3, 2)], [q(1, 8, 6, 4, s=0.1)], {"strideW": 2, "strideH": 2}),
}  # fmt: skip


@pytest.mark.parametrize("case", IN_FLOAT)
def test_what_has_no_int8_kernel_runs_in_float_and_says_so(case):
    name, inputs, results, options = IN_FLOAT[case]
    data = one(name, inputs, *results, **options)
    graph = check(read_tflite(data), "int8")
    assert any(name in note and "float" in note for note in graph.notes)
    assert graph.outputs[0].dtype == "s8"
    x = RNG.integers(-128, 128, graph.inputs[0].shape).astype(np.int8)
    (want,) = litert(data, x).values()
    off = np.abs(evaluate(graph, x).astype(int) - want)
    assert off.max() <= 1 and off.mean() < 0.05


def test_an_input_of_another_scale_is_brought_to_that_of_the_concatenation():
    file = File()
    file.inputs = [file.tensor(q(1, 3)), file.tensor(q(1, 2, s=0.1, z=-1))]
    file.outputs = [file.op("CONCATENATION", [0, 1], q(1, 5), axis=1)]
    graph = check(read_tflite(file.bytes()), "int8")
    y = evaluate(graph, np.int8([[1, 2, 3]]), np.int8([[4, -5]]))
    assert y.tolist() == [[1, 2, 3, 13, -5]]  # 0.1 (4 + 1) = 0.05 (13 - 3)


def test_an_operator_of_the_file_may_be_larger_than_the_old_field_for_codes():
    data = one("RELU_0_TO_1", [T((1, 3))], T((1, 3)))  # code 152: the old field has 127
    assert evaluate(read_tflite(data), np.float32([[-1, 0.5, 2]])).tolist() == [[0, 0.5, 1]]


@pytest.mark.parametrize(
    "name, layer",
    [
        ("model/conv2d/Conv2D", "model/conv2d"),
        ("model/bn/FusedBatchNormV3;model/dw/depthwise;model/dw/BiasAdd", "model/dw"),
        ("model/act/Relu;model/dense/BiasAdd", "model/act"),
        ("model/dense/MatMul;model/dense/BiasAdd", "model/dense"),
        ("Identity", "Identity"),
        ("Conv2D", "Conv2D"),
        ("", ""),
        (";;", ""),
    ],
)
def test_a_tensor_is_named_after_its_layer(name, layer):
    assert layer_name(name) == layer


def test_a_layer_and_its_weights_share_a_name():
    file = File()
    file.inputs = [file.tensor(T((1, 5), name="x"))]
    w = file.tensor(T((3, 5), data=np.ones((3, 5), np.float32), name="net/dense/MatMul"))
    y = file.op("FULLY_CONNECTED", [0, w, -1], T((1, 3), name="net/dense/Relu"), fusedActivationFunction=1)
    again = file.tensor(T((3, 3), data=np.ones((3, 3), np.float32), name="net/dense/MatMul"))
    file.outputs = [file.op("FULLY_CONNECTED", [y, again, -1], T((1, 3), name="out"))]
    graph = read_tflite(file.bytes())
    assert [n.name for n in graph.nodes] == ["net/dense", "net/dense.relu", "net/dense_1"]
    assert [n.inputs[1].name for n in graph.nodes if len(n.inputs) > 1] == ["net/dense.weight", "net/dense_1.weight"]


def with_variables() -> bytes:
    """A file whose first operator fills variables with another subgraph, as converters write it."""
    file, first = File(), File()
    handle = first.op("VAR_HANDLE", [], T((), np.int32))
    first.op("ASSIGN_VARIABLE", [handle, first.tensor(const(np.ones(3, np.float32)))])
    file.others = [first]
    file.inputs = [file.tensor(T((1, 3)))]
    file.op("CALL_ONCE", [], initSubgraphIndex=1)
    value = file.op("READ_VARIABLE", [file.op("VAR_HANDLE", [], T((), np.int32))], T((3,)))
    file.outputs = [file.op("ADD", [file.op("RELU", [0], T((1, 3), name="act")), value], T((1, 3)))]
    return file.bytes()


def test_an_operator_without_outputs_is_unsupported_by_name(tmp_path):
    with pytest.raises(Unsupported, match="the operator CALL_ONCE is not supported"):
        read_tflite(with_variables())
    path = tmp_path / "net.tflite"
    path.write_bytes(with_variables())
    report = examine(Namespace(model=str(path), batch=1, shape=None))
    assert [r.op for r in report.rows] == ["CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "RELU", "ADD"]
    assert [r.op for r in report.rows if not r.imported] == ["CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE"]
    assert "freeze its variables" in report.advice


def test_a_known_operator_without_outputs_is_a_broken_file():
    file = File()
    file.inputs = file.outputs = [file.tensor(T((1, 3)))]
    file.op("RELU", [0])
    with pytest.raises(ModelError, match="RELU has no outputs") as e:
        read_tflite(file.bytes())
    assert not isinstance(e.value, Unsupported)
