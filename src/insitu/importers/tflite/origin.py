"""What a .tflite file that insitu wrote says of itself: how its results are rounded, and what its pixels mean.

The exporter writes JSON under the name `insitu` (exporters/litert/metadata.py). Any other file rounds as LiteRT
does. What is damaged or strange in it counts as absent: the operators are the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from insitu.importers.tflite.schema import Model

NAME = "insitu"
MOST = 1 << 16  # bytes
ROUNDINGS = ("single", "litert")


@dataclass(frozen=True)
class Origin:
    """`ours` is False for files of other tools."""

    ours: bool = False
    rounding: str = "litert"
    pixels: Mapping[str, tuple[list[float], list[float], int]] = field(default_factory=dict)  # name -> mean, std, axis


def origin_of(model: Model) -> Origin:
    at = model.metadata.get(NAME, -1)
    data = model.buffers[at] if 0 <= at < len(model.buffers) else None
    if data is None or data.size > MOST:
        return Origin()
    try:
        found = json.loads(data.tobytes())
        pixels = {str(k): _pixels(*v) for k, v in found.get("pixels", {}).items()}
        rounding = found.get("rounding", "litert")
    except (ValueError, TypeError, AttributeError, RecursionError):
        return Origin()
    return Origin(True, rounding if rounding in ROUNDINGS else "litert", pixels)


def _pixels(mean, std, axis) -> tuple[list[float], list[float], int]:
    return [float(m) for m in mean], [float(s) for s in std], int(axis)
