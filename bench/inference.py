"""Inference of the four MLPerf Tiny models, int8 and float, beside LiteRT and onnxruntime in the same run.

    make bench                                     a table, and bench/inference.json
    INSITU_TEST_FILES=DIR make bench               DIR/models/mlperf-tiny/*.tflite

LiteRT (XNNPACK) runs the file itself; onnxruntime runs what exporters/onnx makes of it, float or QDQ, with the channels
of images first, as its own kernels have them. One more row has our program of that ONNX file beside our program of the
.tflite. The weights that kws_dscnn_fp32 stores in int8 are float for all: LiteRT runs what exporters/litert makes
of it.

All run on one thread. Only our C, LiteRT's invoke and onnxruntime's run with bound inputs and outputs are timed, in CPU
time. Repeats are interleaved, so that noise hits all alike. A ratio is the median of the ratios of neighbouring
repeats, with its 10th and 90th percentile; above 1, insitu is faster. Beside it is the ratio of the least times of
single runs, also taken in turns: on a busy machine it says more, because other work only ever adds. This is not a test:
a bad number does not fail.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np

from bench.batches import in_turns, timed
from insitu.devices.host import HostDevice, open_host
from insitu.exporters.litert.translate import translate as litert_file
from insitu.exporters.onnx.translate import translate
from insitu.graph import Graph
from insitu.importers import load
from insitu.quantizer import fold
from insitu.reports.peers import litert_run
from insitu.reports.speed import machine, macs, random_input
from insitu.terminal.table import size, table

ROOT = Path(__file__).parent.parent
MODELS = ("ad01", "ic_resnet8", "kws_dscnn", "vww_mbv1")
KINDS = ("int8", "fp32")
HYBRID = "kws_dscnn_fp32"
FROM_ONNX = "vww_mbv1_fp32"
FIRST = (0, 3, 1, 2)  # channels first
LOOKS, LOOK = 12, 150  # looks for the least time, and runs of each
HEADING = ("model", "MACs", "insitu ms", "", "ms", "of ours", "p10-p90", "least", "theirs", "of ours", "arena")
Run = Callable[[], object]


def folder() -> Path:
    return Path(os.environ.get("INSITU_TEST_FILES", ROOT.parent / "shared")) / "models" / "mlperf-tiny"


def measure(path: Path, repeats: int) -> dict:
    """The times of ours and both others."""
    graph, scratch = fold(load(path)), Path(tempfile.mkdtemp())
    device, inputs = open_host(graph), [random_input(v) for v in graph.inputs]
    onnx = onnx_file(graph, scratch / "model.onnx")
    given = path if path.stem != HYBRID else written(scratch / "model.tflite", litert_file(graph).file.data())
    runs = {"insitu": prepared(device), "LiteRT": litert_run(given, inputs), "onnxruntime": ort_run(onnx)}
    return compared(path.stem, device, runs, repeats)


def from_onnx(path: Path, repeats: int) -> dict:
    """Our program of the ONNX file beside that of the .tflite."""
    graph = fold(load(path))
    other = open_host(fold(load(onnx_file(graph, Path(tempfile.mkdtemp()) / "model.onnx"))))
    runs = {"insitu": prepared(other), "from .tflite": prepared(open_host(graph))}
    return compared(f"{path.stem}, from ONNX", other, runs, repeats)


def prepared(device: HostDevice) -> Run:
    """The C function itself, with the addresses of random inputs and of outputs."""
    arrays = [random_input(v) for v in device.graph.inputs]
    arrays += [np.empty(v.shape, v.type.numpy) for v in device.graph.outputs]
    call = partial(device.bound("predict"), *(a.ctypes.data for a in arrays))
    return Kept(call, arrays)


class Kept(partial):
    """A call, and the arrays whose addresses it has: they live as long as the call."""

    arrays: list[np.ndarray]

    def __new__(cls, call: partial, arrays: list[np.ndarray]):
        self = super().__new__(cls, call)
        self.arrays = arrays
        return self


def least(runs: dict[str, Run]) -> dict[str, float]:
    """The shortest wall time of each in milliseconds, out of many short looks taken in turns."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(LOOKS):
        for who, run in runs.items():
            for _ in range(LOOK):
                start = time.perf_counter()
                run()
                best[who] = min(best[who], 1000 * (time.perf_counter() - start))
    return best


def compared(name: str, device: HostDevice, runs: dict[str, Run], repeats: int) -> dict:
    times, best = in_turns({who: timed(run) for who, run in runs.items()}, repeats), least(runs)
    ours = np.array(times.pop("insitu"))
    ratios = {who: np.array(found) / ours for who, found in times.items()}
    return {
        "model": name, "macs": macs(device.graph), "insitu_ms": spread(ours),
        "peers_ms": {who: spread(np.array(found)) for who, found in times.items()},
        "ratios": {who: spread(found) for who, found in ratios.items()},
        "least_ms": best, **device.info(),
    }  # fmt: skip


def spread(numbers: np.ndarray) -> dict[str, float]:
    low, middle, high = np.percentile(numbers, (10, 50, 90))
    return {"p10": float(low), "median": float(middle), "p90": float(high)}


# other runtimes ---------------------------------------------------------------------------------


def onnx_file(graph: Graph, path: Path) -> Path:
    """The model as onnxruntime likes it: QDQ if it is int8, images with their channels first."""
    model = translate(graph, exact=False).model
    for value in model.graph.input:
        channels_first(model.graph, value)
    return written(path, model.SerializeToString())


def channels_first(graph, value) -> None:
    """Take a transpose of this input away and let it come transposed; one that is read otherwise stays as it is."""
    readers = [n for n in graph.node if value.name in n.input]
    first = [n for n in readers if n.op_type == "Transpose" and tuple(n.attribute[0].ints) == FIRST]
    if len(readers) != 1 or not first:
        return
    dims = value.type.tensor_type.shape.dim
    for dim, length in zip(dims, [dims[i].dim_value for i in FIRST]):
        dim.dim_value = length
    for node in graph.node:
        node.input[:] = [value.name if name == first[0].output[0] else name for name in node.input]
    graph.node.remove(first[0])


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def ort_run(path: Path) -> Run:
    """A function that only runs the session, on one thread, with everything bound."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    bound = session.io_binding()
    for v in session.get_inputs():
        bound.bind_cpu_input(v.name, random_array(v))
    for v in session.get_outputs():
        bound.bind_output(v.name)
    return lambda: session.run_with_iobinding(bound)


def random_array(value) -> np.ndarray:
    rng = np.random.default_rng(0)
    if value.type == "tensor(float)":
        return rng.standard_normal(value.shape).astype(np.float32)
    return rng.integers(-128, 128, value.shape).astype(np.int8)


# report -----------------------------------------------------------------------------------------


def report(rows: list[dict]) -> str:
    return table(HEADING, [_cells(r, who, ratio) for r in rows for who, ratio in r["ratios"].items()])


def _cells(row: dict, who: str, ratio: dict[str, float]) -> tuple:
    ours, theirs = row["least_ms"]["insitu"], row["least_ms"][who]
    mine, other = row["insitu_ms"]["median"], row["peers_ms"][who]["median"]
    return (row["model"], row["macs"], f"{mine:.4f}", who, f"{other:.4f}",
            f"{ratio['median']:.2f}", f"{ratio['p10']:.2f}-{ratio['p90']:.2f}", f"{ours:.4f}", f"{theirs:.4f}",
            f"{theirs / ours:.2f}", size(row["arena_bytes"]))  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=41)
    parser.add_argument("--only", default="", help="the first letters of a model")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "bench" / "inference.json")
    arguments = parser.parse_args()
    paths = [folder() / f"{name}_{kind}.tflite" for kind in KINDS for name in MODELS]
    absent = [p.name for p in paths if not p.exists()]
    if absent:
        print(f"no {', '.join(absent)} in {folder()}: set INSITU_TEST_FILES to a folder with models/mlperf-tiny")
        return 1
    rows = []
    for path in (p for p in paths if p.name.startswith(arguments.only)):
        print(f"timing {path.stem}", file=sys.stderr)
        rows.append(measure(path, arguments.repeats))
        rows += [from_onnx(path, arguments.repeats)] if path.stem == FROM_ONNX else []
    about = {**machine(), "repeats": arguments.repeats, "litert": metadata.version("ai-edge-litert"),
             "onnxruntime": metadata.version("onnxruntime")}  # fmt: skip
    arguments.output.write_text(json.dumps({"about": about, "models": rows}, indent=1) + "\n")
    print(report(rows), end="\n\n")
    print("\n".join(f"{k:<11} {v}" for k, v in about.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
