"""Low-rank updates: y = W x + b + B (A x), where W stays frozen. Which layers can have them, and of which rank.

A has `rank` rows of inputs, B has `rank` columns of outputs. Only layers that are one product per position can be
written so, in float: linear ones and convolutions with a kernel of one. An int8 layer rounds its sum at its end: what
is added behind that is not what a changed weight would give. training/low_rank.py builds the graph.
"""

from __future__ import annotations

import re
from collections import Counter

from insitu.errors import SchemeError
from insitu.ops.conv import conv1d, conv2d, conv2d_s8
from insitu.ops.linear import linear, linear_s8
from insitu.schemes.layers import Layer
from insitu.schemes.update import Update
from insitu.terminal.wording import layer_words, option

KIND = "lora"
PRODUCTS = {linear, linear_s8, conv1d, conv2d, conv2d_s8}


def with_factors(text: str, layers: list[Layer]) -> list[Update]:
    """What `lora:R` or `lora:R:last:N` trains: every layer that can have factors smaller than its weight."""
    found = re.fullmatch(KIND + r":([1-9][0-9]{0,5})(?::last:([1-9][0-9]{0,5}))?", text)
    if found is None:
        what = "the rank is missing" if text == KIND else "is not a rank"
        raise SchemeError(what, where=text, hint=f"{KIND}:4   or   {KIND}:4:last:6")
    rank, readers = int(found[1]), Counter(layer.weight.name for layer in layers)
    wide = [layer for layer in layers if is_product(layer) and smaller(layer, rank) and readers[layer.weight.name] == 1]
    if not wide:
        what = f"no layer before the head is a linear layer or a 1x1 convolution wide enough for rank {rank}"
        raise SchemeError(what, where=text, hint=option(scheme="head" if not layers else "last:1"))
    count = int(found[2] or len(wide))
    if count > len(wide):
        what = f"the model has {len(wide)} layers before its head that can have factors of rank {rank}"
        raise SchemeError(what, where=text, hint=option(scheme=f"{KIND}:{rank}"))
    for layer in wide[-count:]:
        check_float(layer, text)
    return [Update(layer.name, False, rank=rank) for layer in wide[-count:]]


def is_product(layer: Layer) -> bool:
    """Is it one matrix product at each position?"""
    attrs, kernel = layer.node.attrs, layer.weight.shape[1:-1]
    plain = attrs.get("groups", 1) == 1 and not any(attrs.get("padding", ()))
    return layer.node.op in PRODUCTS and plain and all(side == 1 for side in kernel)


def smaller(layer: Layer, rank: int) -> bool:
    """Are the factors smaller than the weight?"""
    outputs, inputs = layer.weight.shape[0], layer.weight.shape[-1]
    return rank * (outputs + inputs) < outputs * inputs


def check_rank(u: Update, layer: Layer, where: str) -> None:
    """A line of a scheme: can this layer have such factors?"""
    if u.share or u.channels:
        raise SchemeError("is trained by a weight or by factors of a rank, not both", where=where, hint="rank 4")
    if not is_product(layer):
        what = f"a low-rank update needs a linear layer or a 1x1 convolution, not this {layer.node.op.name}"
        raise SchemeError(what, where=where, hint="weight 1/4")
    if not smaller(layer, u.rank):
        outputs, inputs = layer.weight.shape[0], layer.weight.shape[-1]
        what = f"factors of rank {u.rank} are no smaller than the weight, {outputs} x {inputs}"
        raise SchemeError(what, where=where, hint="a lower rank, or weight 1")
    check_float(layer, where)


def check_float(layer: Layer, where: str) -> None:
    """An error if the layer is int8."""
    if layer.weight.dtype != "f32":
        what = f"a low-rank update needs a float layer, and {layer_words(layer.name)} is int8"
        hint = f"{option(precision='float')}   or   {option(scheme='last:2')}"
        raise SchemeError(what, where=where, hint=hint)
