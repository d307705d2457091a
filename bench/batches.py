"""Training steps over whole batches beside PyTorch, JAX and onnxruntime-training: the second table of bench.training.

mlp          784-128-dropout-10, Adam, batch 32; PyTorch with its plain and its fused Adam; JAX and onnxruntime-training
             in a Python of their own (bench/peer.py); and `fit`, the whole call over these steps,
             with shuffled samples, rates, losses and checks
ds-cnn       49x10 keyword spotting, batch norm, Adam, batch 32; PyTorch channels last
mobilenetv2  width 0.35, 128x128, batch norm, SGD, batch 8; PyTorch channels last

Everything runs on one thread and is timed in CPU time, in turns, so that noise hits all alike. The rates are so small
that no unit dies: averages of dead units become subnormal, and processors differ in how much those slow them down.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

import insitu
from bench.mobilenet import MobileNetV2
from bench.peer import Peer, peers
from insitu.devices.host import open_plans
from insitu.importers import load
from insitu.planner import plan
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.terminal.table import table
from insitu.training.train import Recipe, train_graphs

BURST = 0.05  # seconds of one timing
FIT = (5, 125)  # epochs and batches of a fit: 4,000 digits, as in the classic example
PATIENCE = 40  # seconds of one row
FEWEST = 5
RATE = 1e-5
Burst = Callable[[int], float]  # steps -> CPU milliseconds per step


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))


def ds_cnn(width: int = 64, blocks: int = 4) -> nn.Module:
    parts = filtered(1, width, (10, 4), stride=2, padding=(5, 1))
    for _ in range(blocks):
        parts += [*filtered(width, width, 3, padding=1, groups=width), *filtered(width, width, 1)]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 12))


def filtered(i: int, o: int, kernel, **options) -> list[nn.Module]:
    return [nn.Conv2d(i, o, kernel, bias=False, **options), nn.BatchNorm2d(o), nn.ReLU()]


ROWS = {  # name: model, shape of a sample, batch, optimizer
    "mlp 784-128-dropout-10, adam, batch 32": (mlp, (784,), 32, "adam"),
    "ds-cnn 49x10, adam, batch 32": (ds_cnn, (1, 49, 10), 32, "adam"),
    "mobilenetv2-w0.35 128 px, sgd, batch 8": (MobileNetV2, (3, 128, 128), 8, "sgd"),
}


def row(name: str, others: dict[str, Peer], repeats: int) -> dict:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    make, shape, batch, optimizer = ROWS[name]
    model, x = make().eval(), np.random.default_rng(0).standard_normal((batch, *shape)).astype(np.float32)
    runs = {"insitu": timed(insitu_step(model, x, optimizer)), **torch_runs(model.train(), x, optimizer)}
    if make is mlp:
        runs |= {"insitu fit": fitted(model, x, optimizer)}
        runs |= {framework: peer.burst for framework, peer in others.items()}
    return {"step": name, "times": {who: spread(ms) for who, ms in in_turns(runs, repeats).items()}}


def insitu_step(model: nn.Module, x: np.ndarray, optimizer: str) -> Callable[[], object]:
    graph = load(model, torch.from_numpy(x[:1]))
    recipe = Recipe(optimizer=optimizer, clip=0.0)
    graphs = train_graphs(graph, read_scheme("full", layers(graph)), recipe, head=None, samples=len(x))
    device = open_plans({verb: plan(g) for verb, g in graphs.items()})
    return device.prepared(x, np.arange(len(x), dtype=np.int32) % 10, np.float32(RATE), verb="train_step")


def fitted(model: nn.Module, x: np.ndarray, optimizer: str) -> Burst:
    """`fit` with a given rate over FIT steps, however many are asked for: a call has costs of its own, which belong to
    a training and not to three steps of it. One fit before compiles its programs."""
    recipe = Recipe(optimizer=optimizer, clip=0.0)
    learner = insitu.compile(
        model, example=torch.from_numpy(x[:1]), batch=len(x), recipe=recipe, scheme="full", precision="float"
    )

    epochs, batches = FIT
    many, labels = np.tile(x, (batches, *[1] * (x.ndim - 1))), np.arange(batches * len(x)) % 10

    def burst(_: int) -> float:
        start = time.process_time()
        learner.fit(many, labels, epochs=epochs, rate=RATE, schedule="constant", warmup=0)
        return 1000 * (time.process_time() - start) / (epochs * batches)

    burst(0)
    return burst


def torch_runs(model: nn.Module, x: np.ndarray, optimizer: str) -> dict[str, Burst]:
    given = torch.from_numpy(x)
    if given.ndim == 4:
        model.to(memory_format=torch.channels_last)  # pyright: ignore  (torch's own stubs lack it)
        given = given.contiguous(memory_format=torch.channels_last)
        return {"torch channels last": timed(torch_step(model, given, optimizer, False))}
    return {
        "torch": timed(torch_step(model, given, optimizer, False)),
        "torch fused adam": timed(torch_step(model, given, optimizer, True)),
    }


def torch_step(model: nn.Module, x: torch.Tensor, optimizer: str, fused: bool) -> Callable[[], object]:
    adam, parameters = optimizer == "adam", list(model.parameters())
    rule = torch.optim.Adam(parameters, lr=RATE, fused=fused) if adam else torch.optim.SGD(parameters, lr=RATE)
    labels, loss_of = torch.arange(len(x)) % 10, nn.CrossEntropyLoss()

    def run() -> None:
        rule.zero_grad()
        loss_of(model(x), labels).backward()
        rule.step()

    return run


def timed(step: Callable[[], object]) -> Burst:
    def burst(count: int) -> float:
        start = time.process_time()
        for _ in range(count):
            step()
        return 1000 * (time.process_time() - start) / count

    return burst


def in_turns(runs: dict[str, Burst], repeats: int) -> dict[str, list[float]]:
    """CPU milliseconds per step of each, in alternating bursts."""
    counts = {who: max(1, round(1000 * BURST / max(run(3), 1e-3))) for who, run in runs.items()}
    times: dict[str, list[float]] = {who: [] for who in runs}
    end = time.perf_counter() + PATIENCE
    for i in range(repeats):
        for who, run in runs.items():
            times[who].append(run(counts[who]))
        if i + 1 >= FEWEST and time.perf_counter() > end:  # a busy machine
            break
    return times


def spread(times: list[float]) -> dict[str, float]:
    low, middle, high = np.percentile(times, (10, 50, 90))
    return {"min_ms": min(times), "p10_ms": float(low), "median_ms": float(middle), "p90_ms": float(high),
            "bursts": len(times)}  # fmt: skip


def rows(repeats: int) -> tuple[list[dict], dict[str, str]]:
    """The rows, and the versions of the peers."""
    others = peers()
    try:
        found = []
        for name in ROWS:
            print(f"timing {name}", file=sys.stderr)
            found.append(row(name, others, repeats))
        return found, {framework: peer.version for framework, peer in others.items()}
    finally:
        for peer in others.values():
            peer.close()


def report(found: list[dict]) -> str:
    return table(("training step", "", "min ms", "p10-p90 ms", "of ours"), [c for r in found for c in _cells(r)])


def _cells(found: dict) -> list[tuple]:
    ours = found["times"]["insitu"]["min_ms"]
    return [
        (found["step"], who, f"{t['min_ms']:.3f}", f"{t['p10_ms']:.3f}-{t['p90_ms']:.3f}", f"{t['min_ms'] / ours:.2f}x")
        for who, t in found["times"].items()
    ]
