"""One training step on this machine, beside PyTorch eager in the same run.

    python -m bench.training                       a table, and bench/training.json
    INSITU_TEST_FILES=DIR python -m bench.training    DIR/models/mcunet-5fps.pkl for the int8 row

float   the whole of MobileNetV2-w0.35 (128x128, batch norm with the statistics of the batch, SGD), batch 1 and 8
int8    mcunet-5fps with the published 49kb scheme, batch 1; PyTorch trains the same layers in float, all of them

Both sides run on one thread; PyTorch in its two memory layouts, and also on two threads. Repeats are taken in turns, so
that noise hits all alike. A second table has whole batches beside more peers, in CPU time (bench/batches.py; alone:
--only batches). A ratio is the median of the ratios of neighbouring repeats; above 1, insitu is faster. Only
the generated C is timed, and PyTorch's calls from Python. This is not a test: a bad number does not fail.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import insitu.ops  # noqa: F401  fills the registry
from bench import batches
from bench.mobilenet import MobileNetV2
from bench.torch_steps import Twin, saved_bytes, step
from insitu.devices.host import HostDevice, open_plans
from insitu.graph import Graph
from insitu.importers import load
from insitu.pipeline import head_of, new_head, trainable
from insitu.planner import plan
from insitu.reports.speed import machine, macs
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.terminal.table import size, table
from insitu.training.train import Recipe, train_graphs

ROOT = Path(__file__).parent.parent
CLASSES, IMAGE, RATE = 10, 128, 0.01
PLAIN = Recipe(clip=0.0)  # plain SGD, as on the other side
BURST = 0.03  # seconds of one timing
PATIENCE = 60  # seconds of one row; beyond that, five repeats must do


def checkpoint() -> Path:
    return Path(os.environ.get("INSITU_TEST_FILES", ROOT.parent / "shared")) / "models" / "mcunet-5fps.pkl"


def float_row(batch: int, repeats: int) -> dict:
    """The whole of a float MobileNetV2."""
    torch.manual_seed(0)
    model = MobileNetV2(CLASSES)
    graph = load(model.eval(), torch.zeros(1, 3, IMAGE, IMAGE))
    graphs = train_graphs(graph, read_scheme("full", layers(graph)), PLAIN, head=None, samples=batch)
    x = np.random.default_rng(0).standard_normal((batch, 3, IMAGE, IMAGE)).astype(np.float32)
    return measure(
        f"mobilenetv2-w0.35 float full, batch {batch}", graphs, graph, x, model, torch.from_numpy(x), repeats
    )


def int8_row(repeats: int) -> dict:
    """mcunet-5fps, int8 and sparse; the other side trains all of it in float."""
    graph = load(checkpoint())
    model = Twin(graph, CLASSES)
    graph = new_head(graph, CLASSES, None, Recipe(), None, "zero", 0)
    scheme = read_scheme("mcunet-5fps/49kb", trainable(graph))
    graphs = train_graphs(graph, scheme, Recipe(), head=head_of(graph))
    x = np.random.default_rng(0).integers(-128, 127, graph.inputs[0].shape).astype(np.int8)
    pixels = torch.from_numpy(x.astype(np.float32) / 128).permute(0, 3, 1, 2).contiguous()
    return measure("mcunet-5fps int8 49kb, batch 1", graphs, graph, x, model, pixels, repeats)


def measure(name: str, graphs: dict[str, Graph], forward: Graph, x, model, torch_x: torch.Tensor, repeats: int) -> dict:
    device = open_plans({verb: plan(g) for verb, g in graphs.items()})
    labels = np.arange(len(x), dtype=np.int32) % CLASSES
    targets = torch.from_numpy(labels.astype(np.int64))
    kept = saved_bytes(model, torch_x)
    times = in_turns(
        {
            "insitu": device.prepared(x, labels, np.float32(RATE), verb="train_step"),
            "torch": step(model, torch_x, targets, rate=RATE),
            "torch_channels_last": step(*channels_last(model, torch_x), targets, rate=RATE),
            "torch_two_threads": step(model, torch_x, targets, threads=2, rate=RATE),
        },
        repeats,
    )
    return {"step": name, "forward_macs": macs(forward), **summary(times), **memory(device), "torch_saved_bytes": kept}


def channels_last(model: torch.nn.Module, x: torch.Tensor) -> tuple[torch.nn.Module, torch.Tensor]:
    """A copy of both in PyTorch's other memory layout."""
    other = copy.deepcopy(model).to(memory_format=torch.channels_last)  # pyright: ignore  (torch's own stubs lack it)
    return other, x.contiguous(memory_format=torch.channels_last)


def memory(device: HostDevice) -> dict[str, int]:
    plans = device.program.plans
    return {
        "arena_bytes": plans["train_step"].arena_bytes,
        "arena_lower_bound_bytes": plans["train_step"].lower_bound_bytes,
        "state_bytes": device.program.state_bytes,
    }


def in_turns(runs: dict[str, Callable], repeats: int) -> dict[str, list[float]]:
    """Milliseconds per call of each, in alternating bursts."""
    counts = {name: max(1, round(1000 * BURST / burst(run, 2))) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + PATIENCE
    for i in range(repeats):
        for name, run in runs.items():
            times[name].append(burst(run, counts[name]))
        if i >= 4 and time.perf_counter() > end:  # a busy machine
            break
    return times


def burst(run: Callable, count: int) -> float:
    run()
    start = time.perf_counter()
    for _ in range(count):
        run()
    return 1000 * (time.perf_counter() - start) / count


def summary(times: dict[str, list[float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, values in times.items():
        found[f"{name}_ms"] = statistics.median(values)
        found[f"{name}_min_ms"] = min(values)
        if name != "insitu":
            found[f"{name}_ratio"] = statistics.median(b / a for a, b in zip(times["insitu"], values))
    return found


def report(rows: list[dict]) -> str:
    cells = [
        (r["step"], f"{r['insitu_ms']:.2f}", *(f"{r[f'{p}_ms']:.2f} ({r[f'{p}_ratio']:.1f}x)" for p in PEERS),
         size(r["arena_bytes"]), size(r["torch_saved_bytes"]))
        for r in rows
    ]  # fmt: skip
    headers = ("training step", "insitu ms", *PEERS.values(), "arena", "PyTorch keeps")
    return table(headers, cells)


PEERS = {"torch": "PyTorch", "torch_channels_last": "channels last", "torch_two_threads": "PyTorch, 2 threads"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "bench" / "training.json")
    parser.add_argument("--only", choices=("steps", "batches"), help="one of the two tables")
    arguments = parser.parse_args()
    about = {**machine(), "torch": torch.__version__, "repeats": arguments.repeats}
    steps = [] if arguments.only == "batches" else step_rows(arguments.repeats)
    whole, versions = ([], {}) if arguments.only == "steps" else batches.rows(arguments.repeats)
    about |= versions
    found = {"about": about, "steps": steps, "batches": whole}
    arguments.output.write_text(json.dumps(found, indent=1) + "\n")
    for rows, printed in ((steps, report), (whole, batches.report)):
        if rows:
            print(printed(rows), end="\n\n")
    print("\n".join(f"{k:<11} {v}" for k, v in about.items()))
    return 0


def step_rows(repeats: int) -> list[dict]:
    rows = []
    for batch in (1, 8):
        print(f"timing the float step, batch {batch}", file=sys.stderr)
        rows.append(float_row(batch, repeats))
    if checkpoint().exists():
        print("timing the int8 step", file=sys.stderr)
        rows.append(int8_row(repeats))
    else:
        print(f"no {checkpoint()}: the int8 step is skipped", file=sys.stderr)
    return rows


if __name__ == "__main__":
    sys.exit(main())
