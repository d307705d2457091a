"""ONNX models become graphs that compute what onnxruntime computes."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from insitu.devices.host import open_host
from insitu.errors import Unsupported
from insitu.graph import check, evaluate
from insitu.importers.onnx.read import read_onnx
from tests.importers.onnx_models import model, node
from tests.models import families

RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def runtime(source, *feeds):
    data = source if isinstance(source, str) else source.SerializeToString()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: x for i, x in zip(session.get_inputs(), feeds)})


def agree(source, *feeds):
    """The graph, after its results were compared with onnxruntime's."""
    graph = check(read_onnx(source), "float")
    found = evaluate(graph, *feeds, precision=np.float64)
    for got, want in zip(found if isinstance(found, tuple) else (found,), runtime(source, *feeds)):
        assert got.shape == want.shape
        assert np.max(np.abs(got - want)) <= 1e-5 * max(np.max(np.abs(want)), 1e-3)
    return graph


def ops_of(graph):
    return [n.op.name for n in graph.nodes]


# --- models that torch exports ------------------------------------------------------------------------

FAMILIES = families()


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    """The path of a family as torch's older exporter writes it; the newer one is in test_torch_and_onnx_agree.py."""
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("scripted")

    def path(name):
        module, example = FAMILIES[name]
        file = str(folder / f"{name}.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, example, file, dynamo=False)
        return file

    return path


@pytest.mark.parametrize("name", FAMILIES)
def test_families_from_the_older_exporter_agree_with_onnxruntime(name, scripted):
    agree(scripted(name), FAMILIES[name][1][0].numpy())


def test_values_carry_the_layer_names_of_the_module(scripted):
    graph = read_onnx(scripted("resnet8"))
    assert {"stem.0", "layers.1.conv2", "layers.1.downsample.0", "fc"} <= set(graph.values)
    assert {"layers.1.conv2.weight", "fc.weight", "fc.bias"} <= set(graph.constants)


def test_the_generated_c_computes_the_same(scripted):
    graph, x = read_onnx(scripted("mobilenet_v2")), FAMILIES["mobilenet_v2"][1][0].numpy()
    wanted = evaluate(graph, x, precision=np.float64)
    assert np.max(np.abs(open_host(graph).predict(x) - wanted)) <= 1e-5 * np.max(np.abs(wanted))


# --- inputs ---------------------------------------------------------------------------------------------


def dynamic(*dims):
    return model([node("Relu", ["x"], ["y"])], inputs=[("x", dims)])


@pytest.mark.parametrize("batch", ["N", None])
def test_a_dynamic_batch_is_fixed_at_load(batch):
    assert read_onnx(dynamic(batch, 3), batch=4).inputs[0].shape == (4, 3)


def test_any_other_dynamic_dimension_is_refused_by_name():
    with pytest.raises(Unsupported, match=r"(?s)input x.*takes 1x3x\?: size 2 is open.*example="):
        read_onnx(dynamic("N", 3, "width"))


def test_an_input_can_be_bound_to_an_array():
    add = model([node("Add", ["x", "b"], ["y"])], inputs=[("x", (2, 3)), ("b", (3,))])
    graph = read_onnx(add, bind={"b": np.ones(3, np.float32)})
    assert [v.name for v in graph.inputs] == ["x"]
    assert evaluate(graph, np.zeros((2, 3))).tolist() == [[1, 1, 1]] * 2


# --- what an opset changed -------------------------------------------------------------------------------

X = random(2, 3, 4)
PADDED = {"pads": [0, 1, 0, 0, 0, 2], "value": 1.5}
MOVED = [  # op, attributes in an old opset, constant inputs in a new one
    ("Clip", 9, {"min": -0.5, "max": 0.7}, 13, [np.float32(-0.5), np.float32(0.7)], {}),
    ("Slice", 9, {"axes": [1], "starts": [-2], "ends": [99]}, 13, [[-2], [99], [1]], {}),
    ("Pad", 9, PADDED, 13, [PADDED["pads"], np.float32(1.5)], {}),
    ("Unsqueeze", 9, {"axes": [0, 2]}, 13, [[0, -3]], {}),
    ("ReduceMean", 9, {"axes": [-1], "keepdims": 0}, 18, [[2]], {"keepdims": 0}),
    ("ReduceSum", 9, {"axes": [1]}, 13, [[1]], {}),
    ("ReduceMax", 11, {"axes": [0, 2]}, 18, [[0, 2]], {}),
    ("Dropout", 9, {"ratio": 0.3}, 13, [np.float32(0.3)], {}),
]


@pytest.mark.parametrize("op, old, attrs, new, arrays, rest", MOVED, ids=[m[0] for m in MOVED])
def test_an_attribute_that_became_an_input_means_the_same(op, old, attrs, new, arrays, rest):
    before = model([node(op, ["x"], ["y"], **attrs)], [("x", X.shape)], opset=old)
    named = [(f"a{i}", np.asarray(a)) for i, a in enumerate(arrays)]
    after = model([node(op, ["x", *dict(named)], ["y"], **rest)], [("x", X.shape)], arrays=named, opset=new)
    assert str(agree(before, X)) == str(agree(after, X))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [11, 13])
def test_softmax_before_opset_13_takes_all_axes_from_the_given_one(op, axis, opset):
    agree(model([node(op, ["x"], ["y"], axis=axis)], [("x", X.shape)], opset=opset), X)


def test_resize_and_its_older_name():
    x, scales = random(1, 2, 3, 5), np.array([1, 1, 2, 3], np.float32)
    old = model([node("Upsample", ["x", "s"], ["y"])], [("x", x.shape)], arrays=[("s", scales)], opset=9)
    settings = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    new = model([node("Resize", ["x", "", "s"], ["y"], **settings)], [("x", x.shape)], arrays=[("s", scales)])
    assert ops_of(agree(old, x)) == ops_of(agree(new, x)) == ["transpose", "resize", "transpose"]


# --- windows ---------------------------------------------------------------------------------------------

CONVS = {
    "asymmetric": ((1, 3, 7, 6), (4, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "same upper": ((1, 2, 7, 7), (3, 2, 4, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same lower": ((1, 2, 7, 7), (3, 2, 4, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "valid": ((1, 2, 5, 5), (3, 2, 3, 3), {"auto_pad": "VALID"}),
    "dilated groups": ((1, 4, 9, 9), (6, 2, 3, 3), {"dilations": [2, 3], "group": 2}),
    "depthwise twice": ((2, 3, 5, 5), (6, 1, 3, 3), {"group": 3}),
    "1d": ((2, 3, 9), (4, 3, 3), {"pads": [2, 0], "strides": [2], "dilations": [2]}),
    "1d groups": ((1, 4, 6), (4, 1, 3), {"group": 4}),
}


@pytest.mark.parametrize("case", CONVS)
def test_convolutions(case):
    shape, weights, attrs = CONVS[case]
    arrays = [("w", random(*weights)), ("b", random(weights[0]))]
    agree(model([node("Conv", ["x", "w", "b"], ["y"], **attrs)], [("x", shape)], arrays=arrays), random(*shape))


TRANSPOSED = {
    "stride": ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 3]}),
    "pads": ((1, 3, 4, 4), (3, 2, 3, 3), {"strides": [2, 2], "pads": [1, 0, 1, 2], "output_padding": [1, 0]}),
    "groups": ((1, 4, 3, 3), (4, 2, 2, 2), {"group": 2, "dilations": [2, 1]}),
    "same": ((1, 2, 3, 3), (2, 2, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "output shape": ((1, 2, 3, 3), (2, 2, 4, 3), {"output_shape": [7, 5], "strides": [2, 2]}),
    "1d": ((2, 3, 5), (3, 2, 3), {"strides": [2], "pads": [1, 0]}),
}


@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolutions(case):
    shape, weights, attrs = TRANSPOSED[case]
    made = model([node("ConvTranspose", ["x", "w"], ["y"], **attrs)], [("x", shape)], arrays=[("w", random(*weights))])
    agree(made, random(*shape))


POOLS = {
    "plain": ((1, 2, 5, 5), {"kernel_shape": [2, 2]}),
    "pads": ((1, 2, 6, 5), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    "ceil": ((1, 2, 6, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "ceil and pads": ((1, 2, 6, 6), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
    "same": ((1, 2, 5, 5), {"kernel_shape": [2, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "1d": ((2, 3, 8), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    "1d ceil": ((2, 3, 8), {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}),
}


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("case", POOLS)
def test_pools(op, case):
    shape, attrs = POOLS[case]
    agree(model([node(op, ["x"], ["y"], **attrs)], [("x", shape)], opset=19), random(*shape))


@pytest.mark.parametrize("shape", [(2, 3, 8), (1, 2, 6, 7)])
def test_what_ceil_mode_adds_is_not_counted_where_there_is_no_padding(shape):
    """How torch exports AvgPool1d and AvgPool2d with ceil_mode."""
    axes = len(shape) - 2
    attrs = {"kernel_shape": [3] * axes, "strides": [2] * axes, "ceil_mode": 1, "count_include_pad": 1}
    agree(model([node("AveragePool", ["x"], ["y"], **attrs)], [("x", shape)], opset=19), random(*shape))


def test_an_average_that_would_count_half_its_padding_is_refused():
    attrs = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1, "pads": [1, 1, 1, 1]}
    with pytest.raises(Unsupported, match="ceil_mode with count_include_pad"):
        read_onnx(model([node("AveragePool", ["x"], ["y"], **attrs)], [("x", (1, 1, 6, 6))], opset=19))


@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_by_size(mode, coordinates):
    x, size = random(1, 2, 4, 3), np.array([1, 2, 7, 2])
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates}
    agree(model([node("Resize", ["x", "", "", "s"], ["y"], **attrs)], [("x", x.shape)], arrays=[("s", size)]), x)


# --- the canonical form ------------------------------------------------------------------------------------


def test_gemm_matmul_and_add_become_one_linear_layer():
    x, w, b = random(2, 5), random(5, 3), random(3)
    arrays = [("w", w), ("b", b), ("wt", np.ascontiguousarray(w.T))]
    product = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["b", "m"], ["y"])]
    for nodes in (
        product,
        [node("Gemm", ["x", "wt", "b"], ["y"], transB=1)],
        [node("Gemm", ["x", "w", "b"], ["y"])],
    ):
        assert ops_of(agree(model(nodes, [("x", x.shape)], arrays=arrays), x)) == ["linear"]


def test_gemm_with_factors_and_a_matrix_added():
    x, w, c = random(5, 2), random(5, 3), random(2, 3)
    made = node("Gemm", ["x", "w", "c"], ["y"], alpha=0.5, beta=2.0, transA=1)
    agree(model([made], [("x", x.shape)], arrays=[("w", w), ("c", c)]), x)


def test_a_product_of_two_things_computed_stays_a_matmul():
    nodes = [node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), node("MatMul", ["x", "t"], ["y"])]
    assert "matmul" in ops_of(agree(model(nodes, [("x", X.shape)]), X))


def test_shapes_computed_by_the_file_are_numbers_in_the_graph():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "axes"], ["n1"]),
        node("Concat", ["n1", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ]
    arrays = [("zero", np.array(0)), ("axes", np.array([0])), ("rest", np.array([-1]))]
    graph = agree(model(nodes, [("x", X.shape)], arrays=arrays), X)
    assert ops_of(graph) == ["reshape"] and graph.outputs[0].shape == (2, 12)


def test_a_long_signal_is_mirrored_at_its_ends_by_few_pieces():
    x = random(1, 1, 5000)
    made = node("Pad", ["x", "pads"], ["y"], mode="reflect")
    graph = agree(model([made], [("x", x.shape)], arrays=[("pads", np.array([0, 0, 3, 0, 0, 2]))]), x)
    assert ops_of(graph) == 5 * ["slice"] + ["concat"]  # of five single elements around the signal itself


def test_long_ranges_are_gathered_by_one_slice_each():
    x, index = random(2, 6000), np.r_[100:5000, 0:50]
    graph = agree(model([node("Gather", ["x", "i"], ["y"], axis=1)], [("x", x.shape)], arrays=[("i", index)]), x)
    assert ops_of(graph) == ["slice", "slice", "concat"]


def test_batch_norm_and_dropout_survive():
    arrays = [(n, np.abs(random(3)) + 0.5) for n in ("scale", "bias", "mean", "var")]
    nodes = [
        node("BatchNormalization", ["x", *dict(arrays)], ["n"], momentum=0.8),
        node("Dropout", ["n", "ratio"], ["y"]),
    ]
    graph = agree(model(nodes, [("x", X.shape)], arrays=[*arrays, ("ratio", np.float32(0.25))]), X)
    assert ops_of(graph) == ["batch_norm", "dropout"]
    assert graph.nodes[0].attrs["momentum"] == pytest.approx(0.2) and graph.nodes[1].attrs["p"] == 0.25


# --- int8 ----------------------------------------------------------------------------------------------


def qdq():
    """A quantised layer in QDQ form: uint8 activations, int8 weights with one scale per channel."""
    arrays = [
        ("s", np.float32(0.05)), ("z", np.uint8(120)), ("w", RNG.integers(-127, 128, (3, 4)).astype(np.int8)),
        ("ws", np.array([0.01, 0.02, 0.005], np.float32)), ("wz", np.zeros(3, np.int8)), ("os", np.float32(0.2)),
    ]  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        node("DequantizeLinear", ["xq", "s", "z"], ["xf"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0),
        node("Gemm", ["xf", "wf"], ["g"], transB=1),
        node("QuantizeLinear", ["g", "os", "z"], ["gq"]),
        node("DequantizeLinear", ["gq", "os", "z"], ["y"]),
    ]
    return model(nodes, [("x", (2, 4))], arrays=arrays)


def test_a_qdq_model_keeps_its_quantisation_and_dequantises_its_weights():
    x, made = random(2, 4), qdq()
    graph = check(read_onnx(made))
    assert ops_of(graph) == ["quantize", "dequantize", "linear", "quantize", "dequantize"]
    assert str(graph.nodes[0].output.type) == "s8[2x4; s=0.05000000074505806 z=-8]"
    (wanted,) = runtime(made, x)
    assert np.max(np.abs(evaluate(graph, x) - wanted)) <= 1e-5 * np.max(np.abs(wanted))


def test_an_int8_input_takes_its_numerics_from_who_reads_it():
    made = model([node("DequantizeLinear", ["x", "s", "z"], ["y"])], arrays=[("s", np.float32(0.5)), ("z", np.int8(3))])
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.INT8
    graph = read_onnx(made)
    assert str(graph.inputs[0].type) == "s8[1x4; s=0.5 z=3]"
    x = np.array([[3, 4, -128, 127]], np.int8)
    assert evaluate(graph, x).tolist() == runtime(made, x)[0].tolist()


@pytest.mark.parametrize("made", [
    node("Selu", ["x"], ["y"]), node("Selu", ["x"], ["y"], alpha=1.5, gamma=0.5),
    node("Celu", ["x"], ["y"]), node("Celu", ["x"], ["y"], alpha=0.4),
    node("Einsum", ["x", "w"], ["y"], equation="bij,jk->bki"),
])  # fmt: skip
def test_an_op_that_is_spelled_out_computes_what_onnxruntime_computes(made):
    agree(model([made], [("x", (1, 3, 4))], arrays=[("w", random(4, 5))]), random(1, 3, 4))


# --- what is refused, and with what advice -----------------------------------------------------------------

REFUSED = {
    "QLinearConv": (node("QLinearConv", ["x"] * 8, ["y"], "conv"), "QLinearConv conv.*QDQ"),
    "unknown": (node("Det", ["x"], ["y"], "area"), "Det area"),
    "diagonal": (node("Einsum", ["x"], ["y"], "sum", equation="abii->abi"), "Einsum sum.*twice"),
    "foreign": (helper.make_node("Gelu", ["x"], ["y"], name="g", domain="com.microsoft"), "Gelu g.*com.microsoft"),
    "power": (node("Pow", ["x", "p"], ["y"], "pow"), "Pow pow.*2.5"),
    "weights": (node("Conv", ["x", "x"], ["y"], "conv"), "Conv conv.*must be a constant"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_node(case):
    made, words = REFUSED[case]
    with pytest.raises(Unsupported, match=f"(?s){words}"):
        read_onnx(model([made], [("x", (1, 2, 4, 4))], arrays=[("p", np.float32(2.5))]))


def test_without_onnx_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(Exception, match=r"(?s)needs onnx.*insitu\[onnx\]"):
        read_onnx(b"anything")


@pytest.mark.parametrize("name", ["scripted", "dynamo"])
def test_a_model_that_exporters_left_without_a_name_is_called_after_its_file(name):
    path = Path(__file__).parent / "files" / f"{name}.onnx"
    assert read_onnx(path).name == read_onnx(str(path)).name == name


def test_a_models_own_name_is_kept(tmp_path):
    proto = onnx.load(Path(__file__).parent / "files" / "scripted.onnx")
    proto.graph.name = "keyword_spotter"
    onnx.save(proto, tmp_path / "it.onnx")
    assert read_onnx(tmp_path / "it.onnx").name == "keyword_spotter"
