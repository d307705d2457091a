"""About how many bytes of SRAM the parts of a scheme take: quick enough for a search, never decisive.

State is exact: an int8 weight keeps a residual byte, a bias is four bytes. A step also holds, from the first trained
layer on, one bit per output where a layer clamps, and the input of every layer whose weight is trained. The planner's
arena decides in the end (whoever searches is handed a function that asks it).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from insitu.schemes.layers import Layer
from insitu.schemes.update import Scheme, Update

RESIDUAL = {"residual": 2.0, "residual4": 1.5, "stochastic": 1.0, "nearest": 1.0, "master": 5.0}  # bytes of a weight
MOMENTS = {"sgd": 1, "momentum": 2, "adam": 3}  # copies of a float parameter


@dataclass(frozen=True)
class Bytes:
    """What a weight and a bias take in the state, by their arithmetic."""

    int8: float = 2.0
    float: int = 4

    def weight(self, layer: Layer, share: Fraction = Fraction(1)) -> int:
        each = self.int8 if layer.weight.dtype == "s8" else self.float
        return round(each * kept(layer, share) * prod(layer.weight.shape[:-1]))

    def factors(self, layer: Layer, rank: int) -> int:
        """Of a low-rank update."""
        return self.float * rank * (layer.weight.shape[0] + layer.weight.shape[-1])

    def bias(self, layer: Layer) -> int:
        if layer.bias is None:
            return 0
        return layer.bias.type.size * (4 if layer.bias.dtype == "s32" else self.float)


def bytes_of(recipe) -> Bytes:
    """The bytes of parameters that this recipe trains."""
    return Bytes(RESIDUAL[recipe.arithmetic], 4 * MOMENTS[recipe.optimizer])


def kept(layer: Layer, share: Fraction) -> int:
    """How many input channels a share of a weight is; a layer that cannot be divided is trained whole."""
    total = layer.weight.shape[-1]
    return max(1, round(total * share)) if share < 1 and layer.channels else total


def state_bytes(scheme: Scheme, layers: Iterable[Layer], each: Bytes) -> int:
    """The state of a scheme without that of the head."""
    known = {layer.name: layer for layer in layers}
    return sum(_state(known[u.layer], u, each) for u in scheme.updates)


def _state(layer: Layer, u: Update, each: Bytes) -> int:
    count = len(u.channels)
    weight = each.weight(layer, Fraction(count, layer.weight.shape[-1]) if count else u.share)
    return (each.bias(layer) if u.bias else 0) + (weight if u.share or count else 0) + each.factors(layer, u.rank)


def input_bytes(layer: Layer, share: Fraction = Fraction(1)) -> int:
    """The input that a step keeps to compute a share of a weight's gradient."""
    x = layer.node.inputs[0].type
    return x.bytes * kept(layer, share) // max(1, layer.weight.shape[-1])


def mask_bytes(layer: Layer) -> int:
    """One bit per output."""
    return -(-layer.node.output.type.size // 8)


def mask_sums(layers: list[Layer]) -> Mapping[str, int]:
    """Layer -> the bytes of masks if it is the first that is trained."""
    found, total = {}, 0
    for layer in reversed(layers):
        total += mask_bytes(layer)
        found[layer.name] = total
    return found
