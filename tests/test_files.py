"""A written file appears complete or not at all; an array in a file is no larger than the file says."""

from __future__ import annotations

import fcntl
import io
import os
import stat
import subprocess
import sys
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.data import read_samples
from insitu.errors import DataError, Error, GraphError, ModelError
from insitu.files import cache_folder, check_arrays, check_target, read_array, replacing, write_whole
from insitu.graph import build, f32, parse
from insitu.graph.file import is_learner, read, save
from insitu.importers.survey import survey
from insitu.learner.given import read_state
from insitu.learner.model import Model, load

SIZE = 1 << 20
GRAPH = "graph g(%x: f32[1x4x4x2]) -> (%y)\n  %y = avg_pool2d(%x, kernel=[2, 2], stride={}) : f32[1x2x2x2]\n"


def write_often(path: str, byte: int) -> bool:
    """Writes many times; afterwards and in between, the file always belongs to one writer."""
    for _ in range(40):
        write_whole(path, bytes([byte]) * SIZE)
        data = Path(path).read_bytes()
        if len(data) != SIZE or len(set(data)) != 1:
            return False
    return True


def test_two_processes_that_write_one_path_never_meet(tmp_path):
    path = str(tmp_path / "state.bin")
    with ProcessPoolExecutor(2) as pool:
        assert all(pool.map(write_often, [path, path], [1, 2]))
    assert [p.name for p in tmp_path.iterdir()] == ["state.bin"]


def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "state.bin"
    write_whole(path, b"old")
    with pytest.raises(ValueError, match="half"), replacing(path) as part:
        part.write_bytes(b"ne")
        raise ValueError("half way")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


WRITER = """
import sys; from insitu.files import replacing
with replacing(sys.argv[1]) as part:
    part.write_bytes(b"half"); print("ready", flush=True); sys.stdin.readline(); part.write_bytes(sys.argv[2].encode())
"""


def writer(path: Path, words: str) -> subprocess.Popen:
    """A process that has written a half of a file, and waits."""
    run = subprocess.Popen([sys.executable, "-c", WRITER, path, words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert run.stdout is not None and run.stdout.readline() == b"ready\n"
    return run


def test_the_next_write_removes_what_a_killed_one_left_and_nothing_of_a_living_one(tmp_path):
    path, mine = tmp_path / "state.bin", tmp_path / ".state.bin.notes123.part"
    mine.write_bytes(b"a file of the user, by chance with such a name")
    killed, living = writer(path, "killed"), writer(path, "living")
    killed.kill()
    killed.wait()
    assert len(list(tmp_path.iterdir())) == 1 + 2 + 2
    write_whole(path, b"next")
    assert len(list(tmp_path.iterdir())) == 2 + 2, "those of the living writer are still there"
    living.communicate(b"\n", timeout=60)
    assert living.returncode == 0 and path.read_bytes() == b"living"
    assert set(tmp_path.iterdir()) == {path, mine}


def test_writers_take_nothing_from_each_other_where_there_are_no_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(95, "not supported")))
    path = tmp_path / "state.bin"
    with replacing(path) as part:
        part.write_bytes(b"first")
        write_whole(path, b"second")
    assert path.read_bytes() == b"first" and list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_an_error_of_ours(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    graph = parse(GRAPH.format("[2, 2]"))
    save(graph, tmp_path / "m.insitu")
    before = (tmp_path / "m.insitu").read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left"):
        save(graph, tmp_path / "m.insitu")
    assert (tmp_path / "m.insitu").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_a_link_is_followed_and_a_pipe_is_not_replaced(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"x"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe"):
        write_whole(tmp_path / "pipe", b"x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize("name", ["p.insitu", "p.onnx", "p.tflite", "p.npz", "p.csv", "p.state"])
def test_a_pipe_is_not_waited_for(name, tmp_path):
    os.mkfifo(tmp_path / name)
    graph = parse("graph g(%x: f32[1x2]) -> (%y)\n  %y = relu(%x) : f32[1x2]")
    readers = {
        ".insitu": [load, insitu.open],
        ".state": [read_state],
        ".onnx": [load, survey],
        ".tflite": [load, survey],
    }
    tries = readers.get(Path(name).suffix, [lambda path: read_samples(path, graph)])
    for reads in tries:
        with pytest.raises(Error, match=rf"{name}: cannot be read: it is a device, pipe or socket"):
            reads(tmp_path / name)
    assert not is_learner(tmp_path / name)


@pytest.mark.parametrize("name", ["m.onnx", "m.tflite", "m", "m.insitu.bak"])
def test_a_model_is_not_written_under_the_name_of_another_format(name, tmp_path):
    model = Model(parse("graph g(%x: f32[1x2]) -> (%y)\n  %y = relu(%x) : f32[1x2]"))
    with pytest.raises(DataError, match=r"try: a name that ends in \.insitu"):
        model.save(tmp_path / name)
    assert not list(tmp_path.iterdir())
    assert load(model.save(tmp_path / "m.INSITU")).graph.outputs[0].name == "y"


def test_a_path_that_cannot_be_written_is_known_before_anything_is(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "none" / "real")
    for name, why in (("none/x", "no folder"), ("", "a folder"), ("link", "no folder")):
        with pytest.raises(DataError, match=f"cannot be written: .*{why}"):
            check_target(tmp_path / name)
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(DataError, match="links of its path lead in a circle"):
        write_whole(tmp_path / "a", b"x")
    assert (tmp_path / "a").is_symlink()
    with pytest.raises(DataError, match="a file needs a name"):
        check_target("")
    with pytest.raises(DataError, match="device, pipe or socket"):
        check_target(os.devnull)
    assert check_target(tmp_path / "new") == tmp_path / "new"


def test_a_read_only_folder_is_known_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(DataError, match="is read-only"):
        check_target(tmp_path / "new")


def test_a_new_file_may_be_read_as_any_other_and_an_old_one_keeps_its_mode(tmp_path):
    plain, written = tmp_path / "plain", tmp_path / "written"
    plain.write_bytes(b"")
    write_whole(written, b"")
    assert written.stat().st_mode == plain.stat().st_mode
    written.chmod(0o640)
    assert stat.S_IMODE(write_whole(written, b"x").stat().st_mode) == 0o640


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.eye(3)), np.int8(3), np.zeros(0)])
def test_arrays_are_read_as_numpy_reads_them(array):
    np.testing.assert_array_equal(read_array(npy(np.asarray(array))), array)


def claiming(shape: tuple[int, ...], data: bytes) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "|i1", "fortran_order": False, "shape": shape})
    return out.getvalue() + data


@pytest.mark.parametrize("shape", [(9,), (7,), (10**12,), (2**40, 2**40), (2**62, 4)])
def test_a_shape_that_is_not_the_file_s_is_refused_before_anything_is_allocated(shape):
    np.testing.assert_array_equal(read_array(claiming((8,), bytes(8))), np.zeros(8, np.int8))
    with pytest.raises(DataError, match="8 bytes of data"):
        read_array(claiming(shape, bytes(8)))


@pytest.mark.parametrize("cut", [0, 4, 9, 40])
def test_half_a_header_is_an_error_of_ours(cut):
    with pytest.raises(DataError, match="is not an .npy file"):
        read_array(npy(np.zeros(3))[:cut])


def test_objects_are_not_read():
    with pytest.raises(DataError, match="objects"):
        read_array(npy(np.array([{}], dtype=object)))


@pytest.mark.parametrize("wrong", ['"abc"', "[2]", "[2, 2, 2]", "3", "[1.5, 2]", "[99999999999, 1]", '["a", 1]'])
def test_an_attribute_of_the_wrong_kind_is_an_error_that_names_it(wrong):
    with pytest.raises(GraphError, match="stride"):
        parse(GRAPH.format(wrong))


@pytest.mark.parametrize("large", ["[2147483648, 1]", "[1, -2147483648]"])
def test_an_attribute_that_is_too_large_is_refused_with_the_limit(large):
    with pytest.raises(GraphError, match="stride must be two integers of 32 bits, not"):
        parse(GRAPH.format(large))


def test_a_file_with_a_wrong_attribute_is_refused_by_name(tmp_path):
    path = save(parse(GRAPH.format("[2, 2]")), tmp_path / "m.insitu")
    with zipfile.ZipFile(path) as z:
        parts = {n: z.read(n) for n in z.namelist()}
    parts["graph.txt"] = parts["graph.txt"].replace(b"stride=[2, 2]", b"stride=7")
    with zipfile.ZipFile(path, "w") as z:
        for name, data in parts.items():
            z.writestr(name, data)
    with pytest.raises(ModelError, match="stride must be two integers"):
        read(path)


def zipped(path: Path, data: bytes) -> Path:
    """An .npz with this as its array x."""
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("x.npy", data)
    return path


@pytest.mark.parametrize("shape", [(10**12,), (9, 1)])
def test_samples_that_claim_more_than_they_have_are_refused(tmp_path, shape):
    graph = parse("graph g(%x: f32[1x1]) -> (%y)\n  %y = relu(%x) : f32[1x1]\n")
    with pytest.raises(DataError, match="8 bytes of data"):
        read_samples(zipped(tmp_path / "x.npz", claiming(shape, bytes(8))), graph)
    (tmp_path / "x.npy").write_bytes(claiming(shape, bytes(8)))
    with pytest.raises(DataError, match=r"x\.npy: declares the shape .* 8 bytes of data"):
        read_samples(tmp_path / "x.npy", graph)
    assert len(read_samples(zipped(tmp_path / "x.npz", claiming((8, 1), bytes(8))), graph)) == 8


def test_samples_that_unpack_to_more_than_memory_are_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros(4096))
    check_arrays(tmp_path / "x.npz")
    monkeypatch.setattr("insitu.files.memory_bytes", lambda: 4096)
    with pytest.raises(DataError, match="memory"):
        check_arrays(tmp_path / "x.npz")


def test_an_empty_cache_variable_counts_as_none(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("INSITU_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder().is_relative_to(tmp_path)


@pytest.mark.parametrize("name", ["n" * 300, "zero\0byte"])
def test_a_name_that_no_file_can_have_is_an_error_of_ours(name, tmp_path):
    with build("net") as b:
        graph = b.graph(b.input("x", f32(1, 3)))
    for use in (insitu.open, insitu.load, read_state, lambda path: read_samples(path, graph)):
        with pytest.raises(insitu.Error, match="cannot be read: "):
            use(tmp_path / f"{name}.insitu")
    with pytest.raises(DataError, match="cannot be written: "):
        write_whole(tmp_path / f"{name}.insitu", b"")


@pytest.mark.parametrize("verb", ["teach", "info", "run", "live", "prove", "check", "predict"])
@pytest.mark.parametrize("name", ["n" * 300, "/dev/null"])
def test_every_verb_says_that_it_cannot_read_such_a_path(verb, name, capsys):
    assert main([verb, name, *(["x.npz"] if verb == "predict" else [])]) == 1
    assert "Error: " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["outputs.csv", "outputs"])
def test_outputs_are_not_written_under_the_name_of_another_format(name, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["predict", "model.onnx", "x.npz", "-o", str(tmp_path / name)])
    assert "written as an .npz" in capsys.readouterr().err and not list(tmp_path.iterdir())
