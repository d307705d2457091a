"""How fast a model runs and how much memory it needs. Times are medians of interleaved repeats on one thread here.

Only the C is timed: the inputs are already in place, and no Python runs.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from insitu.devices.host import HostDevice
from insitu.graph import Graph, Value
from insitu.terminal.table import pairs, size
from insitu.toolchain.compiler import compiler_version

SHORT = 0.002  # seconds: calls are repeated until one timing takes at least this long


@dataclass(frozen=True)
class Speed:
    model: str
    predict_ms: float
    arena_bytes: int
    arena_lower_bound_bytes: int
    const_bytes: int
    macs: int
    peers_ms: dict[str, float] = field(default_factory=dict)  # other runtimes, same run

    def to_json(self) -> dict:
        return asdict(self)

    def to_text(self) -> str:
        peers = [
            (name, f"{ms:.3f} ms ({ms / self.predict_ms:.2f} times our time)") for name, ms in self.peers_ms.items()
        ]
        facts = [
            ("predict", f"{self.predict_ms:.3f} ms, {self.macs / self.predict_ms / 1e6:.2f} GMAC/s"),
            *peers,
            ("multiply-adds", f"{self.macs:,}"),
            ("arena", f"{size(self.arena_bytes)} (lower bound {size(self.arena_lower_bound_bytes)} in this order)"),
            ("constants", size(self.const_bytes)),
        ]
        return f"{self.model}\n\n{pairs(facts)}"


def measure_speed(device: HostDevice, peers: dict[str, Callable[[], object]], repeats: int = 21) -> Speed:
    """Time the device and every peer on the same random input."""
    inputs = [random_input(v) for v in device.graph.inputs]
    times = interleaved({"insitu": device.prepared(*inputs), **peers}, repeats)
    ours = times.pop("insitu")
    needs = {k: v for k, v in device.info().items() if k in Speed.__dataclass_fields__}
    return Speed(device.graph.name, ours, **needs, macs=macs(device.graph), peers_ms=times)


def interleaved(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median milliseconds of each. They take turns, so that a disturbance affects all of them."""
    counts = {name: _count(run) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(_time(run, counts[name]))
    return {name: 1000 * statistics.median(found) for name, found in times.items()}


def macs(graph: Graph) -> int:
    """Multiply-adds of one run, by the ops' own rules."""
    return sum(int(n.rule("macs", n.outputs[0], *n.inputs)) for n in graph.nodes if n.op.has("macs"))


def random_input(value: Value, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if value.dtype in ("f32", "f64"):
        return rng.standard_normal(value.shape).astype(value.type.numpy)
    info = np.iinfo(value.type.numpy)
    return rng.integers(info.min, info.max, value.shape, endpoint=True).astype(value.type.numpy)


def machine() -> dict[str, str]:
    """The machine and the compiler of a measurement."""
    import insitu

    return {
        "machine": f"{platform.machine()}, {_cpu()}",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "compiler": compiler_version().splitlines()[0],
        "insitu": insitu.__version__,
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())


def _count(run: Callable[[], object]) -> int:
    """How many calls make one timing long enough for the clock, after two calls to warm up."""
    run()
    once = min(_time(run, 1) for _ in range(3))
    return max(1, round(SHORT / max(once, 1e-7)))


def _time(run: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count
