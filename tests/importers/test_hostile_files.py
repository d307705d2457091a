"""Truncated, bit-flipped and hostile files: one insitu.Error that says what and where, never a crash."""

from __future__ import annotations

import io
import pickle
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bench.fuzz import READERS, originals
from insitu.errors import Error, ModelError, Unsupported
from insitu.importers.checkpoint.read import read_checkpoint
from insitu.importers.tflite.layout import FOLDS
from insitu.importers.tflite.ops import OPS
from insitu.importers.tflite.read import read_tflite
from tests.importers.test_tflite_ops import FLOAT, INT8
from tests.importers.tflite_files import File, T, const, ints, one
from tests.mutate import LIMIT_BYTES, expect_graph_or_error, mutations, survey

MUTATIONS = 2000


@pytest.mark.parametrize("kind", ["tflite", "checkpoint"])
def test_a_damaged_file_gives_a_graph_or_one_error(kind, shared_models):
    files = originals(kind, shared_models)
    counts = {"graph": 0, "error": 0}
    for seed, (data, spots, wrap) in enumerate(files):
        damaged = (wrap(m) for m in mutations(data, MUTATIONS // len(files), seed, spots))
        for key, count in survey(READERS[kind].read, damaged).items():
            counts[key] += count
    assert sum(counts.values()) == MUTATIONS
    assert min(counts.values()) > MUTATIONS / 20, counts  # both ends of the reader were reached


def test_the_same_seed_gives_the_same_damage():
    data = bytes(range(256)) * 4
    assert list(mutations(data, 40, 3)) == list(mutations(data, 40, 3))
    assert len(set(mutations(data, 40, 3))) > 30


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of one call is measured on Linux only")
def test_a_reader_that_takes_too_much_memory_or_crashes_would_be_noticed():
    def greedy(data: bytes):
        np.ones(LIMIT_BYTES + (64 << 20), np.uint8)
        raise ModelError("no")

    for read in (greedy, lambda data: data[7], lambda data: data):
        with pytest.raises(AssertionError):
            expect_graph_or_error(read, b"x")


# --- .tflite -----------------------------------------------------------------------------------------


def relu_chain() -> File:
    file = File()
    file.inputs = [file.tensor(T((1, 4), name="image"))]
    y = file.op("RELU", [0], T((1, 4), name="first"))
    file.outputs = [file.op("RELU", [y], T((1, 4), name="second"))]
    return file


def refused(data: bytes, kind=ModelError, **limits) -> str:
    error = expect_graph_or_error(lambda d: read_tflite(d, **limits), data)
    assert isinstance(error, kind)
    return str(error)


def test_the_chain_itself_is_a_model():
    assert len(read_tflite(relu_chain().bytes()).nodes) == 2


@pytest.mark.parametrize("name", [*OPS, *FOLDS])
def test_an_operator_on_the_inputs_of_any_other_gives_a_graph_or_one_error(name):
    for _, inputs, results, _ in [*FLOAT.values(), *INT8.values()][::4]:
        expect_graph_or_error(read_tflite, one(name, inputs, *results))


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 2**31 - 1])
def test_negative_and_huge_dimensions_are_refused(size):
    file = relu_chain()
    file.tensors[0].shape = (1, size)
    refused(file.bytes())


def test_a_product_of_dimensions_that_overflows_is_refused():
    file = relu_chain()
    file.tensors[0].shape = (65536, 65536, 65536, 65536)
    assert "elements" in refused(file.bytes())


def test_a_cyclic_graph_is_refused_by_the_name_of_a_tensor():
    file = relu_chain()
    file.operators[0] = ("RELU", [2], [1], {})  # the first reads what the second computes
    assert "second" in refused(file.bytes())


def test_an_operator_that_feeds_itself_is_refused():
    file = relu_chain()
    file.operators[0] = ("RELU", [1], [1], {})
    assert "first" in refused(file.bytes())


@pytest.mark.parametrize("name", ["ADD", "SUB", "DIV", "GATHER", "CAST", "RELU"])
def test_an_operator_without_inputs_is_refused_by_the_name_of_its_output(name):
    file = relu_chain()
    file.operators[0] = (name, [], [1], {})
    assert "first" in refused(file.bytes())


def test_a_tensor_nobody_computes_is_refused_by_name():
    file = relu_chain()
    file.operators.pop(0)
    assert "first" in refused(file.bytes())


def test_a_tensor_computed_twice_is_refused_by_name():
    file = relu_chain()
    file.operators.append(("RELU", [0], [1], {}))
    assert "first" in refused(file.bytes())


@pytest.mark.parametrize("index", [3, 2**31 - 1, -2])
def test_an_index_outside_the_tensors_is_refused(index):
    file = relu_chain()
    file.operators[0] = ("RELU", [index], [1], {})
    assert f"tensor {index} of 3" in refused(file.bytes())


def test_an_unknown_operator_is_named_with_its_output():
    error = refused(one("CUMSUM", [T((1, 4)), ints(0)], T((1, 4), name="totals")), Unsupported)
    assert "CUMSUM" in error and "totals" in error and "tensor 2" in error


def test_another_quantisation_than_8_bits_is_refused_by_the_name_of_the_tensor():
    data = one("RELU", [T((1, 4), np.int16, 0.1, 0, name="image")], T((1, 4), np.int16, 0.1, 0))
    error = refused(data, Unsupported)
    assert "image" in error and "INT16" in error


def test_a_dynamic_dimension_is_refused_by_name_and_a_dynamic_batch_is_not():
    file = relu_chain()
    file.tensors[0].signature = (-1, 4)
    assert read_tflite(file.bytes(), batch=3).inputs[0].shape == (3, 4)
    file.tensors[0].signature = (-1, -1)
    error = refused(file.bytes(), Unsupported)
    assert "image" in error and "takes 1x?: size 1 is open" in error


@pytest.mark.parametrize("scale", [0.0, -0.1, np.inf, np.nan])
def test_a_scale_that_is_no_scale_is_refused(scale):
    refused(one("RELU", [T((1, 4), np.int8, scale, 0)], T((1, 4), np.int8, 0.1, 0)), Error)


def test_weights_that_do_not_fill_their_shape_are_refused():
    file = File()
    file.inputs = [file.tensor(T((1, 4)))]
    w = file.tensor(const(np.zeros((3, 4), np.float32)))
    file.tensors[w].shape = (30000, 40000)
    file.tensors[w].name = "kernel"
    file.outputs = [file.op("FULLY_CONNECTED", [0, w, -1], T((1, 3)))]
    assert "kernel" in refused(file.bytes())


def test_a_small_file_that_refers_to_the_same_table_over_and_over_is_refused():
    """60,000 tensors, all one table with 60,000 scales: 4e9 numbers in half a megabyte."""
    import flatbuffers

    many, b = 60000, flatbuffers.Builder(1 << 19)

    def table(size: int, **slots: int) -> int:
        b.StartObject(size)
        for slot, offset in slots.items():
            b.PrependUOffsetTRelativeSlot(int(slot[1:]), offset, 0)
        return b.EndObject()

    def tables(*offsets: int) -> int:
        b.StartVector(4, len(offsets), 4)
        for offset in offsets:
            b.PrependUOffsetTRelative(offset)
        return b.EndVector()

    quantization = table(7, _2=b.CreateNumpyVector(np.ones(many, np.float32)))
    tensors = tables(*[table(8, _4=quantization)] * many)
    subgraphs, buffers = tables(table(5, _0=tensors)), tables(table(1))
    b.StartObject(5)
    b.PrependUint32Slot(0, 3, 0)
    b.PrependUOffsetTRelativeSlot(2, subgraphs, 0)
    b.PrependUOffsetTRelativeSlot(4, buffers, 0)
    b.Finish(b.EndObject(), b"TFL3")
    data = bytes(b.Output())
    assert len(data) < 500_000
    assert "over and over" in refused(data)


@pytest.mark.parametrize("data", [b"", b"TFL3", b"\0" * 64, b"\xff" * 64, b"PK\3\4" + bytes(60), bytes(4) + b"TFL3"])
def test_what_is_no_model_at_all_is_refused(data):
    refused(data)
    assert isinstance(expect_graph_or_error(read_checkpoint, data), ModelError)


def test_a_file_that_does_not_exist_is_an_error_of_ours(tmp_path):
    for read, name in ((read_tflite, "none.tflite"), (read_checkpoint, "none.pkl")):
        with pytest.raises(ModelError, match="none"):
            read(tmp_path / name)


# --- checkpoints -------------------------------------------------------------------------------------


def zipped(data: bytes, method=zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        archive.writestr("archive/data.pkl", data)
    return made.getvalue()


def checkpoint_refused(data: bytes) -> str:
    error = expect_graph_or_error(read_checkpoint, data)
    assert isinstance(error, ModelError)
    return str(error)


def test_a_zip_bomb_is_refused_before_it_inflates():
    bomb = zipped(bytes(1 << 27), zipfile.ZIP_DEFLATED)
    assert len(bomb) < 200_000
    assert "inflate" in checkpoint_refused(bomb)


def test_a_zip_bomb_that_lies_about_its_size_stays_small():
    bomb = bytearray(zipped(bytes(1 << 26), zipfile.ZIP_DEFLATED))
    for header in (m.start() for m in re.finditer(b"PK\x01\x02|PK\x03\x04", bytes(bomb))):
        at = header + (24 if bomb[header + 2] == 1 else 22)
        bomb[at : at + 4] = struct.pack("<I", 1000)  # the inflated size
    checkpoint_refused(bytes(bomb))


class Call:
    """Pickles to a call of any function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_pickle_that_calls_something_calls_nothing(protocol, tmp_path):
    mark = tmp_path / "called"
    data = pickle.dumps({"first_conv": Call(exec, f"open({str(mark)!r}, 'w')")}, protocol)
    checkpoint_refused(zipped(data))
    assert not mark.exists()


def test_a_foreign_class_is_refused_by_name():
    assert "posix.system" in checkpoint_refused(zipped(b"cposix\nsystem\n(S'true'\ntR."))
    assert "OrderedDict" in checkpoint_refused(zipped(b"\x80\x02ccollections\nOrderedDict\n)R."))


def test_an_allowed_name_cannot_be_called_with_anything():
    for data in (
        b"\x80\x02cnumpy\nndarray\nJ\xff\xff\xff\x7f\x85R.",  # numpy.ndarray(2**31 - 1)
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nK\x01\x85R.",
        b"\x80\x02c_codecs\nencode\nX\x01\0\0\0aX\x04\0\0\0zlib\x86R.",
    ):
        checkpoint_refused(zipped(data))


def test_an_array_of_a_huge_shape_takes_no_memory():
    data = pickle.dumps({"first_conv": np.zeros((2, 3), np.int8)}, 2).replace(
        b"K\x02K\x03\x86", b"J\xff\xff\xff\x7fK\x03\x86"
    )
    checkpoint_refused(zipped(data))


def test_nested_references_and_far_memo_slots_take_no_time():
    doubling = b"\x80\x02)q\0" + b"".join(b"h\0h\0\x86q\0" for _ in range(60)) + b"}h\0K\x01s."  # a key of 2^60 parts
    far = b"\x80\x02}r\xff\xff\xff\xff."
    strings = b"\x80\x02X" + struct.pack("<I", 100_000) + b"a" * 100_000 + b"q\0X\x06\0\0\0latin1q\x01"
    strings += b"c_codecs\nencode\nq\x02" + b"h\x02h\0h\x01\x86R" * 100_000 + b"."
    for data in (doubling, far, strings):
        checkpoint_refused(zipped(data))


def test_a_zip_without_the_member_is_refused():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("other", b"1")
    assert "data.pkl" in checkpoint_refused(made.getvalue())
