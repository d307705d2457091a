"""About how many instructions a plan takes, from its calls alone: nothing is compiled or run.

A call costs a number of instructions per multiply-add, per result and per call, which depends on the kind of kernel and
of core. The rates were fitted to the exact counts of `make bench-mcu` by bench/rates.py (in front of a network: by
bench/front_rates.py), which also says how close the estimates come. cost.py counts exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from insitu.boards.cpu import Cpu
from insitu.graph import Node
from insitu.graph.loops import Loop
from insitu.planner import Plan
from insitu.planner.changes.less_scratch import level_of
from insitu.planner.changes.looped import macs


@dataclass(frozen=True)
class Rate:
    """Instructions of one kind of kernel."""

    mac: float
    result: float
    call: float
    tight: float = 0.0  # extra per multiply-add, for each level of less scratch
    litert: float = 0.0  # extra per result, with LiteRT's rounding


@dataclass(frozen=True)
class Work:
    """Calls of one kernel."""

    layer: str
    kernel: str
    macs: float
    results: float
    calls: int = 1
    level: int = 0
    litert: bool = False


# these have gradients, which are kinds of their own
FAMILIES = ("conv2d", "depthwise2d", "linear")  # op by name: how names of kernels begin; a test holds them to it
FRONTS = (  # op by name: the same, in front of a network
    "spectrum", "log_mel", "mel", "smooth", "pcen", "cepstrum", "fir", "normalize", "pixels", "yuv420",
)  # fmt: skip
KINDS = ("sgd_residual", "sgd_bias", "sum", "merge_channels", "bias_grad", "mean", *FRONTS)
OTHER = "other"

# for cores with the DSP extension
DSP = {
    "bias_grad": Rate(0, 13.8, 2800),
    "cepstrum": Rate(5.99, 24.3, 0),
    "conv2d": Rate(0.79, 5.32, 3300, 0.43, 58.5),
    "conv2d_dw": Rate(0.89, 4.96, 8800, 0.15),
    "conv2d_dx": Rate(0.88, 6.32, 47600, 0.2),
    "depthwise2d": Rate(0.85, 11, 7200, 0, 58.1),
    "depthwise2d_dw": Rate(4.82, 0, 29500),
    "depthwise2d_dx": Rate(0.83, 19.5, 21100),
    "fir": Rate(7, 14, 35.1),
    "linear": Rate(5.14, 38, 4000),
    "linear_dw": Rate(1.19, 13.7, 4400, 0.24),
    "linear_dx": Rate(1.29, 0, 3600, 0.17),
    "log_mel": Rate(4.91, 58.5, 21),
    "mean": Rate(0, 0, 17700),
    "mel": Rate(8.1, 22.7, 23),
    "merge_channels": Rate(0, 2.96, 2700),
    "normalize": Rate(0, 17.2, 0, 0, 8.25),
    "other": Rate(0, 1.26, 430, 0, 158),
    "pcen": Rate(25.7, 0, 19),
    "pixels": Rate(0, 6.67, 41.1),
    "sgd_bias": Rate(0, 88.2, 0),
    "sgd_residual": Rate(0, 12.7, 4100),
    "smooth": Rate(22.6, 0, 0),
    "spectrum": Rate(9.35, 0, 576),
    "sum": Rate(0, 6.49, 1000, 0, 68.7),
    "yuv420": Rate(0, 6.59, 54.9),
}
# for others, none of which has an FPU either
PLAIN = {
    "bias_grad": Rate(0, 95.4, 7600),
    "cepstrum": Rate(9.48, 194, 0),
    "conv2d": Rate(7.5, 53.1, 16000, 1.4, 100),
    "conv2d_dw": Rate(7.4, 33.2, 69700, 0.71),
    "conv2d_dx": Rate(7.01, 5.29, 416300, 0.58),
    "depthwise2d": Rate(8, 129, 35700, 0, 88.3),
    "depthwise2d_dw": Rate(18.7, 60.4, 126800),
    "depthwise2d_dx": Rate(4.03, 120, 0),
    "fir": Rate(208, 0, 0),
    "linear": Rate(5.59, 0, 84400),
    "linear_dw": Rate(939, 0, 0),
    "linear_dx": Rate(1.27e03, 0, 68600),
    "log_mel": Rate(40.1, 140, 39.1),
    "mean": Rate(0, 169, 16400),
    "mel": Rate(40.7, 50.8, 40.1),
    "merge_channels": Rate(0, 4.71, 2600),
    "normalize": Rate(0, 25.9, 0, 0, 486),
    "other": Rate(0, 10.4, 1500, 0, 496),
    "pcen": Rate(67.3, 0, 478),
    "pixels": Rate(0, 13.8, 68.2),
    "sgd_bias": Rate(0, 623, 640),
    "sgd_residual": Rate(0, 39.7, 18300),
    "smooth": Rate(53.8, 0, 0),
    "spectrum": Rate(41.1, 652, 346),
    "sum": Rate(0, 26.4, 7300, 0, 159),
    "yuv420": Rate(0, 15, 74.9),
}


def estimated(plans: Mapping[str, Plan], core: Cpu) -> dict[str, int]:
    """Function -> about how many instructions it takes."""
    rates = DSP if core.dsp else PLAIN
    return {verb: round(instructions(work_of(plan), rates)) for verb, plan in plans.items()}


def instructions(works: Iterable[Work], rates: Mapping[str, Rate]) -> float:
    return sum(_instructions(work, rates) for work in works)


def _instructions(work: Work, rates: Mapping[str, Rate]) -> float:
    rate = rates.get(kind_of(work.kernel), rates[OTHER])
    per_result = rate.result + work.litert * rate.litert
    return work.macs * (rate.mac + work.level * rate.tight) + work.results * per_result + work.calls * rate.call


def kind_of(kernel: str) -> str:
    """`conv2d_pairs_dx_s16b` is a `conv2d_dx`. Rates are fitted to counts of kernels, of which an op has several."""
    name = next((n for n in (*FAMILIES, *KINDS) if kernel.startswith(n)), OTHER)  # op by name: a rate is a kernel's
    role = next((r for r in ("_dw", "_dx") if f"{r}_" in kernel), "")  # op by name: the same
    return name + role if name in FAMILIES else name


def work_of(plan: Plan) -> Iterator[Work]:
    """The calls of a plan, including those inside loops."""
    for node, call in zip(plan.graph.nodes, plan.calls):
        if not isinstance(call, Loop):
            yield _work(call.function, node)
        yield from _in_stripes(call) if isinstance(call, Loop) else ()
        yield from _in_passes(call) if isinstance(call, Loop) else ()


def _work(kernel: str, node: Node, share: float = 1.0) -> Work:
    """A call that makes this share of a node's result."""
    litert = node.attrs.get("rounding") == "litert"
    return Work(node.name, kernel, macs(node) * share, _results(node) * share, 1, level_of(node), litert)


def _in_stripes(loop: Loop) -> Iterator[Work]:
    for stripe in loop.stripes:
        for node, turn in zip(loop.nodes, stripe):
            if turn.window:
                yield _work(turn.window.call.function, node, turn.window.made.count / node.output.shape[1])


def _in_passes(loop: Loop) -> Iterator[Work]:
    """Every pass that computes a node computes all of it, part by part; copies come beside that."""
    named, parts = {node.name: node for node in loop.nodes}, {room.value.name for room in loop.rooms}
    for each in loop.passes:
        for step in each.steps:
            node = named.get(step.layer)
            whole = macs(node) if node and kind_of(step.call.function) != OTHER else 0
            results = sum(prod(v.shape) * (each.count if v.name in parts else 1) for v in step.writes)
            yield Work(step.layer, step.call.function, whole, results, each.count)


def _results(node: Node) -> int:
    return sum(prod(v.shape) for v in node.outputs)
