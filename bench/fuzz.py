"""Damage real model files at random and read them: `python -m bench.fuzz [--count N] [--seed S] [KIND ...]`.

The tests do 2,000 fixed mutations of each kind. This does as many more as you like, and keeps every file that broke a
reader. READERS is the table of importers; originals come from the folder of public models, or from tests/. Kinds in
`-parts` damage the contents of a zip file, with the right checksum: the frameworks' own loaders read every one of
these, in a forked child, so there are fewer of them. `protocol` is not a file: it sends frames to a device built with
the address sanitizer, five per mutation asked for, many in one process.
"""

from __future__ import annotations

import argparse
import atexit
import io
import os
import pickle
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from insitu.graph import Graph
from insitu.graph import file as graph_file
from insitu.importers.safe.child import read_in_child
from tests.importers.forked import Forked
from tests.importers.zip_damage import damaged_parts
from tests.mutate import expect_graph_or_error, mutations

ROOT = Path(__file__).resolve().parent.parent
Original = tuple[bytes, Sequence[int], Callable[[bytes], bytes]]  # bytes, spots that matter, how to wrap damaged bytes


@dataclass(frozen=True)
class Reader:
    """An importer, the files to damage (under the models folder, or elsewhere by a full path), and how."""

    read: Callable[[bytes], Graph]
    files: tuple[str, ...]
    open: Callable[[Path], list[Original]]
    damage: Callable[[bytes, int, int, Sequence[int]], Iterator[bytes]] = mutations
    one_in: int = 1  # run only one in so many of the mutations, if each takes long


def _read_tflite(data: bytes) -> Graph:
    from insitu.importers.tflite.read import read_tflite

    return read_tflite(data)


def _open_tflite(path: Path) -> list[Original]:
    data = path.read_bytes()
    return [(data, _tflite_spots(data), bytes)]


def _tflite_spots(data: bytes) -> list[int]:
    """Every position that the reader looks at: tables, offsets and lengths, not the weights."""
    from insitu.importers.tflite import flatbuffer
    from insitu.importers.tflite import schema as tflite_schema

    found: set[int] = set()

    class Watching(flatbuffer.Buffer):
        def take(self, position: int, count: int, where: str) -> int:
            if count <= 64:
                found.update(range(position, position + count))
            return super().take(position, count, where)

    plain = flatbuffer.Buffer
    try:
        flatbuffer.Buffer = Watching
        tflite_schema.read_model(data)
    finally:
        flatbuffer.Buffer = plain
    return sorted(found)


def _read_checkpoint(data: bytes) -> Graph:
    from insitu.importers.checkpoint.read import read_checkpoint

    return read_checkpoint(data)


def _open_checkpoint(path: Path) -> list[Original]:
    """The file as it is (the zip's checksum catches most damage), and the pickle in it, cut short and zipped again."""
    data = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        short = _shortened(archive.read("archive/data.pkl"))
    directory = data.rindex(b"PK\x01\x02")
    return [(data, range(directory - 64, len(data)), bytes), (short, _pickle_spots(short), _zipped)]


def _shortened(data: bytes) -> bytes:
    """The same checkpoint with three blocks and ten classes: read six times as fast, and less of it is weights."""
    tree = pickle.loads(data)  # one of the public models, not yet damaged
    tree["blocks"] = tree["blocks"][:3]
    last, classifier = tree["blocks"][-1], tree["classifier"]["params"]
    given = (last["residual"] or last["pointwise2"])["params"]
    channels = len(last["pointwise2"]["params"]["bias"])
    classifier["weight"] = classifier["weight"][:10, :channels].copy()
    classifier["bias"], classifier["w_scales"] = classifier["bias"][:10].copy(), classifier["w_scales"][:10].copy()
    classifier["x_scale"], classifier["x_zero"] = given["y_scale"], given["y_zero"]
    return pickle.dumps(tree, protocol=data[1])


def _pickle_spots(data: bytes) -> list[int]:
    """Instructions and their short arguments."""
    import pickletools

    starts = [position for _, _, position in pickletools.genops(data)]
    return [p for start in starts if start is not None for p in range(start, min(start + 3, len(data)))]


def _zipped(data: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("archive/data.pkl", data)
    return made.getvalue()


def _read_onnx(data: bytes) -> Graph:
    from insitu.importers.onnx.read import read_onnx

    return read_onnx(data)


def _open_plain(path: Path) -> list[Original]:
    return [(path.read_bytes(), (), bytes)]


def _damage_fields(data: bytes, count: int, seed: int, spots: Sequence[int]) -> Iterator[bytes]:
    from tests.importers.onnx_damage import damaged

    return damaged(data, count, seed)


@cache
def loaders(good: Path) -> Forked:
    """The framework that reads files like this one; it stays in memory until this process ends."""
    made = Forked(good)
    atexit.register(made.close)
    return made


def _in_fork(good: str) -> Callable[[bytes], Graph]:
    """Like insitu.load for a .pt2 or .keras, except for how the child is started."""
    suffix = Path(good).suffix

    def read(data: bytes) -> Graph:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"model{suffix}"
            path.write_bytes(data)
            return read_in_child(path, seconds=60, memory_bytes=1 << 30, run=loaders(Path(good)).run)

    return read


def _open_zip(path: Path) -> list[Original]:
    data = path.read_bytes()
    return [(data, _zip_spots(data), bytes)]


def _zip_spots(data: bytes) -> list[int]:
    """The directory, and the record before each member."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        places, directory = [i.header_offset for i in archive.infolist()], archive.start_dir
    return [*(p for place in places for p in range(place, place + 30)), *range(directory, len(data))]


def _changed(data: bytes, count: int, seed: int, spots: Sequence[int]) -> Iterator[bytes]:
    """Mutations that changed something: zeros over zeros do not, and a loader takes long for a whole file."""
    return (m for m in mutations(data, count, seed, spots) if m != data)


def _open_graphs(path: Path) -> list[Original]:
    """The graph file of an ONNX model, as floats and as int8."""
    from insitu.importers.onnx.read import read_onnx
    from insitu.quantizer import calibrate, fold, quantize

    graph = fold(read_onnx(path.read_bytes()))
    samples = np.random.default_rng(0).normal(size=(4, *graph.inputs[0].shape[1:])).astype(np.float32)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for made in (graph, quantize(graph, calibrate(graph, samples))):
            found += _open_zip(graph_file.save(made, Path(folder) / "graph.insitu"))
    return found


TINY = ("ic_resnet8_int8", "kws_dscnn_fp32", "kws_dscnn_int8", "ad01_int8")
FILES = ROOT / "tests" / "importers" / "files"
ONNX = tuple(str(FILES / n) for n in ("scripted.onnx", "dynamo.onnx"))
PT2, KERAS = str(FILES / "flat_cnn.pt2"), str(FILES / "small_cnn.keras")
READERS: dict[str, Reader] = {
    "tflite": Reader(_read_tflite, tuple(f"mlperf-tiny/{n}.tflite" for n in TINY), _open_tflite),
    "checkpoint": Reader(_read_checkpoint, ("mcunet-5fps.pkl",), _open_checkpoint),
    "onnx": Reader(_read_onnx, ONNX, _open_plain),
    "onnx-fields": Reader(_read_onnx, ONNX, _open_plain, _damage_fields),
    "pt2": Reader(_in_fork(PT2), (PT2,), _open_zip, _changed),
    "pt2-parts": Reader(_in_fork(PT2), (PT2,), _open_zip, damaged_parts, one_in=20),
    "keras": Reader(_in_fork(KERAS), (KERAS,), _open_zip, _changed),
    "keras-parts": Reader(_in_fork(KERAS), (KERAS,), _open_zip, damaged_parts, one_in=50),
    "graph": Reader(graph_file.read, ONNX[1:], _open_graphs),
    "graph-parts": Reader(graph_file.read, ONNX[1:], _open_graphs, damaged_parts),
}


def originals(kind: str, models: Path) -> list[Original]:
    """The undamaged files of a kind."""
    reader = READERS[kind]
    return [original for name in reader.files for original in reader.open(models / name)]


def run(kind: str, count: int, seed: int, models: Path, keep: Path) -> int:
    """How many files broke the reader; each of them is kept."""
    files, broken, start = originals(kind, models), 0, time.perf_counter()
    count = -(-count // len(files) // READERS[kind].one_in)
    counts = {"graph": 0, "error": 0}
    for k, (data, spots, wrap) in enumerate(files):
        for i, damaged in enumerate(READERS[kind].damage(data, count, seed + 1000 * k, spots)):
            try:
                counts["error" if expect_graph_or_error(READERS[kind].read, wrap(damaged)) else "graph"] += 1
            except AssertionError as e:
                broken += 1
                path = keep / f"fuzz-{kind}-{seed}-{k}-{i}.bin"
                path.write_bytes(wrap(damaged))
                print(f"{path}: {e}", file=sys.stderr)
    seconds = time.perf_counter() - start
    print(f"{kind:12} {counts['graph']:8,} graphs {counts['error']:8,} errors {broken:4} broken  {seconds:.0f} s")
    return broken


PROTOCOL, FRAMES_EACH, FRAMES_A_PROCESS = "protocol", 5, 10_000
KINDS = [*READERS, PROTOCOL]


def run_protocol(count: int, seed: int, keep: Path) -> int:
    """How many storms of damaged frames broke the device; each of them is kept."""
    from tests.devices.damage import NoSanitizer, build_checked, storm, survive
    from tests.devices.firmware import WAYS

    try:
        firmware = [build_checked(way) for way in WAYS]
    except NoSanitizer as e:
        print(f"{PROTOCOL:12} left out: {e}")
        return 0
    broken = answers = 0
    start, left = time.perf_counter(), count * FRAMES_EACH
    for k in range(-(-left // FRAMES_A_PROCESS)):
        frames = b"".join(storm(min(FRAMES_A_PROCESS, left - k * FRAMES_A_PROCESS), seed + 1000 * k, valid=k % 4 > 0))
        try:
            answers += survive(firmware[(k + k // 4) % len(firmware)], frames, keeps_state=k % 4 == 0)
        except AssertionError as e:
            broken += 1
            path = keep / f"fuzz-{PROTOCOL}-{seed}-{k}.bin"
            path.write_bytes(frames)
            print(f"{path}: {e}", file=sys.stderr)
    seconds = time.perf_counter() - start
    print(f"{PROTOCOL:12} {left:8,} frames {answers:8,} answers {broken:3} broken  {seconds:.0f} s")
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description="damage model files and read them")
    parser.add_argument("kinds", nargs="*", default=[], metavar="KIND", help=f"of {', '.join(KINDS)}; all by default")
    parser.add_argument("--count", type=int, default=20_000, help="mutations of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--models", type=Path, default=Path(os.environ.get("INSITU_TEST_FILES", "../shared")) / "models"
    )
    parser.add_argument("--keep", type=Path, default=Path(), help="folder for files that broke a reader")
    given = parser.parse_args()
    if not given.models.is_dir() and given.kinds != [PROTOCOL]:
        print(f"no models at {given.models}: set INSITU_TEST_FILES or --models", file=sys.stderr)
        return 1
    kinds = given.kinds or KINDS
    broken = [
        run_protocol(given.count, given.seed, given.keep)
        if kind == PROTOCOL
        else run(kind, given.count, given.seed, given.models, given.keep)
        for kind in kinds
    ]
    return int(any(broken))


if __name__ == "__main__":
    sys.exit(main())
