"""mcunet-5fps in int8 with AVX-512 and with AVX2 alone, as on most laptops: a training step and a prediction, in turns.

    python -m bench.narrow
    INSITU_TEST_FILES=DIR python -m bench.narrow     DIR/models/mcunet-5fps.pkl

One thread, CPU time, on a machine with AVX-512; the second build has the flag -mno-avx512f. A ratio is the median of
the ratios of neighbouring bursts, with its 10th and 90th percentile. Both builds must leave the same bytes. This is not
a test.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np

import insitu.ops  # noqa: F401  fills the registry
from bench.batches import in_turns, timed
from bench.training import CLASSES, checkpoint
from insitu.devices.host import HostDevice, open_plans
from insitu.importers import load
from insitu.pipeline import head_of, new_head, trainable
from insitu.planner import plan
from insitu.schemes.scheme import read_scheme
from insitu.terminal.table import table
from insitu.toolchain.compiler import NATIVE
from insitu.training.train import Recipe, train_graphs

BUILDS = {"AVX-512": (NATIVE,), "AVX2": (NATIVE, "-mno-avx512f")}
SCHEME, RATE, STEPS = "mcunet-5fps/49kb", 0.01, 3


def devices() -> dict[str, HostDevice]:
    graph = new_head(load(checkpoint()), CLASSES, None, Recipe(), None, "zero", 0)
    graphs = train_graphs(graph, read_scheme(SCHEME, trainable(graph)), Recipe(), head=head_of(graph))
    plans = {verb: plan(g) for verb, g in graphs.items()}
    return {build: open_plans(plans, flags=flags) for build, flags in BUILDS.items()}


def runs(device: HostDevice) -> dict[str, Callable[[], object]]:
    x = np.random.default_rng(0).integers(-128, 127, device.graph.inputs[0].shape).astype(np.int8)
    return {
        "training step": device.prepared(x, np.zeros(1, np.int32), np.float32(RATE), verb="train_step"),
        "prediction": device.prepared(x, verb="predict"),
    }


def same_bytes(found: dict[str, HostDevice]) -> bool:
    """After some steps of each."""
    for device in found.values():
        step = runs(device)["training step"]
        for _ in range(STEPS):
            step()
    states = [{name: v.tobytes() for name, v in device.state().items()} for device in found.values()]
    return states[0] == states[1]


def row(what: str, both: dict[str, Callable[[], object]], repeats: int) -> tuple:
    times = in_turns({build: timed(run) for build, run in both.items()}, repeats)
    wide, narrow = (np.array(times[build]) for build in BUILDS)
    low, middle, high = np.percentile(narrow / wide, (10, 50, 90))
    return what, f"{wide.min():.3f}", f"{narrow.min():.3f}", f"{middle:.2f}", f"{low:.2f}-{high:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=21)
    repeats = parser.parse_args().repeats
    found = devices()
    same, each = same_bytes(found), {build: runs(device) for build, device in found.items()}
    rows = [row(what, {build: each[build][what] for build in BUILDS}, repeats) for what in next(iter(each.values()))]
    print(table(("mcunet-5fps, 49kb", *(f"{build} ms" for build in BUILDS), "ratio", "p10-p90"), rows))
    print(f"\nstates after {STEPS} steps: {'the same bytes' if same else 'different'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
