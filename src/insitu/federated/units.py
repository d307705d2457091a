"""What a training program learns, in real units: the same numbers whatever arithmetic a device has.

A weight and its residual byte are one 16-bit number, w * 256 + r, in steps of scale / 256; averaging the int8 weights
alone would lose what is below one step. A bias is an int32 in steps of its own scale, a float is a float. A weight that
is trained in part is listed under the name of the whole weight, with its channels: devices with other schemes then
meet in the same tensor. Nothing here is sent (delta.py) or averaged (rounds.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from insitu.errors import DataError, GraphError
from insitu.graph import Graph, Value
from insitu.learner.rates import real, trained_values
from insitu.ops.channels import merge_channels

PART = ".trained"  # the suffix of a weight of which only some channels are trained
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Unit:
    """One trained parameter: `name` in the whole network, `value` in the state, and its channels if it is a part."""

    name: str
    value: Value
    shape: tuple[int, ...]  # of the whole parameter
    channels: tuple[int, ...] = ()  # of the last axis; empty: all

    @property
    def size(self) -> int:
        return self.value.type.size

    def part(self, whole: np.ndarray) -> np.ndarray:
        """What this device trains of a whole parameter."""
        return whole[..., list(self.channels)] if self.channels else whole

    def put(self, whole: np.ndarray, part: np.ndarray) -> None:
        """Write this device's part into a whole parameter."""
        if self.channels:
            whole[..., list(self.channels)] = part
        else:
            whole[...] = part


def units_of(graphs: Mapping[str, Graph]) -> tuple[Unit, ...]:
    """The units of a training program, in order of their names."""
    values = {v.name: v for v in trained_values(graphs)}
    merges = {n.inputs[0].name: n for g in graphs.values() for n in g.nodes if n.op is merge_channels}
    found = [_unit(v, merges.get(name)) for name, v in values.items()]
    if not found:
        raise GraphError("this program trains nothing, so there is nothing to exchange")
    return tuple(sorted(found, key=lambda unit: unit.name))


def _unit(value: Value, merge) -> Unit:
    if merge is None:
        return Unit(value.name, value, value.shape)
    channels = tuple(merge.attrs["channels"])
    return Unit(value.name.removesuffix(PART), value, merge.output.shape, channels)


def identity(units: Iterable[Unit]) -> int:
    """A number that two devices share if and only if they train the same parts of the same parameters."""
    words = "".join(f"{u.name}:{u.shape}{u.channels};" for u in units)
    return crc32(words.encode())


def to_real(units: Iterable[Unit], state: Mapping[str, np.ndarray]) -> Arrays:
    """name -> what was learned in real units, float32; parts stay parts."""
    return {u.name: real(state, u.value).astype(np.float32) for u in units}


def from_real(units: Iterable[Unit], arrays: Mapping[str, np.ndarray], state: Mapping[str, np.ndarray]) -> Arrays:
    """The persistent values of a program that stand for these arrays; `state` says what is stored beside a weight."""
    found: Arrays = {}
    for u in units:
        array = np.asarray(arrays[u.name], np.float64)
        if array.shape != u.value.shape or not np.isfinite(array).all():
            raise DataError(f"is {array.shape} or not finite, the program has {u.value.shape}", where=u.name)
        found |= _stored(u.value, array, state)
    return found


def _stored(v: Value, array: np.ndarray, state: Mapping[str, np.ndarray]) -> Arrays:
    if v.type.quant is None:
        return {v.name: array.astype(v.type.numpy)}
    steps = array / v.type.quant.scales(v.type.rank)
    if v.dtype == "s32":
        return {v.name: np.clip(np.rint(steps), -(2**31), 2**31 - 1).astype(np.int32)}
    if f"{v.name}.master" in state:
        return {v.name: _int8(np.rint(steps)), f"{v.name}.master": steps.astype(np.float32)}
    kept = state.get(f"{v.name}.residual")
    if kept is None or kept.shape != v.shape:  # no whole byte beside it: what is below a step is not kept
        return {v.name: _int8(np.rint(steps))}
    return dict(zip((v.name, f"{v.name}.residual"), halves(fixed(steps))))


def _int8(steps: np.ndarray) -> np.ndarray:
    return np.clip(steps, -127, 127).astype(np.int8)


def fixed(steps: np.ndarray) -> np.ndarray:
    """Steps of a weight as 16-bit fixed point, within what weight and residual can hold."""
    return np.clip(np.rint(steps * 256), -127 * 256 - 128, 127 * 256 + 127).astype(np.int32)


def halves(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weight and residual byte of 16-bit numbers: the residual is within half a step."""
    weight = np.clip((numbers + 128) >> 8, -127, 127)
    return weight.astype(np.int8), np.clip(numbers - (weight << 8), -128, 127).astype(np.int8)
