"""Damage real model files at random and read them: `python -m bench.fuzz [--count N] [--seed S] [KIND ...]`.

The tests do 2,000 fixed mutations of each kind; this does as many more as you like, and writes what broke a
reader to a file. READERS is the table of importers; originals come from the folder of public models, or
from tests/. A .pt2 goes through torch's loader in a child process and is not here.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from insitu.graph import Graph
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


def _read_tflite(data: bytes) -> Graph:
    from insitu.importers.from_tflite import read_tflite

    return read_tflite(data)


def _open_tflite(path: Path) -> list[Original]:
    data = path.read_bytes()
    return [(data, _tflite_spots(data), bytes)]


def _tflite_spots(data: bytes) -> list[int]:
    """Every position the reader looks at: tables, offsets and lengths, not the weights."""
    from insitu.importers import flatbuffer, tflite_schema

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
    from insitu.importers.from_checkpoint import read_checkpoint

    return read_checkpoint(data)


def _open_checkpoint(path: Path) -> list[Original]:
    """The file as it is (the zip's checksum catches most damage), and the pickle in it, zipped again."""
    data = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        pickle = archive.read("archive/data.pkl")
    directory = data.rindex(b"PK\x01\x02")
    return [(data, range(directory - 64, len(data)), bytes), (pickle, _pickle_spots(pickle), _zipped)]


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
    from insitu.importers.from_onnx import read_onnx

    return read_onnx(data)


def _open_plain(path: Path) -> list[Original]:
    return [(path.read_bytes(), (), bytes)]


def _damage_fields(data: bytes, count: int, seed: int, spots: Sequence[int]) -> Iterator[bytes]:
    from tests.importers.onnx_damage import damaged

    return damaged(data, count, seed)


TINY = ("ic_resnet8_int8", "kws_dscnn_fp32", "kws_dscnn_int8", "ad01_int8")
ONNX = tuple(str(ROOT / "tests" / "importers" / "files" / n) for n in ("scripted.onnx", "dynamo.onnx"))
READERS: dict[str, Reader] = {
    "tflite": Reader(_read_tflite, tuple(f"mlperf-tiny/{n}.tflite" for n in TINY), _open_tflite),
    "checkpoint": Reader(_read_checkpoint, ("mcunet-5fps.pkl",), _open_checkpoint),
    "onnx": Reader(_read_onnx, ONNX, _open_plain),
    "onnx-fields": Reader(_read_onnx, ONNX, _open_plain, _damage_fields),
}


def originals(kind: str, models: Path) -> list[Original]:
    """The undamaged files of a kind."""
    reader = READERS[kind]
    return [original for name in reader.files for original in reader.open(models / name)]


def run(kind: str, count: int, seed: int, models: Path, keep: Path) -> int:
    """How many files broke the reader; each is kept."""
    files, broken, start = originals(kind, models), 0, time.perf_counter()
    counts = {"graph": 0, "error": 0}
    for k, (data, spots, wrap) in enumerate(files):
        for i, damaged in enumerate(READERS[kind].damage(data, count // len(files), seed + 1000 * k, spots)):
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


def main() -> int:
    parser = argparse.ArgumentParser(description="damage model files and read them")
    parser.add_argument("kinds", nargs="*", default=[], metavar="KIND", help=f"of {', '.join(READERS)}; all by default")
    parser.add_argument("--count", type=int, default=20_000, help="mutations of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--models", type=Path, default=Path(os.environ.get("INSITU_TEST_FILES", "../shared")) / "models"
    )
    parser.add_argument("--keep", type=Path, default=Path(), help="folder for what broke a reader")
    given = parser.parse_args()
    if not given.models.is_dir():
        print(f"no models at {given.models}: set INSITU_TEST_FILES or --models", file=sys.stderr)
        return 1
    kinds = given.kinds or list(READERS)
    broken = [run(kind, given.count, given.seed, given.models, given.keep) for kind in kinds]
    return int(any(broken))


if __name__ == "__main__":
    sys.exit(main())
