"""A broken or hostile ONNX file gives a graph or one error, in bounded time and memory."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from insitu.errors import ModelError, Unsupported
from insitu.importers.onnx.read import read_onnx
from tests.importers.onnx_damage import damaged
from tests.importers.onnx_models import model, node
from tests.mutate import mutations, survey

# one small network from both of torch's exporters: shapes computed at run time, and shapes as numbers
FILES = [Path(__file__).parent / "files" / name for name in ("scripted.onnx", "dynamo.onnx")]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_500_mutations_of_the_bytes(file):
    counts = survey(read_onnx, mutations(file.read_bytes(), 500, seed=1))
    assert counts["error"] > 300 and counts["graph"] > 10


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_500_mutations_of_the_fields(file):
    counts = survey(read_onnx, damaged(file.read_bytes(), 500, seed=2))
    assert counts["error"] > 250 and counts["graph"] > 25


def refused(source, *words, kind=ModelError):
    with pytest.raises(kind) as e:
        read_onnx(source)
    for word in words:
        assert word in str(e.value)


def test_a_file_that_is_no_model():
    refused(b"PK\x03\x04 this is something else", "damaged")
    refused(b"", "no graph")


def test_a_file_that_is_not_there(tmp_path):
    refused(tmp_path / "gone.onnx", "gone.onnx")


def test_a_cycle_is_named():
    loop = [node("Add", ["x", "b"], ["a"], "first"), node("Relu", ["a"], ["b"], "second"), node("Relu", ["b"], ["y"])]
    refused(model(loop), "Add first", "'b'", "only later")


def test_a_missing_tensor_is_named():
    refused(model([node("Add", ["x", "w"], ["y"], "sum")]), "Add sum", "'w'", "nowhere")


def test_a_result_that_nothing_computes_is_named():
    refused(model([node("Relu", ["x"], ["z"])]), "output y")


def test_a_tensor_defined_twice_is_named():
    refused(model([node("Relu", ["x"], ["y"], "a"), node("Relu", ["x"], ["y"], "b")]), "Relu b", "already")


@pytest.mark.parametrize("shape", [[-1], [1 << 40], [1 << 20, 1 << 20], [1] * 99])
def test_impossible_dimensions_of_a_tensor(shape):
    broken = model([node("Add", ["x", "w"], ["y"])], arrays=[("w", np.ones(4, np.float32))])
    del broken.graph.initializer[0].dims[:]
    broken.graph.initializer[0].dims.extend(shape)
    refused(broken, "tensor w")


def test_a_huge_input_is_refused():
    refused(model([node("Relu", ["x"], ["y"])], [("x", (1, 1 << 20, 1 << 20))]), "input x")


@pytest.mark.parametrize("op", ["ConstantOfShape", "Expand", "Tile", "Range"])
def test_a_few_bytes_that_ask_for_terabytes(op):
    big, one = np.array([1 << 20, 1 << 20]), np.ones((1, 1), np.float32)
    made = {
        "ConstantOfShape": node(op, ["big"], ["c"], "bomb"),
        "Expand": node(op, ["one", "big"], ["c"], "bomb"),
        "Tile": node(op, ["one", "big"], ["c"], "bomb"),
        "Range": node(op, ["zero", "end", "step"], ["c"], "bomb"),
    }
    scalars = [(n, np.array(v)) for n, v in (("zero", 0), ("end", 1 << 50), ("step", 1))]
    nodes = [made[op], node("Add", ["x", "c"], ["y"])]
    refused(model(nodes, arrays=[("big", big), ("one", one), *scalars]), "bomb")


@pytest.mark.parametrize(
    ("op", "by"), [("Expand", [1, 4, 1 << 20, 1 << 20]), ("Tile", [1, 4000]), ("Tile", [4000, 4000])]
)
def test_copies_of_an_input_that_ask_for_terabytes(op, by):
    made = model([node(op, ["x", "by"], ["y"], "bomb")], [("x", (1, 1 << 16))], arrays=[("by", np.array(by))])
    refused(made, "bomb")


def test_padding_that_asks_for_terabytes():
    pads = np.array([0, 0, 0, 1 << 50])
    refused(model([node("Pad", ["x", "p"], ["y"], "bomb")], arrays=[("p", pads)]), "Pad bomb")


def external(model, location, offset=None, length=None):
    """The first weight's data, moved to another file."""
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return model


def added():
    return model([node("Add", ["x", "w"], ["y"])], arrays=[("w", np.arange(4, dtype=np.float32))])


def test_data_beside_the_file_are_read(tmp_path):
    (tmp_path / "w.bin").write_bytes(b"\0" * 8 + np.arange(4, dtype=np.float32).tobytes())
    onnx.save(external(added(), "w.bin", 8, 16), tmp_path / "m.onnx")
    assert read_onnx(tmp_path / "m.onnx").constants["w"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("location", ["../w.bin", "/etc/hostname", "sub/../../w.bin", "", "link"])
def test_data_outside_the_folder_are_not(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (folder / "link").symlink_to(tmp_path / "w.bin")
    (folder / "m.onnx").write_bytes(external(added(), location).SerializeToString())
    refused(folder / "m.onnx", "tensor w", "not beside")


def test_data_shorter_than_promised(tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(15))
    (tmp_path / "m.onnx").write_bytes(external(added(), "w.bin").SerializeToString())
    refused(tmp_path / "m.onnx", "tensor w")


def test_bytes_without_a_folder_have_no_data_beside_them():
    refused(external(added(), "w.bin").SerializeToString(), "another file")


def test_a_constant_folded_from_too_many_inputs_is_not_written_to():
    """A third argument of numpy's add is the array for its result."""
    ones = [(n, np.ones(4, np.float32)) for n in "abc"]
    refused(model([node("Add", ["a", "b", "c"], ["d"], "sum"), node("Mul", ["x", "d"], ["y"])], arrays=ones), "Add sum")


def test_functions_of_its_own_are_refused():
    own = model([node("Relu", ["x"], ["y"])])
    own.functions.add(name="Mine", domain="own")
    refused(own, "Mine", "inline_local_functions", kind=Unsupported)
