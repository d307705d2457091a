"""Are the calibration samples typical? Words about those that give an int8 network a scale which fits no others.

Nothing here changes a range: quantizer/ finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from insitu.graph import Graph, Type, Value
from insitu.ops.quant import quantize
from insitu.terminal.colour import say
from insitu.terminal.warned import warn
from insitu.terminal.wording import Caller

CONSTANT = "all calibration samples are the same: the int8 network will fit no others. Give typical inputs as data"
STEPS = 4  # of the 255 of an int8 input: if the usual samples have no more, little of them is left


def say_untypical(graph: Graph, inputs: Sequence[np.ndarray]) -> None:
    """Say so if the samples that this int8 graph was calibrated on are all the same, or if a few set its scale."""
    alike = all(len(x) > 1 and (x == x[:1]).all() for x in inputs)
    for words in [CONSTANT] if alike else filter(None, (far_off(*one) for one in _quantised(graph, inputs))):
        if Caller.is_shell:
            say(f"note: {words}")
        else:
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
    below, above = usual[0] - low, high - usual[1]
    worst = int(np.maximum(below, above).argmax())
    reached = low[worst] if below[worst] > above[worst] else high[worst]
    what = f"input {value.name}: sample {worst} has {reached:.6g}, and most lie within {usual[0]:.3g} to {usual[1]:.3g}"
    return f"{what}, which is {max(round(steps), 1)} of the 255 steps of int8. If it is wrong, leave it out or clip it"
