"""What a saved state or learner was made for, if it is not this program.

A learner's file says so itself. A state has no words, only a number that identifies its program, and its own length: a
board loads it as it is. So the layout is computed for other schemes of the same model, first for those whose state
could have this length.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from insitu.codegen.program import fingerprint, initial_state, state_fields
from insitu.codegen.state import HEADER_BYTES, MAGIC, StateLayout, layout
from insitu.errors import DataError, Error
from insitu.graph import Graph
from insitu.graph.file import is_learner
from insitu.schemes.layers import layers, leading
from insitu.schemes.low_rank import KIND as LOW_RANK
from insitu.schemes.scheme import read_scheme
from insitu.terminal.wording import either, option
from insitu.training.parts import Parts
from insitu.training.trainable import make_trainable

if TYPE_CHECKING:
    from insitu.learner.learner import Learner

SECONDS = 10.0  # to look for it
RANKS = (1, 2, 4, 8, 16, 32)  # of low-rank updates that are tried
MOST = 6  # bytes of state per byte of trained parameter: a float master copy, or both moments of Adam, beside it


def refusal(learner: Learner, data: bytes, refused: DataError, path: str | Path) -> DataError:
    """The error for a file whose state this learner cannot load."""
    if not is_learner(path):
        return foreign_state(learner.parts, data, refused, str(path))
    from insitu.learner.file import open_learner

    return foreign_learner(learner, open_learner(path), data, refused, str(path))


def foreign_learner(own: Learner, other: Learner, data: bytes, refused: DataError, path: str) -> DataError:
    """The error for the file of another learner: its model, or its options."""
    if not own.parts or not other.parts or _layers(own.parts.forward) != _layers(other.parts.forward):
        mine, found = (_words(learner.graphs["predict"]) for learner in (own, other))
        mine = mine if mine != found else "of the same name, with other layers or scales"
        what = f"holds a learner of another model: {found}; this learner's model is {mine}"
        how = either(shell=f"insitu train {path} --data FILE goes on with it", python=f'insitu.open("{path}") opens it')
        return DataError(what, where=path, hint=how)
    mine, found = _options(own.parts), _options(other.parts)
    unlike = [name for name in found if found[name] != mine[name]]
    if not unlike or unlike == ["scheme"]:
        return foreign_state(own.parts, data, refused, path)
    had, has = (", ".join(f"{name}={options[name]!r}" for name in unlike) for options in (found, mine))
    return DataError(f"was saved with {had}, but this learner has {has}", where=path, hint="compile with the same")


def _layers(graph: Graph) -> list[tuple[str, str]]:
    return [(v.name, str(v.type)) for v in (*graph.inputs, *(node.output for node in graph.nodes))]


def _words(graph: Graph) -> str:
    """net (f32[1x8] to f32[1x3])"""
    took, gives = (", ".join(str(v.type) for v in values) for values in (graph.inputs, graph.outputs))
    return f"{graph.name} ({took} to {gives})"


def _options(parts: Parts) -> dict[str, object]:
    return {"scheme": parts.scheme.name, "batch": parts.batch, **asdict(parts.recipe)}


def foreign_state(parts: Parts | None, data: bytes, refused: DataError, path: str) -> DataError:
    """The error for a state that does not fit, naming what it was saved with if that can be found out."""
    made = origin(parts, data) if parts else None
    if parts is None or made in (None, parts.scheme.name):
        hint = "use a state with the model, scheme and options it was saved with"
        return DataError(refused.what, where=path, hint=hint)
    what = f"was saved with the scheme {made}, but this program has the scheme {parts.scheme.name}"
    return DataError(what, where=path, hint=option(scheme=made))


def origin(parts: Parts, data: bytes) -> str | None:
    """The scheme that a state of this model was saved with; None if it is not a state, or of another model."""
    if len(data) < HEADER_BYTES:
        return None
    magic, model, size, _ = (int(n) for n in np.frombuffer(data[:HEADER_BYTES], "<u4"))
    if magic != MAGIC or len(data) != HEADER_BYTES + size:
        return None
    end = time.monotonic() + SECONDS
    for other in _candidates(parts, size):
        if identity(other).model == model:
            return other.scheme.name
        if time.monotonic() > end:
            break
    return None


def identity(parts: Parts) -> StateLayout:
    """The layout of the state that a program of these parts has; nothing is planned for it."""
    graphs = {verb: SimpleNamespace(graph=g) for verb, g in parts.graphs().items()}
    return layout(state_fields(graphs), initial_state(graphs), fingerprint(graphs))  # type: ignore[arg-type]


def _candidates(parts: Parts, size: int) -> Iterator[Parts]:
    known = leading(parts.forward)
    found = [layer for layer in layers(parts.forward) if layer.name != parts.head and layer.name in known]
    counts = [f"{kind}:{n + 1}" for n in range(len(found)) for kind in ("last", "bias")]
    for name in ("head", "full", *counts, *(f"{LOW_RANK}:{rank}" for rank in RANKS)):
        try:
            other = replace(parts, scheme=read_scheme(name, found))
            _, trained = make_trainable(other.forward, other.scheme, head=other.head)
        except Error:  # this model cannot be trained so
            continue
        least = sum(t.value.type.bytes for t in trained)
        if least <= size <= MOST * least + 64:
            yield other
