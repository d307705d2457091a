"""Are the samples that a model is compiled with typical? Words about those that are not.

They give an int8 network a scale which fits no others, or are in another unit than what the model was trained on.
Nothing here changes a range: quantizer/ finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from insitu.data.samples import like_pixels
from insitu.graph import Graph, Node, Type, Value, drop_unused, evaluate
from insitu.ops.norm import batch_norm
from insitu.ops.quant import quantize
from insitu.quantizer.untrained import is_untrained
from insitu.terminal.colour import say
from insitu.terminal.warned import warn
from insitu.terminal.wording import Caller

CONSTANT = "all calibration samples are the same: the int8 network will fit no others. Give typical inputs as data"
LOOKED_AT = 8  # samples
WIDE, NARROW = 6.0, 30.0  # times the usual deviation, and a part of it: frozen statistics make little of such numbers
STEPS = 4  # of the 255 of an int8 input: if the usual samples have no more, little of them is left


def say_untypical(graph: Graph, inputs: Sequence[np.ndarray]) -> None:
    """Say so if the samples that this int8 graph was calibrated on are all the same, or if a few set its scale."""
    alike = all(len(x) > 1 and (x == x[:1]).all() for x in inputs)
    for words in [CONSTANT] if alike else (far_off(*one) for one in _quantised(graph, inputs)):
        _tell(words)


def say_other_unit(graph: Graph, inputs: Sequence[np.ndarray]) -> None:
    """Say so if this float graph, whose statistics will be frozen, was trained on samples of another scale."""
    alike = all(len(x) > 1 and (x == x[:1]).all() for x in inputs)
    _tell("" if alike or is_untrained(graph) else other_unit(graph, inputs))


def _tell(words: str) -> None:
    if words and Caller.is_shell:
        say(f"note: {words}")
    elif words:
        warn(words)


def _quantised(graph: Graph, inputs: Sequence[np.ndarray]) -> Iterator[tuple[Value, Type, np.ndarray]]:
    """The float inputs that become int8 as they are, the type of that, and their samples."""
    for value, x in zip(graph.inputs, inputs):
        for node in graph.users.get(value.name, ()):
            if node.op is quantize and len(x):
                yield value, node.output.type, x


def far_off(value: Value, int8: Type, x: np.ndarray) -> str:
    """What to say if half of the samples lie within a few steps of this type, as others are so far away.

    Half: from the first quartile of the samples' lowest numbers to the third quartile of their highest ones.
    """
    rows = x.reshape(len(x), -1)
    low, high = rows.min(1), rows.max(1)
    usual = float(np.quantile(low, 0.25)), float(np.quantile(high, 0.75))
    steps = (usual[1] - usual[0]) / float(int8.scale)
    if not 0 < steps < STEPS:
        return ""
    left = f"{max(round(steps), 1)} of the 255 steps of int8"
    if float(high.max()) - float(low.min()) < STEPS * float(int8.scale):
        where = f"input {value.name}: all numbers lie within {low.min():.6g} to {high.max():.6g}"
        return f"{where}, far from 0, which leaves {left}. Subtract their mean, {x.mean():.6g}"
    below, above = usual[0] - low, high - usual[1]
    worst = int(np.maximum(below, above).argmax())
    reached = low[worst] if below[worst] > above[worst] else high[worst]
    what = f"input {value.name}: sample {worst} has {reached:.6g}, and most lie within {usual[0]:.3g} to {usual[1]:.3g}"
    return f"{what}, which is {left}. If it is wrong, leave it out or clip it"


def other_unit(graph: Graph, inputs: Sequence[np.ndarray]) -> str:
    """What to say if the first batch norm of this graph sees other numbers than those that it was trained on."""
    norm = next((n for n in graph.nodes if n.op is batch_norm), None)
    known = [graph.constants.get(v.name) for v in norm.inputs[3:]] if norm else []
    if norm is None or any(array is None for array in known):
        return ""
    mean, var = (np.asarray(array, np.float64) for array in known)
    if not mean.any() and (var == 1).all():  # as they are before any training
        return ""
    seen = np.moveaxis(_before(graph, norm, inputs), norm.attrs["axis"], -1).reshape(-1, len(mean))
    usual = np.sqrt(var + norm.attrs["epsilon"])
    wider, away = float(np.median(seen.std(0) / usual)), float(np.median(np.abs(seen.mean(0) - mean) / usual))
    if wider >= WIDE:
        how = f"spread {wider:,.0f} times as much"
    elif wider <= 1 / NARROW:
        how = f"spread {1 / max(wider, 1e-9):,.0f} times less"
    elif away >= WIDE:
        how = f"lie {away:,.0f} standard deviations away"
    else:
        return ""
    what = f"the model was trained on other numbers: those that its first batch norm ({norm.name}) sees {how}"
    pixels = like_pixels(float(inputs[0].min()), float(inputs[0].max())) if wider >= WIDE else ""
    return f"{what}; {pixels or 'give the samples in the unit, mean and scale of those that it was trained on'}"


def _before(graph: Graph, norm: Node, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """What a few of the samples give this node to normalise."""
    front = drop_unused(replace(graph, outputs=(norm.inputs[0],), classes=()))
    rows = np.unique(np.linspace(0, len(inputs[0]) - 1, LOOKED_AT).astype(int))
    return np.concatenate([np.asarray(evaluate(front, *(x[i : i + 1] for x in inputs)), np.float64) for i in rows])
