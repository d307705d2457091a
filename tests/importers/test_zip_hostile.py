"""Damaged and hostile .pt2, .keras and .insitu files: a graph or one error, and hardly any of them starts a loader."""

from __future__ import annotations

import io
import json
import stat
import struct
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from bench.fuzz import KERAS, PT2, READERS, loaders, originals
from insitu.errors import ModelError
from insitu.graph import Graph, build, s8, to_text
from insitu.graph import file as graph_file
from insitu.importers.safe.child import read_in_child
from insitu.importers.safe.zipped import MAX_PART, parts
from insitu.ops.arith import add_s8
from tests.importers.zip_damage import DATE, damaged_parts, packed, unpacked
from tests.mutate import LIMIT_BYTES, expect_graph_or_error, survey

MUTATIONS = 2000
GOOD = {"pt2": Path(PT2), "keras": Path(KERAS)}


PACKAGES = {"pt2": "torch", "keras": "keras"}


def loaded(kind: str, *values):
    """A parameter for a test that starts this kind's loader."""
    package = PACKAGES[kind.split("-")[0]]
    missing = pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")
    return pytest.param(kind, *values, marks=missing)


LOADED = [loaded("pt2"), loaded("keras")]


def run(kind: str, count: int) -> dict[str, int]:
    """The outcomes of `count` mutations, spread over the files of this kind."""
    files, counts = originals(kind, Path()), {"graph": 0, "error": 0}
    each = count // len(files)
    for seed, (data, spots, _) in enumerate(files):
        damaged = islice(READERS[kind].damage(data, each + each // 5, seed, spots), each)
        for outcome, n in survey(READERS[kind].read, damaged).items():
            counts[outcome] += n
    assert sum(counts.values()) == count
    return counts


# --- fixed damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LOADED)
def test_a_damaged_file_gives_a_graph_or_one_error_and_is_seldom_given_to_a_loader(kind):
    before = loaders(GOOD[kind]).forks
    counts = run(kind, MUTATIONS)
    assert counts["graph"] >= 5, counts  # a changed date or padding byte does no harm
    assert loaders(GOOD[kind]).forks - before < MUTATIONS / 30


@pytest.mark.parametrize("kind", ["graph", "graph-parts"])
def test_a_damaged_graph_file_gives_a_graph_or_one_error(kind):
    counts = run(kind, MUTATIONS)
    assert counts["graph"] > MUTATIONS / 100 and counts["error"] > MUTATIONS / 2, counts


@pytest.mark.parametrize(("kind", "count"), [loaded("pt2-parts", 120), loaded("keras-parts", 40)])
def test_damage_with_the_right_checksum_meets_the_loader_and_is_a_graph_or_one_error(kind, count):
    good = GOOD[kind.split("-")[0]]
    before = loaders(good).forks
    counts = run(kind, count)
    assert min(counts.values()) > count / 20, counts
    assert loaders(good).forks - before > count / 2


@pytest.mark.parametrize("kind", LOADED)
def test_a_good_file_is_a_graph_however_it_is_packed(kind):
    read, good = READERS[kind].read, unpacked(GOOD[kind].read_bytes())
    wanted = to_text(read(GOOD[kind].read_bytes()))
    assert to_text(read(packed(good))) == to_text(read(packed(good, zipfile.ZIP_DEFLATED))) == wanted


def test_the_same_seed_gives_the_same_damage():
    data = GOOD["pt2"].read_bytes()
    assert list(damaged_parts(data, 30, 3)) == list(damaged_parts(data, 30, 3))
    assert len(set(damaged_parts(data, 30, 3))) > 25


# --- what the zip reader accepts and refuses ---------------------------------------------------------


def contents(data: bytes, folder: Path) -> dict[str, bytes | None]:
    path = folder / "model.zip"
    path.write_bytes(data)
    return dict(parts(path, lambda name: True))


def refused(data: bytes, folder: Path, *words: str) -> None:
    def read(data: bytes) -> Graph:
        raise AssertionError(f"was read: {contents(data, folder)}")

    error = expect_graph_or_error(read, data)
    assert isinstance(error, ModelError)
    for word in ("model.zip", *words):
        assert word in str(error)


class Stream(io.RawIOBase):
    """A file without seeking: zipfile then writes sizes after the data."""

    def __init__(self):
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self.data += data
        return len(data)


def written(file, method: int, wide: bool) -> None:
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in (("a/b", b"12345" * 100), ("c", b"")):
            with archive.open(zipfile.ZipInfo(name, DATE), "w", force_zip64=wide) as member:
                member.write(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("wide", [False, True], ids=["32 bits", "64 bits"])
@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_what_zipfile_writes_is_read_back(method, wide, stream, tmp_path):
    file = Stream() if stream else io.BytesIO()
    written(file, method, wide)
    data = bytes(file.data) if isinstance(file, Stream) else file.getvalue()
    assert contents(data, tmp_path) == {"a/b": b"12345" * 100, "c": b""}


def test_folders_and_large_members_are_read_without_keeping_them(tmp_path):
    large = packed({"assets/": b"", "w": b"\1\2\3\4" * (MAX_PART // 4 + 1), "small": b"x"})
    assert contents(large, tmp_path) == {"assets": b"", "w": None, "small": b"x"}


def test_a_file_that_ends_early_is_refused(tmp_path):
    good = packed({"a": b"1" * 50, "b": b"2" * 50})
    for size in range(len(good)):
        refused(good[:size], tmp_path)


def test_a_flipped_bit_is_found_and_its_member_named(tmp_path):
    data = bytearray(packed({"first": b"1" * 50, "second": b"2" * 50}))
    data[data.index(b"2222") + 7] ^= 4
    refused(bytes(data), tmp_path, "second", "checksum")


@cache
def bomb() -> bytes:
    """More zeros than a reader may allocate; the first member that readers of graph files look at."""
    return packed({"names.json": bytes(LIMIT_BYTES + (16 << 20))}, zipfile.ZIP_DEFLATED)


def lying_bomb() -> bytes:
    return patched(bomb(), {24: ("<I", 1000)}, {22: ("<I", 1000)})


def test_a_zip_bomb_is_refused_before_it_inflates(tmp_path):
    assert len(bomb()) < LIMIT_BYTES / 900
    refused(bomb(), tmp_path, "names.json", "inflate")


def patched(data: bytes, fields: dict[int, tuple[str, int]], local: dict[int, tuple[str, int]] | None = None) -> bytes:
    """Replace numbers in the last directory entry and in the last local record: offset -> (format, number)."""
    made = bytearray(data)
    for mark, changes in ((b"PK\1\2", fields), (b"PK\3\4", local or {})):
        at = data.rindex(mark)
        for offset, (form, number) in changes.items():
            struct.pack_into(form, made, at + offset, number)
    return bytes(made)


def test_a_zip_bomb_that_lies_about_its_size_stays_small(tmp_path):
    refused(lying_bomb(), tmp_path, "names.json", "more than")


def test_members_that_share_their_data_are_refused(tmp_path):
    twins = packed({"a": b"same", "b": b"same"})
    refused(patched(twins, {42: ("<I", 0)}), tmp_path, "overlaps")


def test_a_name_that_is_there_twice_is_refused(tmp_path):
    refused(packed({"name_1": b"1", "name_2": b"2"}).replace(b"name_2", b"name_1"), tmp_path, "name_1", "twice")


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../x", "a//x", "./x", "a\\x", "C:x", "a\nb", "a\x7f"])
def test_a_name_that_leads_elsewhere_is_refused(name, tmp_path):
    placeholder = "n" * len(name)
    refused(packed({placeholder: b"1"}).replace(placeholder.encode(), name.encode()), tmp_path, "entry 0")


def test_a_link_is_refused(tmp_path):
    link = patched(packed({"a": b"/etc/passwd"}), {38: ("<I", (stat.S_IFLNK | 0o777) << 16)})
    refused(link, tmp_path, "a", "link")


@pytest.mark.parametrize(("offset", "number"), [(8, 1), (8, 0x41), (10, 12), (10, 14), (10, 99)])
def test_encrypted_and_unusually_packed_members_are_refused(offset, number, tmp_path):
    refused(patched(packed({"a": b"1"}), {offset: ("<H", number)}), tmp_path, "a", "unusual")


def test_what_is_hidden_around_the_members_is_refused(tmp_path):
    good = packed({"a": b"1", "b": b"2"})
    refused(b"#!/bin/sh\n" + good, tmp_path)
    refused(good + b"more", tmp_path)
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.comment = b"hello"
        archive.writestr("a", b"1")
    refused((tmp_path / "c.zip").read_bytes(), tmp_path)
    at = good.rindex(b"PK\3\4")
    start = good.index(b"PK\1\2")
    gap = patched(good[:at] + b"gap" + good[at:], {42: ("<I", at + 3)})
    refused(gap[:-6] + struct.pack("<I", start + 3) + gap[-2:], tmp_path, "a", "followed")


def test_a_directory_of_a_million_members_is_refused_at_once(tmp_path):
    entry = packed({"a": b"1"})
    at = entry.index(b"PK\1\2")
    directory = entry[at : at + 47] * 60_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 60_000, 60_000, len(directory), at, 0)
    refused(entry[:at] + directory + end, tmp_path, "members")


# --- what is looked at before a loader is started ----------------------------------------------------


def no_child(arguments, said, seconds):
    raise AssertionError("a child was started")


def screened(kind: str, changes: Mapping[str, bytes | None], folder: Path) -> str:
    """The error for a good file with some parts replaced or (None) removed; no child may be started."""
    changed = {**unpacked(GOOD[kind].read_bytes()), **changes}
    path = folder / f"model.{kind}"
    path.write_bytes(packed({name: data for name, data in changed.items() if data is not None}, zipfile.ZIP_DEFLATED))
    error = expect_graph_or_error(lambda _: read_in_child(path, run=no_child), b"")
    assert isinstance(error, ModelError) and f"model.{kind}" in str(error)
    return str(error)


PROGRAM = "flat_cnn/models/model.json"
NO_JSON = {
    "empty": "",
    "open": "{",
    "a list": "[1]",
    "deep": '{"a": ' * 500 + "1" + "}" * 500,
    "deeper": '{"a": ' + "[" * 100_000,
    "a long number": '{"a": ' + "1" * 5000 + "}",
    "no text": "\xff",
    "the most objects for their bytes": '{"a": [' + "[],{}," * (MAX_PART // 6 - 10),
}


@pytest.mark.parametrize("text", NO_JSON.values(), ids=NO_JSON)
@pytest.mark.parametrize(("kind", "part"), [("pt2", PROGRAM), ("keras", "config.json")])
def test_json_that_is_none_or_nested_without_end_is_refused_by_name(kind, part, text, tmp_path):
    assert part in screened(kind, {part: text.encode("latin1")}, tmp_path)


def with_config(change) -> dict[str, bytes]:
    """config.json with the second layer changed."""
    config = json.loads(unpacked(GOOD["keras"].read_bytes())["config.json"])
    change(config["config"]["layers"][1])
    return {"config.json": json.dumps(config).encode()}


FUNCTION = {"module": "builtins", "class_name": "function", "registered_name": "function"}
FOREIGN = {
    "a class from elsewhere": ({"module": "os", "class_name": "system", "config": {}}, "os.system"),
    "a user's own class": ({"module": "my.layers", "class_name": "Mine", "config": {}}, "my.layers.Mine"),
    "a name that looks like Keras": ({"module": "keras_evil", "class_name": "Dense", "config": {}}, "keras_evil"),
    "a builtin": ({**FUNCTION, "config": "exec"}, "builtins.exec"),
    "a class of Python's": ({**FUNCTION, "class_name": "open", "config": {}}, "builtins.open"),
    "code": ({"class_name": "__lambda__", "config": {"value": "AAAA"}}, "Python code"),
    "no name": ({"module": 3, "class_name": "Dense", "config": {}}, "not text"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_keras_file_cannot_choose_what_is_imported_or_called(name, tmp_path):
    node, word = FOREIGN[name]
    error = screened("keras", with_config(lambda layer: layer["config"].update(activation=node)), tmp_path)
    assert word in error and "config.json: config.layers.1.config.activation" in error


def test_a_zip_file_without_a_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"other\.zip"):
        (tmp_path / "other.zip").write_bytes(packed({"a": b"1"}))
        read_in_child(tmp_path / "other.zip", run=no_child)
    assert "no model" in screened("keras", {"config.json": None}, tmp_path)
    assert "no model" in screened("pt2", {n: None for n in unpacked(GOOD["pt2"].read_bytes()) if "json" in n}, tmp_path)


# --- what a child may do -----------------------------------------------------------------------------


def child_that(status: int, says: bytes, graph: bytes | None = None):
    def run(arguments, said, seconds):
        said.write_bytes(says)
        if graph is not None:
            Path(arguments[1]).write_bytes(graph)
        return status

    return run


@pytest.mark.parametrize(
    "run",
    [
        child_that(-11, b""),
        child_that(0, b""),
        child_that(1, b"\xff" * 1_000_000),
        child_that(1, b'{"kind": "needs", "what": 1, "where": 2, "hint": 3}'),
        child_that(1, b'{"kind": "os"}'),
        child_that(1, b"[]"),
        child_that(0, b"", b"no graph"),
    ],
)
def test_whatever_a_child_leaves_behind_is_one_error(run):
    with pytest.raises(ModelError, match=r"flat_cnn\.pt2: its loader"):
        read_in_child(GOOD["pt2"], run=run)


@pytest.mark.parametrize("kind", LOADED[:1])
def test_a_loader_that_takes_too_long_is_ended(kind):
    with pytest.raises(ModelError, match="not done after"):
        read_in_child(GOOD[kind], seconds=0.001, run=loaders(GOOD[kind]).run)


# --- graph files -------------------------------------------------------------------------------------


def graph_refused(data: bytes, *words: str) -> None:
    error = expect_graph_or_error(graph_file.read, data)
    assert isinstance(error, ModelError)
    for word in words:
        assert word in str(error)


def saved_graph(folder: Path) -> bytes:
    with build("net") as b:
        x = b.input("x", s8(1, 20, s=0.5, z=0))
        graph = b.graph(add_s8(x, x, out=s8(1, 20, s=0.5, z=0), name="y"))
    return graph_file.save(graph, folder / "net.insitu").read_bytes()


def test_a_graph_file_that_is_a_bomb_stays_small():
    graph_refused(bomb(), "names.json", "over the limit")
    graph_refused(lying_bomb(), "names.json")


def test_an_array_that_is_none_is_named(tmp_path):
    good = unpacked(saved_graph(tmp_path))
    graph_refused(packed({**good, "names.json": b'["w"]', "0.npy": b"none"}), "0.npy")


def test_an_array_of_pickles_is_refused(tmp_path):
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
    data = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + b"cposix\nsystem\n(S'true'\ntR."
    good = unpacked(saved_graph(tmp_path))
    graph_refused(packed({**good, "names.json": b'["w"]', "0.npy": data}), "0.npy")


def test_scales_that_are_referred_to_over_and_over_are_refused():
    """A hundred thousand lines with a million scales each would be 1e11 numbers."""
    line = "  %v{} = const s8[1000000; s=@s z=0 axis=0] @w\n"
    text = "graph net(%x: f32[1]) -> (%x)\n" + "".join(line.format(i) for i in range(1000))
    arrays = {"s": np.ones(1_000_000), "w": np.zeros(1_000_000, np.int8)}
    files = {"graph.txt": text.encode(), "names.json": json.dumps(list(arrays)).encode()}
    for i, array in enumerate(arrays.values()):
        data = io.BytesIO()
        np.save(data, array)
        files[f"{i}.npy"] = data.getvalue()
    graph_refused(packed(files, zipfile.ZIP_DEFLATED), "line 4", "over and over")
