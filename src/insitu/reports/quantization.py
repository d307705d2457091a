"""A report on a quantised model, layer by layer: types, scales, noise, bytes, what stayed float. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from insitu.graph import Graph, Node
from insitu.quantizer import fallbacks
from insitu.reports.outputs import real
from insitu.terminal.table import pairs, size, table

Run = Callable[..., Mapping[str, np.ndarray]]  # inputs -> every value by name


@dataclass(frozen=True)
class Layer:
    name: str
    op: str
    before: str  # type in the float graph
    after: str  # type in the int8 graph
    scale: float | None
    sqnr_db: float | None  # signal to quantisation noise, compared with the float graph
    fallback: bool = False  # runs in float, between dequantize and quantize


@dataclass(frozen=True)
class Quantization:
    model: str
    layers: tuple[Layer, ...]
    before_bytes: int  # of constants
    after_bytes: int
    samples: int
    agreement: float | None  # share of samples with the same top-1 class; None if there are no classes
    notes: tuple[str, ...] = ()
    output: str = ""  # where it was written

    @property
    def fallbacks(self) -> tuple[str, ...]:
        return tuple(f"{layer.name} ({layer.op})" for layer in self.layers if layer.fallback)

    def to_json(self) -> dict:
        return {**asdict(self), "fallbacks": self.fallbacks}

    def to_text(self) -> str:
        rows = [(x.name, x.op, x.before, x.after, x.scale, _decibels(x.sqnr_db)) for x in self.layers]
        layers = table(("layer", "op", "float", "int8", "scale", "SQNR dB"), rows)
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([layers, "", *notes, pairs(self._facts())])

    def _facts(self) -> list[tuple[str, object]]:
        agreement = "-" if self.agreement is None else f"{100 * self.agreement:.2f} % of {self.samples:,} samples"
        share = self.before_bytes / max(self.after_bytes, 1)
        return [
            ("weights", f"{size(self.before_bytes)} -> {size(self.after_bytes)} ({share:.1f} times smaller)"),
            ("same top-1 as float", agreement),
            ("runs in float", ", ".join(self.fallbacks) or "nothing"),
            *([("written to", self.output)] if self.output else []),
        ]


def compare(
    before: Graph, after: Graph, run_before: Run, run_after: Run, inputs: tuple[np.ndarray, ...]
) -> Quantization:
    """Run both graphs on the samples and compare the values that have the same name."""
    noise = Noise(after, {v.name: stands_for(before, after, v.name) for n in after.nodes for v in n.outputs})
    matches, scored = 0, _is_scores(before)
    samples = len(inputs[0])
    for i in range(samples):
        a = run_before(*(x[i : i + 1] for x in inputs))
        b = run_after(*(x[i : i + 1] for x in inputs))
        noise.add(a, b)
        matches += scored and _top(before, a) == _top(after, b)
    floats = fallbacks(after)
    layers = tuple(_layer(before, node, noise, node in floats) for node in after.nodes)
    agreement = matches / samples if scored else None
    sizes = const_bytes(before), const_bytes(after)
    return Quantization(after.name, layers, *sizes, samples, agreement, after.notes)


class Noise:
    """Energy of each value, and of its difference from float, summed over samples."""

    def __init__(self, graph: Graph, reference: Mapping[str, str | None]):
        self.graph, self.reference = graph, reference
        self.signal: dict[str, float] = {}
        self.error: dict[str, float] = {}

    def add(self, reference: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> None:
        for name, source in self.reference.items():
            if source is None:
                continue
            want = reference[source].astype(np.float64)
            got = real(self.graph.values[name], found[name])
            self.signal[name] = self.signal.get(name, 0.0) + float(np.square(want).sum())
            self.error[name] = self.error.get(name, 0.0) + float(np.square(want - got).sum())

    def sqnr(self, name: str) -> float | None:
        """10 log10(signal / noise); None if there is nothing to compare, inf if both are equal."""
        if name not in self.signal or self.signal[name] == 0:
            return None
        return float("inf") if self.error[name] == 0 else 10 * float(np.log10(self.signal[name] / self.error[name]))


def stands_for(before: Graph, after: Graph, name: str) -> str | None:
    """The float value that the int8 value of this name approximates: after the activations fused into its op."""
    if name not in before.producer:
        return None
    while True:
        users = before.users.get(name, ())
        follows = len(users) == 1 and users[0].name not in after.values and _unary(before, users[0])
        if not follows:
            return name
        name = users[0].name


def _unary(graph: Graph, node: Node) -> bool:
    fed = [v for v in node.inputs if v.name not in graph.constants]
    return len(fed) == 1 and fed[0].shape == node.output.shape and len(node.outputs) == 1


def const_bytes(graph: Graph) -> int:
    """Bytes of the constants that nodes read, each counted once."""
    used = {v.name for node in graph.nodes for v in node.inputs}
    return sum(array.nbytes for name, array in graph.constants.items() if name in used)


def _layer(before: Graph, node: Node, noise: Noise, fallback: bool) -> Layer:
    value = node.output
    old = before.values.get(value.name)
    q = value.type.quant
    scale = q.scale[0] if q and not q.per_channel else None
    return Layer(
        node.name,
        node.op.name,
        str(old.type) if old else "",
        str(value.type.with_dtype(value.dtype)),
        scale,
        noise.sqnr(value.name),
        fallback,
    )


def _decibels(x: float | None) -> str:
    return "-" if x is None else "exact" if x == float("inf") else f"{x:.1f}"


def _is_scores(graph: Graph) -> bool:
    shape = graph.outputs[0].shape
    return len(shape) == 2 and shape[1] > 1


def _top(graph: Graph, values: Mapping[str, np.ndarray]) -> int:
    return int(np.argmax(values[graph.outputs[0].name]))
