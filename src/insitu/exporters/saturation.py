"""The float network of an int8 learner beside it: how far off its outputs are, and which layer's saturation is why.

A learner that was trained in int8 may rely on the end of int8's range as on an activation: a larger value ends there.
In float it goes on. Nothing here writes a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from insitu.exporters.compared import distance
from insitu.exporters.real import TWINS, real_graph
from insitu.exporters.samples import compared
from insitu.graph import Graph, Node, evaluate
from insitu.ops._functions import real
from insitu.quantizer.columns import usual
from insitu.quantizer.fold import is_int8
from insitu.terminal.wording import either

SMALL = np.float32(0.25)  # of the input's range: near its ends int8 values saturate, which the module's do not
SHARE = 0.01  # of a layer's values that saturate, from which it is a reason


def samples_of(graph: Graph, data=None) -> list[tuple[np.ndarray, ...]]:
    """Given samples, or drawn ones far from the ends of the inputs' ranges."""
    found = compared(graph, data)
    return found if data is not None else [tuple(_small(graph, x) for x in sample) for sample in found]


def _small(graph: Graph, x: np.ndarray) -> np.ndarray:
    return usual(graph, SMALL * x) if x.dtype == np.float32 else x


def unsaturated_distance(graph: Graph, data=None) -> float:
    """How far the outputs of this int8 graph's weights, in a network that does not saturate, are from its own."""
    return float_distance(graph, real_graph(graph, saturated=False), data)


def float_distance(graph: Graph, free: Graph, data=None) -> float:
    """How far the outputs of this float network are from those of the int8 graph that it stands for."""
    each = [(_outputs(free, x), _reals(graph, x)) for x in samples_of(graph, data)]
    return max(max(map(distance, got, want)) for got, want in each)


def _reals(graph: Graph, inputs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return tuple(real(y, v.type) for v, y in zip(graph.outputs, _outputs(graph, inputs)))


def _outputs(graph: Graph, inputs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    found = evaluate(graph, *inputs)
    return tuple(found) if isinstance(found, tuple) else (np.asarray(found),)


def saturating(graph: Graph, data=None) -> tuple[str, float] | None:
    """The layer of an int8 graph with the largest share of saturated values, and this share; None if none has many."""
    samples = samples_of(graph, data)
    shares = {node.name: _share(graph, node, samples) for node in _layers(graph)}
    worst = max(shares, key=lambda name: shares[name], default=None)
    if worst is None or shares[worst] < SHARE:
        return None
    return worst.removesuffix(".conv2d"), shares[worst]


def _layers(graph: Graph) -> Iterator[Node]:
    return (n for n in graph.nodes if n.op in TWINS and n.output.dtype == "s8" and n.attrs.get("hi", 127) == 127)


def _share(graph: Graph, node: Node, samples: list[tuple[np.ndarray, ...]]) -> float:
    """Of a layer's values that are at an end of int8: the upper one, or the lower one if zero is not there."""
    part = replace(graph, outputs=(node.output,))
    found = np.concatenate([_outputs(part, x)[0].reshape(-1) for x in samples])
    low = node.attrs.get("lo", -128) == -128 and node.output.type.zero != -128
    return float(((found == 127) | (low & (found == -128))).mean())


def reason(found: tuple[str, float] | None) -> str:
    """Why a module computes something else, in words; empty if saturation is not why."""
    return (
        f': {found[1]:.0%} of the values of layer "{found[0]}" saturate in int8, which weights cannot say'
        if found
        else ""
    )


def way_out(graph: Graph) -> str:
    """What writes what a state dict cannot hold."""
    whole = either(
        shell="-o FILE.onnx or FILE.tflite has the whole network",
        python='learner.export("net.onnx") writes the network itself',
    )
    unlimited = either(
        shell="insitu train MODEL --precision float learns without int8's limits",
        python='compile(..., precision="float") learns without int8\'s limits',
    )
    return f"{whole}; {unlimited}" if is_int8(graph) else whole
