"""What a board's folder says about its firmware (insitu.json): enough to talk to it, count and check it; no weights."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from insitu.boards import Board, board_of
from insitu.codegen import Program
from insitu.codegen.device import Interface, interface_of
from insitu.codegen.state import StateLayout
from insitu.data.source import source_of
from insitu.deploy import Deployment
from insitu.deploy.choices import checked_choices
from insitu.deploy.folder import LIFE, MANIFEST, OLD, check_files, written_again
from insitu.deploy.lowering import checked
from insitu.devices.emulator import call_lines
from insitu.errors import DataError, GraphError
from insitu.files import check_source
from insitu.graph import Graph, Type, Value
from insitu.graph.classes import checked as checked_names
from insitu.graph.source import UNIT, Source
from insitu.graph.types import Quant
from insitu.ops.pixels import CAMERAS
from insitu.planner.changes.stripes.node import unrolled
from insitu.terminal.wording import either
from insitu.training.train import LOSSES

FORMAT = 1
FIGURES = ("sram_bytes", "flash_bytes", "sram_budget_bytes", "flash_budget_bytes", "arena_bytes", "state_bytes",
           "const_bytes")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Manifest:
    """A firmware as its folder describes it."""

    folder: Path
    name: str
    board: Board
    interface: Interface
    lines: dict[str, dict[int, str]]  # verb -> line of its C file -> layer
    figures: dict[str, Any]
    batch: int = 1  # samples per update, if gradients are added up
    loss: str = "cross_entropy"
    scheme: str = ""  # what it trains, and who chose that
    source: Source | None = None  # how files are read for its first input
    columns: tuple[str, ...] = ()  # the names of that input's columns, if tables are matched by them

    @property
    def elf(self) -> Path:
        """The image for the emulator; firmware.elf is the board's."""
        return self.folder / "emulator.elf"

    @property
    def graph(self) -> Graph:
        """The inputs and outputs of predict, with nothing between them: this is what samples are checked against."""
        return self.graph_of("predict")

    def graph_of(self, verb: str) -> Graph:
        """The same of any function."""
        about = {"classes": self.interface.classes, "columns": self.columns, "source": self.source}
        return Graph(self.name, *self.interface.verbs[verb], (), {}, **about)


def manifest(deployment: Deployment) -> dict:
    """The manifest of a deployment, as JSON data."""
    program, board, interface = deployment.program, deployment.limits.board, interface_of(deployment.program)
    assert board is not None
    state = interface.state
    return {
        "format": FORMAT,
        "name": next(iter(program.plans.values())).graph.name,
        "board": board.to_json(),
        "program": interface.program,
        "batch": deployment.batch,
        "prefer": deployment.limits.prefer,
        "aims": list(deployment.limits.aims),
        **({"loss": deployment.loss} if deployment.loss else {}),
        **({"scheme": {"name": deployment.scheme, "chosen": deployment.chosen}} if deployment.scheme else {}),
        "arena_bytes": interface.arena_bytes,
        "verbs": {
            verb: {
                "inputs": [_value(v) for v in inputs],
                "outputs": [_value(v) for v in outputs],
                **({"rows": interface.rows[verb]} if verb in interface.rows else {}),
            }
            for verb, (inputs, outputs) in interface.verbs.items()
        },
        "classes": list(interface.classes),
        **_source_of(program),
        **({"columns": list(columns)} if (columns := program.plans["predict"].graph.columns) else {}),
        **({"store": deployment.limits.store, "life": interface.life} if interface.life else {}),
        "state": state and {"model": state.model, "fields": [_value(v) for v in state.fields]},
        "lines": {verb: {str(n): layer for n, layer in call_lines(program, verb).items()} for verb in program.plans},
        "figures": deployment.figures(),
    }


def read_manifest(folder: str | Path) -> Manifest:
    check_source(folder)
    path = Path(folder) / MANIFEST
    try:
        found = json.loads(path.read_text())
        made = _manifest(Path(folder), found)
        check_files(Path(folder), {str(name): str(known) for name, known in found.get("files", {}).items()})
        return made
    except OSError as e:
        if (Path(folder) / OLD).is_file():
            raise DataError("is half written: that was interrupted", where=str(folder), hint=written_again()) from e
        if (Path(folder) / LIFE).is_file():
            python = 'of the learner it belongs to, learner.keep("DIR") goes on with it'
            hint = either(shell=f"in Python, {python}", python=python)
            raise DataError("holds the life of a learner, not a board's program", where=str(folder), hint=hint) from e
        shell, python = "insitu compile MODEL --board stm32f746 -o DIR", 'compile(..., board="stm32f746").write("DIR")'
        hint = f"{either(shell=shell, python=python)} makes one"
        raise DataError(f"is not the folder of a board: {e.strerror or e}", where=str(path), hint=hint) from e
    except KeyError as e:
        raise DataError(f"is invalid: {e} is missing", where=str(path), hint=written_again()) from e
    except (ValueError, TypeError, AttributeError, RecursionError, struct.error, GraphError) as e:
        raise DataError(f"is invalid: {e}", where=str(path), hint=written_again()) from e
    except DataError as e:  # of a name
        raise e if e.where else DataError(f"is invalid: {e.what}", where=str(path), hint=written_again()) from e


def _manifest(folder: Path, found: dict) -> Manifest:
    if found["format"] != FORMAT:
        raise DataError(f"has format {found['format']}, this insitu reads {FORMAT}", where=str(folder))
    verbs = {verb: (_values(v["inputs"]), _values(v["outputs"])) for verb, v in found["verbs"].items()}
    lines = {verb: {int(n): layer for n, layer in named.items()} for verb, named in found["lines"].items()}
    rows = {verb: _count(v, "rows") for verb, v in found["verbs"].items() if "rows" in v}
    interface = Interface(
        verbs,
        _state(found["state"]),
        int(found["program"]),
        int(found["arena_bytes"]),
        rows,
        checked_names(found.get("classes", ())),
        _life(found.get("life")),
    )
    _check_verbs(verbs)
    interface.info()  # raises for numbers that no program can have
    board, figures = board_of(found["board"], folder / "insitu.json"), _figures(found["figures"])
    batch, loss = _count(found, "batch", 1), _loss(found.get("loss"), verbs)
    about = _scheme(found), _source(found.get("source")), checked_names(found.get("columns", ()), "column")
    return Manifest(folder, str(found["name"]), board, interface, lines, figures, batch, loss, *about)


def _source_of(program: Program) -> dict:
    """What raw samples are; nothing if files need no more than the type of the input."""
    found = source_of(unrolled(program.plans["predict"].graph))
    return {"source": asdict(found)} if found != Source() else {}


def _source(found: dict | None) -> Source | None:
    """The same as it was written; older folders do not say."""
    if found is None:
        return None
    if found["camera"] not in CAMERAS:
        raise ValueError(f"camera is {found['camera']!r}")
    overlap = found.get("overlap", Source.overlap)  # older folders do not say
    if not isinstance(overlap, int | float) or not 0 <= overlap < 1:
        raise ValueError(f"overlap is {overlap!r}")
    low, high = found.get("pixels", UNIT)
    if not -1e6 < low < high < 1e6:
        raise ValueError(f"pixels are {low!r} to {high!r}")
    rate = None if found["rate"] is None else _count(found, "rate", 1)
    return Source(rate, found["camera"], overlap, (float(low), float(high)))


def _scheme(found: dict) -> str:
    """What is trained, and who chose it; older folders do not say."""
    about = found.get("scheme")
    return f"{about['name']}, chosen by {about['chosen'] or 'its learner'}" if about else ""


def _life(found: dict | None) -> dict | None:
    """What the program keeps, if it keeps samples: every number is one."""
    if found is None:
        return None
    where = {"in": str(found["in"]), "origin": None if found["origin"] is None else _count(found, "origin")}
    return {**{name: _count(found, name) for name in found if name not in where}, **where}


def _loss(named: str | None, verbs: dict) -> str:
    """The loss; older folders do not name it, but labels are class numbers and targets are not."""
    if named is not None and named not in LOSSES:
        raise ValueError(f"loss is {named!r}")
    learning = next((v for v in ("train_step", "accumulate", "learn") if v in verbs), "predict")
    return named or ("cross_entropy" if any(v.dtype == "s32" for v in verbs[learning][0]) else "mse")


def _check_verbs(verbs: dict) -> None:
    for verb in ("predict", *(v for v in ("train_step", "accumulate") if v in verbs)):
        inputs, outputs = verbs[verb]
        if not inputs or not outputs or not inputs[0].shape or (verb == "predict" and not outputs[0].shape):
            raise ValueError(f"{verb} has no inputs or no outputs")


def _figures(found: dict) -> dict:
    """The figures that reports and emulators rely on: all present, all integers."""
    for name in FIGURES:
        _count(found, name)
    for name, value in (("linked", found["linked"]), ("in_place", found.get("in_place", False))):
        if not isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}")
    lowered = {kind: names for kind, names in dict(found.get("lowered", {})).items() if isinstance(names, list)}
    again = {"macs_again": _count(dict(found.get("lowered", {})), "macs_again", 0)}
    checked(found.get("lowering"))
    checked_choices(found.get("choices"))
    return {**found, "lowered": {**lowered, **again}, "stack_bytes": _count(found, "stack_bytes", 0)}


def _count(found: dict, name: str, usual: int | None = None) -> int:
    """An integer field of the manifest; `usual` if it may be missing."""
    value = found[name] if usual is None else found.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int) or value < (usual or 0):
        raise ValueError(f"{name} is {value!r}")
    return value


def _state(found: dict | None) -> StateLayout | None:
    if not found:
        return None
    fields = _values(found["fields"])
    return StateLayout(fields, {v.name: np.zeros(v.shape, v.type.numpy) for v in fields}, int(found["model"]))


def _value(v: Value) -> dict:
    q = v.type.quant
    numerics = {"scale": list(q.scale), "zero": q.zero, "axis": q.axis} if q else {}
    return {"name": v.name, "dtype": v.type.dtype, "shape": list(v.shape), **numerics}


def _values(found: list[dict]) -> tuple[Value, ...]:
    return tuple(Value(v["name"], Type(v["dtype"], tuple(v["shape"]), _quant(v))) for v in found)


def _quant(v: dict) -> Quant | None:
    return Quant(tuple(v["scale"]), v["zero"], v["axis"]) if "scale" in v else None
