"""Small float graphs for the tests of the quantizer, with random but fixed weights."""

from __future__ import annotations

from typing import Any

import numpy as np

import insitu.ops  # noqa: F401
from insitu.graph import Graph, Type, Value, build, evaluate, lookup

SHAPE = (1, 6, 5, 4)


class Net:
    """Builds a graph op by op: `net.op("conv2d", x, net.const("w", (8, 3, 3, 4)), padding=(1, 1, 1, 1))`."""

    def __init__(self, seed: int = 0, dtype: str = "f32"):
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        self._build = build("net")
        self.b = self._build.__enter__()

    def input(self, *shape: int, name: str = "x") -> Value:
        return self.b.input(name, Type(self.dtype, shape))

    def array(self, name: str, array) -> Value:
        return self.b.constant(name, np.asarray(array, Type(self.dtype).numpy))

    def const(self, name: str, shape, low: float = -1.0, high: float = 1.0) -> Value:
        fan = max(1, int(np.prod(shape[1:])))
        scale = fan**-0.5 if low < 0 and len(shape) > 1 else 1.0
        return self.array(name, self.rng.uniform(low, high, shape) * scale)

    def op(self, op: str, *inputs, **attrs):
        return lookup(op)(*inputs, **attrs)

    def conv(self, x: Value, o: int, kernel: int = 3, name: str = "conv", bias: bool = True, **attrs) -> Value:
        w = self.const(f"{name}.weight", (o, kernel, kernel, x.shape[-1] // attrs.get("groups", 1)))
        b = (self.const(f"{name}.bias", (o,)),) if bias else ()
        return self.op("conv2d", x, w, *b, name=name, **{"padding": (kernel // 2,) * 4, **attrs})

    def depthwise(self, x: Value, name: str = "depthwise", m: int = 1, **attrs) -> Value:
        c = x.shape[-1]
        w = self.array(f"{name}.weight", self.rng.uniform(-0.4, 0.4, (3, 3, c * m)))
        return self.op("depthwise2d", x, w, self.const(f"{name}.bias", (c * m,)), name=name, **attrs)

    def linear(self, x: Value, o: int, name: str = "linear") -> Value:
        w = self.const(f"{name}.weight", (o, x.shape[-1]))
        return self.op("linear", x, w, self.const(f"{name}.bias", (o,)), name=name)

    def batch_norm(self, x: Value, name: str = "bn", axis: int = -1) -> Value:
        c = x.shape[axis]
        low = {"scale": 0.5, "bias": -0.5, "mean": -0.5, "var": 0.3}
        parameters = [self.const(f"{name}.{k}", (c,), v, 1.5) for k, v in low.items()]
        return self.op("batch_norm", x, *parameters, name=name, axis=axis)

    def graph(self, *outputs: Value) -> Graph:
        self._build.__exit__(None, None, None)
        return self.b.graph(*outputs)


def samples(graph: Graph, count: int = 64, seed: int = 1) -> list:
    """Normal random inputs: arrays, or tuples of them if the graph has several inputs."""
    rng = np.random.default_rng(seed)

    def draw():
        return [rng.normal(size=v.shape).astype(np.float32) for v in graph.inputs]

    return [tuple(draw()) if len(graph.inputs) > 1 else draw()[0] for _ in range(count)]


def run(graph: Graph, data, precision: Any = np.float32) -> np.ndarray:
    """The output for each sample."""
    inputs = [x if isinstance(x, tuple) else (x,) for x in data]
    return np.stack([np.asarray(evaluate(graph, *x, precision=precision)) for x in inputs])


def values(graph: Graph, x) -> dict[str, np.ndarray]:
    """Every value of the graph by name."""
    found: Any = evaluate(graph, x, keep=True)
    return found


def ops(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes]


def sqnr(wanted: np.ndarray, found: np.ndarray) -> float:
    """Signal to quantisation noise in dB."""
    return float(10 * np.log10(np.mean(wanted**2) / np.mean((wanted - found) ** 2)))
