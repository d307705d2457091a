"""Where the time of a program goes: every call of a kernel is timed, in the generated C itself.

    python -m bench.calls mlp|ds-cnn|mobilenetv2           a training step of bench.batches
    python -m bench.calls model.tflite                     a prediction
    python -m bench.calls ds-cnn --by call                 each call on a line of its own

The generated function is compiled with a clock around each of its calls, which itself costs some 25 ns. The figure of a
call is the least of all runs: other work on the machine does not count. This is not a test.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from bench import batches
from insitu.codegen import Program, emit_program
from insitu.devices.host import HostDevice, _loaded
from insitu.importers import load
from insitu.planner import plan
from insitu.quantizer import fold
from insitu.reports.speed import random_input
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.terminal.table import table
from insitu.toolchain.compiler import NATIVE
from insitu.training.train import Recipe, train_graphs

CALL = re.compile(r"^    (\w+)\((.*)\);\s*(?:/\* (.*) \*/)?$")
CLOCK = """
#define _POSIX_C_SOURCE 199309L
#include <time.h>
double spent[%d];
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}
"""


@dataclass(frozen=True)
class Timed:
    """One call: its kernel, the layer it is for, and its microseconds."""

    kernel: str
    layer: str
    us: float


def clocked(text: str) -> tuple[str, list[tuple[str, str]]]:
    """The generated file with a clock around each call, and those calls: kernel, layer."""
    calls: list[tuple[str, str]] = []
    lines = []
    for line in text.splitlines():
        found = CALL.match(line)
        if not found:
            lines.append(line)
            continue
        i = len(calls)
        calls.append((found[1], found[3] or ""))
        lines.append(f"    {{ const double since = now(); {line.split('/*')[0].strip()} spent[{i}] = now() - since; }}")
    return CLOCK % max(1, len(calls)) + "\n".join(lines) + "\n", calls


def timed(program: Program, verb: str, inputs: list, repeats: int, flags: tuple[str, ...]) -> list[Timed]:
    name = f"{program.prefix}_{verb}.c"
    text, calls = clocked(program.code[name])
    program = replace(program, code={**program.code, name: text})
    library = _loaded(program, flags)
    run = HostDevice(program, library).prepared(*inputs, verb=verb)
    spent = (ctypes.c_double * len(calls)).in_dll(library, "spent")
    best = np.full(len(calls), np.inf)
    for _ in range(repeats):
        run()
        best = np.minimum(best, np.array(spent))
    return [Timed(kernel, layer, us) for (kernel, layer), us in zip(calls, best.tolist())]


def training(name: str) -> tuple[Program, list]:
    row = next(k for k in batches.ROWS if k.startswith(name))
    make, shape, batch, optimizer = batches.ROWS[row]
    torch.manual_seed(0)
    x = np.random.default_rng(0).standard_normal((batch, *shape)).astype(np.float32)
    graph = load(make().eval(), torch.from_numpy(x[:1]))
    recipe = Recipe(optimizer=optimizer, clip=0.0)
    graphs = train_graphs(graph, read_scheme("full", layers(graph)), recipe, head=None, samples=len(x))
    program = emit_program({verb: plan(g) for verb, g in graphs.items()})
    return program, [x, np.arange(batch, dtype=np.int32) % 10, np.float32(batches.RATE)]


def prediction(path: str) -> tuple[Program, list]:
    graph = fold(load(Path(path)))
    return emit_program(plan(graph)), [random_input(v) for v in graph.inputs]


def by_kernel(calls: list[Timed]) -> list[tuple]:
    sums: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        sums[call.kernel].append(call.us)
    total = sum(map(sum, sums.values()))
    rows = sorted(sums.items(), key=lambda item: -sum(item[1]))
    return [(k, len(us), f"{sum(us):.1f}", f"{sum(us) / total:.1%}") for k, us in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", help="the first letters of a row of bench.batches, or a model")
    parser.add_argument("--by", choices=("kernel", "call"), default="kernel")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--flags", default=NATIVE, help="of the C compiler")
    arguments = parser.parse_args()
    found = Path(arguments.what).exists()
    program, inputs = prediction(arguments.what) if found else training(arguments.what)
    verb = "predict" if found else "train_step"
    calls = timed(program, verb, inputs, arguments.repeats, tuple(arguments.flags.split()))
    if arguments.by == "call":
        print(table(("kernel", "layer", "us"), [(c.kernel, c.layer, f"{c.us:.1f}") for c in calls]))
    else:
        print(table(("kernel", "calls", "us", "share"), by_kernel(calls)))
    print(f"\nall calls {sum(c.us for c in calls):.1f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
