"""What a page must know of a program beside its code: types, names, where parameters are in a saved state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.codegen import Program
from insitu.codegen.device import device_arena_bytes, program_crc
from insitu.codegen.state import HEADER_BYTES, StateLayout
from insitu.data.camera import RGB
from insitu.data.images import layout
from insitu.data.source import source_of
from insitu.devices.device import method_of
from insitu.errors import DataError
from insitu.exporters.chances import left_out
from insitu.exporters.features import sample_rate
from insitu.graph import Graph, Value
from insitu.graph.classes import word
from insitu.learner.few import least_gain
from insitu.learner.rates import parameters_of
from insitu.terminal.wording import option
from insitu.training.head import HEAD, in_use
from insitu.training.train import BODY_RATE

if TYPE_CHECKING:
    from insitu.learner import Learner

LEAST = 8  # pixels of a photo's shorter side
MEMORY = ("momentum", "sum")  # kept beside a parameter, of earlier steps


def about(learner: Learner, program: Program) -> dict[str, Any]:
    """As JSON."""
    graph, recipe, state = learner.graphs["predict"], learner.recipe, program.state
    end = left_out(learner)
    return {
        "name": graph.name, "program": program_crc(program),
        "loss": recipe.loss, "optimizer": recipe.optimizer, "smoothing": recipe.smoothing,
        "momentum": recipe.momentum if recipe.optimizer == "momentum" else 0,
        "ends": end.name if end else "", "classes": _classes(learner), "unused": _unused(learner),
        "photo": _photo(graph), "rate": sample_rate(graph), "columns": list(graph.columns),
        "arena": device_arena_bytes(program), "saved": HEADER_BYTES + state.bytes if state else 0,
        "method": _method(learner), "verbs": _verbs(program),
        "parameters": _parameters(state) if state else [], "cleared": _cleared(state) if state else [],
        "bodyRate": _place(state, BODY_RATE) if state else None,
        "head": bool(state) and any(v.name.startswith(f"{HEAD}.") for v in parameters_of(state.fields)),
        "least": least_gain(learner), "rests": bool(learner.parts and learner.parts.scheme.rests),
    }  # fmt: skip


def _classes(learner: Learner) -> list[str]:
    if learner.recipe.loss != "cross_entropy":
        return [name for name in learner.names if name]
    return [word(learner.names, k) for k in range(learner.classes)]


def _unused(learner: Learner) -> list[int]:
    """Rows of the head that are kept for later classes."""
    state = learner.device.state() if learner.opened else learner.graphs["predict"].state
    bias = state.get(f"{HEAD}.bias")
    if bias is None or bias.dtype != np.float32 or learner.recipe.loss != "cross_entropy":
        return []
    return [int(k) for k in np.flatnonzero(~in_use(bias[None])[0])]


def _photo(graph: Graph) -> dict[str, Any] | None:
    """How pictures become a sample, if the model takes pictures."""
    source = source_of(graph)
    try:
        height, width, channels, first = layout(graph.inputs[0])
    except DataError:
        return None
    sure = channels == 3 or graph.pixels is not None or graph.inputs[0].dtype == "u8"  # else, it may be a spectrogram
    if len(graph.inputs) > 1 or source.camera != RGB or not sure or min(height, width) < LEAST:
        return None
    return {"height": height, "width": width, "channels": channels, "first": first, "range": list(source.pixels)}


def _method(learner: Learner) -> str:
    """The verb that learns from one sample."""
    if not {"train_step", "accumulate"} & set(learner.graphs):
        return ""
    method = method_of({verb: (g.inputs, g.outputs) for verb, g in learner.graphs.items()})
    if method.samples != 1:
        what = f"this program takes {method.samples} samples at once, and a page learns from one at a time"
        raise DataError(what, hint=f"compile with {option(batch=1)}: its statistics are then frozen")
    return method.verb


def _verbs(program: Program) -> dict[str, Any]:
    return {
        verb: {"number": number, "inputs": [_value(v) for v in plan.graph.inputs],
               "outputs": [_value(v) for v in plan.graph.outputs]}
        for number, (verb, plan) in enumerate(program.plans.items())
    }  # fmt: skip


def _value(v: Value) -> dict[str, Any]:
    quant = v.type.quant
    real = {} if quant is None or v.dtype == "f32" else {"scale": quant.scale[0], "zero": quant.zero}
    return {"name": v.name, "dtype": v.dtype, "shape": list(v.shape), **real}


def _parameters(state: StateLayout) -> list[dict[str, Any]]:
    return [_parameter(state, v) for v in parameters_of(state.fields)]


def _parameter(state: StateLayout, v: Value) -> dict[str, Any]:
    """Where a trained parameter is in a saved state, and its unit: element i has scales[i // inner % len(scales)]."""
    quant = v.type.quant
    inner = 1 if quant is None or quant.axis is None else int(np.prod(v.shape[quant.axis + 1 :]))
    fields = {field.name: field for field in state.fields}
    rest = fields.get(f"{v.name}.residual")
    rest = rest if rest is not None and rest.shape == v.shape else None
    return {
        "at": _place(state, v.name), "dtype": v.dtype, "size": v.type.size, "head": v.name.startswith(f"{HEAD}."),
        "scales": list(quant.scale) if quant else [1], "inner": inner,
        "residual": _place(state, rest.name) if rest else None, "restKind": rest.dtype if rest else None,
        "master": _place(state, f"{v.name}.master"), "sum": _place(state, f"{v.name}.sum"),
    }  # fmt: skip


def _cleared(state: StateLayout) -> list[list[int]]:
    """Places and bytes of memory of earlier steps."""
    names = {f"{v.name}.{word}" for v in parameters_of(state.fields) for word in MEMORY}
    offsets = state.offsets()
    return [[HEADER_BYTES + offsets[v.name], v.type.bytes] for v in state.fields if v.name in names]


def _place(state: StateLayout, name: str) -> int | None:
    """The first byte of a field in a saved state."""
    at = state.offsets().get(name)
    return None if at is None else HEADER_BYTES + at
