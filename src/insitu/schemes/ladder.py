"""What to train, from the structure of a network alone: nested rungs, from the head to everything. No data is needed.

A table of expected gains (contribution.py) says: convolutions and linear layers from the middle on count 1, pointwise
ones with fewer outputs than inputs less, depthwise ones nothing, and layers before the middle little. The nearer a bias
is to the end, the more it brings. Rungs follow the largest gain per byte; each contains the one before it. Layers
before the middle come last: they need the most memory, and what is frozen can be computed once and cached.

    ladder:0     the head alone
    ladder:7     then the last biases ...
    ladder:40    ... then biases and shares of weights, then whole weights, then layers before the middle
    full         all parameters, at the top

Nothing here asks the planner: deploy/auto.py finds the highest rung that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from insitu.ops.depthwise import depthwise2d, depthwise2d_s8
from insitu.schemes.contribution import SHARES, Contribution, Gain
from insitu.schemes.cost import Bytes, input_bytes, mask_bytes
from insitu.schemes.layers import Layer
from insitu.schemes.update import Scheme, Update

CONTRACTING, EARLY = 0.4, 0.25  # of the gain of a plain layer from the middle on
DEPTHWISE = (depthwise2d, depthwise2d_s8)
BIASES, WEIGHT = 6.0, 2.4  # points: of all biases together, and of one whole weight
BEND = 0.7  # the power of a share: 1/8 of a weight brings a quarter of what all of it brings
NOTHING = Fraction(0)


def ladder(layers: list[Layer]) -> Contribution:
    """The table of expected gains of these layers, in forward order."""
    middle, plain = len(layers) // 2, [kind(layer) for layer in layers]
    late = max(1, sum(bool(k) for k in plain[middle:]))
    gains, rank = {}, sum(bool(k) for k in plain)
    for i, (layer, factor) in enumerate(zip(layers, plain)):
        where = 1.0 if i >= middle else EARLY
        bias = where * BIASES * ((rank / late) ** 0.5 - ((rank - 1) / late) ** 0.5) if factor else 0.0
        gains[layer.name] = Gain(bias, _weight(layer, WEIGHT * where * factor))
        rank -= bool(factor)
    return Contribution("ladder", gains)


def kind(layer: Layer) -> float:
    """How much a layer's weight counts: not at all if each output sees one channel only."""
    shape = layer.weight.shape
    if layer.channels is None or layer.node.op in DEPTHWISE:
        return 0.0
    pointwise = all(side == 1 for side in shape[1:-1])
    return CONTRACTING if pointwise and shape[0] < shape[-1] else 1.0


def _weight(layer: Layer, whole: float) -> Mapping[Fraction, float]:
    """The first channels of a weight bring more than the last ones."""
    total = layer.channels
    if not whole or total is None:
        return {}
    return {share: whole * float(share) ** BEND for share in SHARES if share * total >= 1}


# rungs ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One more part of a layer: its bias, or a larger share of its weight."""

    layer: str
    share: Fraction = NOTHING  # 0: the bias

    def onto(self, u: Update) -> Update:
        return replace(u, share=self.share) if self.share else replace(u, bias=True)


def rungs(layers: list[Layer], table: Contribution | None = None, each: Bytes | None = None) -> list[Step]:
    """The steps of the ladder, best gain per byte first; the first rung is the head, before any step."""
    table, each = table or ladder(layers), each or Bytes()
    done: dict[str, Update] = {}
    first, steps = len(layers), []
    while (best := _best(layers, table, each, done, first)) is not None:
        at, step = best
        first = min(first, at)
        done[step.layer] = step.onto(done.get(step.layer, Update(step.layer, bias=False)))
        steps.append(step)
    if steps and scheme_of(layers, steps, "").updates == everything(layers):
        steps.pop()  # the top is `full`
    return [Step(""), *steps, *([Step("full")] if layers else [])]


def everything(layers: list[Layer]) -> tuple[Update, ...]:
    return tuple(Update(layer.name, True, Fraction(1)) for layer in layers)


def _best(layers: list[Layer], table: Contribution, each: Bytes, done: Mapping[str, Update], first: int):
    """The place of the layer and the step with the largest gain per byte; None if nothing is left."""
    found = [
        (i >= len(layers) // 2, gain / max(1, cost + _depth(layers, i, first)), i, step)
        for i, layer in enumerate(layers)
        for step, gain, cost in _next(layer, table.gains.get(layer.name, Gain()), each, done.get(layer.name))
        if gain > 0
    ]
    return max(found, key=lambda each: each[:3])[2:] if found else None


def _depth(layers: list[Layer], at: int, first: int) -> int:
    """The masks to keep if the first trained layer moves forward to this one."""
    return sum(mask_bytes(layer) for layer in layers[at:first])


def _next(layer: Layer, gain: Gain, each: Bytes, done: Update | None):
    """The steps that can come next in a layer: gain and bytes of each."""
    u = done or Update(layer.name, bias=False)
    if not u.bias and layer.bias is not None:
        yield Step(layer.name), gain.bias, each.bias(layer)
    larger = [share for share in sorted(gain.shares) if share > u.share]
    if larger:
        share, before = larger[0], gain.shares.get(u.share, 0.0)
        more = _bytes(each, layer, share) - (_bytes(each, layer, u.share) if u.share else 0)
        yield Step(layer.name, share), gain.shares[share] - before, more


def _bytes(each: Bytes, layer: Layer, share: Fraction) -> int:
    return each.weight(layer, share) + input_bytes(layer, share)


def climb(layers: list[Layer], number: int, steps: list[Step] | None = None, name: str = "") -> Scheme:
    """The scheme of a rung."""
    steps = steps or rungs(layers)
    if steps[number].layer == "full" and number == len(steps) - 1:
        return Scheme("full", everything(layers))
    return scheme_of(layers, steps[1 : number + 1], name or f"ladder:{number}") if number else Scheme("head", ())


def scheme_of(layers: list[Layer], steps: list[Step], name: str) -> Scheme:
    """The scheme that these steps make, in the order of the layers."""
    done: dict[str, Update] = {}
    for step in steps:
        done[step.layer] = step.onto(done.get(step.layer, Update(step.layer, bias=False)))
    return Scheme(name, tuple(done[layer.name] for layer in layers if layer.name in done))


def highest(count: int, fits: Callable[[int], bool]) -> int | None:
    """The largest number below `count` that fits, if smaller ones always do; None if not even 0 does. The top first."""
    if count > 1 and fits(count - 1):
        return count - 1
    if not fits(0):
        return None
    low, high = 0, max(count - 1, 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
