"""Inference of the four int8 MLPerf Tiny models, beside LiteRT (XNNPACK, one thread) in the same run.

    make bench                                     a table, and bench/inference.json
    INSITU_TEST_FILES=DIR make bench               DIR/models/mlperf-tiny/*.tflite

Only the generated C and LiteRT's invoke are timed, with inputs in place. A ratio above 1 means that insitu is faster.
Repeats are interleaved, so that noise hits both sides alike; the ratio is the median of the ratios of neighbouring
repeats. This is not a test: a bad number does not fail.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from importlib import metadata
from pathlib import Path

from insitu.learner.model import load
from insitu.reports.peers import litert_run
from insitu.reports.speed import machine, macs, random_input
from insitu.terminal.table import size, table

ROOT = Path(__file__).parent.parent
MODELS = ("ad01_int8", "ic_resnet8_int8", "kws_dscnn_int8", "vww_mbv1_int8")
BURST = 0.02  # seconds of one timing


def folder() -> Path:
    return Path(os.environ.get("INSITU_TEST_FILES", ROOT.parent / "shared")) / "models" / "mlperf-tiny"


def measure(path: Path, repeats: int) -> dict:
    device = load(path).device
    inputs = [random_input(v) for v in device.graph.inputs]
    mine, peer = paired(device.prepared(*inputs), litert_run(path, inputs), repeats)
    return {
        "model": path.stem,
        "macs": macs(device.graph),
        "insitu_ms": statistics.median(mine),
        "litert_ms": statistics.median(peer),
        "ratio": statistics.median(b / a for a, b in zip(mine, peer)),
        **device.info(),
    }


def paired(a, b, repeats: int) -> tuple[list[float], list[float]]:
    """Milliseconds per call of both, in turns."""
    counts = [max(1, round(BURST * 1000 / burst(f, 3))) for f in (a, b)]
    times = [(burst(a, counts[0]), burst(b, counts[1])) for _ in range(repeats)]
    return [x for x, _ in times], [y for _, y in times]


def burst(run, count: int) -> float:
    run()
    start = time.perf_counter()
    for _ in range(count):
        run()
    return 1000 * (time.perf_counter() - start) / count


def report(rows: list[dict]) -> str:
    cells = [
        (r["model"], r["macs"], f"{r['insitu_ms']:.3f}", f"{r['litert_ms']:.3f}", f"{r['ratio']:.2f}",
         size(r["arena_bytes"]), size(r["arena_lower_bound_bytes"]), size(r["const_bytes"]))
        for r in rows
    ]  # fmt: skip
    headers = ("model", "MACs", "insitu ms", "LiteRT ms", "LiteRT/insitu", "arena", "lower bound", "constants")
    return table(headers, cells)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=41)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "bench" / "inference.json")
    arguments = parser.parse_args()
    paths = [folder() / f"{name}.tflite" for name in MODELS]
    absent = [p.name for p in paths if not p.exists()]
    if absent:
        print(f"no {', '.join(absent)} in {folder()}: set INSITU_TEST_FILES to a folder with models/mlperf-tiny")
        return 1
    rows = []
    for path in paths:
        print(f"timing {path.stem}", file=sys.stderr)
        rows.append(measure(path, arguments.repeats))
    about = {**machine(), "litert": metadata.version("ai-edge-litert"), "repeats": arguments.repeats}
    arguments.output.write_text(json.dumps({"about": about, "models": rows}, indent=1) + "\n")
    print(report(rows))
    print()
    print("\n".join(f"{k:<9} {v}" for k, v in about.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
