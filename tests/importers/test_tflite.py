"""The MLPerf Tiny files: int8 gives LiteRT's bytes in every tensor, float its numbers."""

import numpy as np
import pytest

from insitu.devices.host import open_host
from insitu.graph import check
from insitu.importers.tflite.read import import_tflite, read_tflite
from tests.inputs import realistic_inputs

INT8 = {"ad01": "ad01_int8", "ic": "ic_resnet8_int8", "kws": "kws_dscnn_int8", "vww": "vww_mbv1_int8"}
FLOAT = {"ad01": "ad01_fp32", "ic": "ic_resnet8_fp32", "vww": "vww_mbv1_fp32"}
COUNT = 200


@pytest.fixture
def tiny(shared_models):
    return lambda name: shared_models / "mlperf-tiny" / f"{name}.tflite"


def quantised(x, type) -> np.ndarray:
    return np.clip(np.round(x / type.scale) + type.zero, -128, 127).astype(np.int8)


class Reference:
    """LiteRT's reference kernels, with every tensor kept."""

    def __init__(self, source):
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        how = {"model_content": source} if isinstance(source, bytes) else {"model_path": str(source)}
        self._interpreter = Interpreter(
            **how,
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
            experimental_preserve_all_tensors=True,
        )
        self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]["index"]
        self.output = self._interpreter.get_output_details()[0]["index"]

    def run(self, x) -> None:
        self._interpreter.set_tensor(self._input, x)
        self._interpreter.invoke()

    def tensor(self, index: int) -> np.ndarray:
        return self._interpreter.get_tensor(index)


@pytest.mark.parametrize("model", INT8)
def test_every_int8_tensor_has_the_bytes_of_the_reference_kernels(model, tiny, shared_data):
    path = tiny(INT8[model])
    imported = import_tflite(path)
    graph = check(imported.graph, "int8")
    device, reference = open_host(graph, keep=True), Reference(path)
    inputs = quantised(realistic_inputs(model, COUNT, shared_data), graph.inputs[0].type)
    computed = {i: n for i, n in imported.names.items() if n not in (v.name for v in graph.inputs)}
    assert len(computed) == len(graph.nodes)  # no node is missing from the comparison
    values = device.values(inputs)
    outputs = set()
    for k, x in enumerate(inputs):
        reference.run(x[None])
        for index, name in computed.items():
            assert np.array_equal(values[name][k], reference.tensor(index)[0]), (k, index, name)
        outputs.add(reference.tensor(reference.output).tobytes())
    assert len(outputs) >= COUNT / 2


@pytest.mark.parametrize("model", FLOAT)
def test_float_files_agree_with_litert(model, tiny, shared_data):
    path = tiny(FLOAT[model])
    assert_close(path, read_tflite(path), realistic_inputs(model, 40, shared_data))


def test_a_float_file_with_int8_weights_is_the_dequantised_network(tiny, shared_data):
    path = tiny("kws_dscnn_fp32")
    graph = read_tflite(path)
    assert any("dynamic-range" in note for note in graph.notes)
    assert_close(with_float_weights(path.read_bytes()), graph, realistic_inputs("kws", 40, shared_data))


def assert_close(source, graph, inputs) -> None:
    """max |a - b| <= 1e-5 max |b|, b from LiteRT."""
    reference = Reference(source)
    device = open_host(check(graph, "float"))
    outputs = set()
    for x, y in zip(inputs, device.predict(inputs)):
        reference.run(x[None])
        want = reference.tensor(reference.output)[0]
        assert np.abs(y - want).max() <= 1e-5 * np.abs(want).max()
        outputs.add(want.tobytes())
    assert len(outputs) >= len(inputs) / 2


def with_float_weights(data: bytes) -> bytes:
    """The same file with its int8 weights multiplied out: what the file means without LiteRT's hybrid kernels."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    changed = 0
    for tensor in model.subgraphs[0].tensors:
        if tensor.type == schema.TensorType.INT8:
            q, buffer = tensor.quantization, model.buffers[tensor.buffer]
            assert not np.any(q.zeroPoint)
            shape = [-1 if d == q.quantizedDimension and len(q.scale) > 1 else 1 for d in range(len(tensor.shape))]
            weights = np.frombuffer(bytes(buffer.data), np.int8).reshape(tensor.shape)
            real = np.float32(q.scale).reshape(shape) * weights.astype(np.float32)
            buffer.data = np.frombuffer(real.tobytes(), np.uint8)
            tensor.type, tensor.quantization = schema.TensorType.FLOAT32, None
            changed += 1
    assert changed == 5
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_an_open_batch_is_fixed_at_load(tiny, shared_data):
    path = tiny("ic_resnet8_int8")
    one, three = read_tflite(path), read_tflite(path, batch=3)
    assert three.inputs[0].shape == (3, 32, 32, 3)
    x = quantised(realistic_inputs("ic", 3, shared_data), one.inputs[0].type)
    assert np.array_equal(open_host(three).predict(x), open_host(one).predict(x))
