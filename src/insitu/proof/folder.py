"""The certificate of a board's folder: of the program that will be flashed, as it was planned for that board.

The folder has the learner it was written from. Its program is planned and emitted again for the same board and budget:
every generated C file must be the one in the folder. Then the checks of program.py run on exactly those plans (their
rows, stripes, tiles and groups), and the linked image takes the same steps on an emulated core.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from insitu.codegen import Program, emit_program, with_state
from insitu.codegen.device import emit_device
from insitu.codegen.rows import takes_rows
from insitu.data import as_samples
from insitu.deploy import Deployment, Limits, deploy, starting_from
from insitu.deploy.folder import LEARNER, MANIFEST, written_again
from insitu.deploy.manifest import Manifest, read_manifest
from insitu.devices.device import Device, run_step
from insitu.devices.host import HostDevice, open_program
from insitu.devices.rows import open_rows
from insitu.errors import DataError, Error
from insitu.files import write_whole
from insitu.learner import Learner
from insitu.learner.file import first_state, open_learner
from insitu.learner.places import Patience, open_in_folder
from insitu.learner.relinked import knowing
from insitu.learner.seen import class_means
from insitu.planner.spent import spent_text
from insitu.proof.certificate import Certificate
from insitu.proof.certify import TOOLS, arithmetic, subject_of
from insitu.proof.findings import Finding, Row, failed, row
from insitu.proof.learned import gradients_of, with_a_head
from insitu.proof.program import Subject, different, prove_program
from insitu.proof.source import drawn
from insitu.training.parts import Parts
from insitu.training.train import has_targets

CERTIFICATE = "certificate.json"


def prove_folder(folder: str | Path, data=None, steps: int = 5, seed: int = 0) -> Certificate:
    """Prove a folder's program, and write its certificate into the folder."""
    manifest = read_manifest(folder)  # refuses a file that was changed
    learner = _learner_of(manifest)
    parts, state = learner.parts, first_state(learner)
    assert parts is not None  # a file has them
    graphs = starting_from(parts.graphs(), state)
    made = knowing(deploy(graphs, _limits(manifest)), class_means(learner))
    written = row("files", "the folder's C vs the C of its model, planned again", _files(made.program, manifest))
    graph = parts.forward
    samples = drawn(graph, seed) if data is None else as_samples(data, graph, targets=has_targets(parts.recipe))
    state = with_a_head(state, seed)
    program = with_state(_trained_whole(made, graphs).program, state)
    subject = subject_of(parts, starting_from(graphs, state), samples, steps, seed)
    gradients = [*gradients_of(parts, subject, state, seed)]
    proved = prove_program(subject, BOARD_TOOLS, seed, program.plans, gradients)
    rows = [written, *proved, _image(manifest, subject, program, state)]
    found = Certificate(manifest.name, parts.scheme.name, arithmetic(parts), tuple(rows), _about(parts, made, manifest))
    write_whole(Path(folder) / CERTIFICATE, (json.dumps(found.to_json(), indent=2) + "\n").encode())
    return found


def _trained_whole(made: Deployment, graphs) -> Deployment:
    """The same for a program that keeps samples: it learns in two calls what the training step here does in one."""
    return made if made.program.life is None else deploy(graphs, replace(made.limits, store=None))


def _opened(program: Program) -> HostDevice:
    """The program on this machine; its samples arrive row by row if they do so on the board."""
    return open_rows(program) if any(map(takes_rows, program.plans.values())) else open_program(program)


BOARD_TOOLS = replace(TOOLS, open=lambda plans: _opened(emit_program(plans)))


def _learner_of(manifest: Manifest) -> Learner:
    path = manifest.folder / LEARNER
    if not path.is_file():
        raise DataError(
            "has no model to prove: an older insitu wrote it", where=str(manifest.folder), hint=written_again()
        )
    return open_learner(path)


def _limits(manifest: Manifest) -> Limits:
    """Those that it was planned with."""
    figures, asked = manifest.figures, json.loads((manifest.folder / MANIFEST).read_text())
    budget = figures["sram_budget_bytes"], figures["flash_budget_bytes"]
    aims = tuple(asked.get("aims", ()))
    return Limits(manifest.board, *budget, asked.get("prefer", "memory"), aims, asked.get("store"))


def _files(program: Program, manifest: Manifest) -> Iterator[Finding]:
    """One finding per generated file; the error is 1 if it differs or is missing."""
    for name, text in {**program.files, **emit_device(program)}.items():
        path = manifest.folder / "src" / name
        same = path.is_file() and path.read_bytes() == text.encode()
        yield Finding(f"src/{name} is not the C of this model", float(not same), 0.0)


# the linked image -------------------------------------------------------------------------------


def _image(manifest: Manifest, subject: Subject, program: Program, state: Mapping[str, np.ndarray]) -> Row:
    """The image takes the same steps on an emulated core."""
    what = "the image on an emulated core vs the C on this machine"
    if not manifest.figures["linked"]:
        return row("image", what, (), "the folder has no image")
    try:
        with open_in_folder(manifest, "emulator", Patience()) as board, _opened(program) as host:
            return row("image", what, list(_same_steps(subject, board, host, state)))
    except Error as e:
        return failed("image", what, str(e))


def _same_steps(subject: Subject, board: Device, host: Device, state: Mapping[str, np.ndarray]) -> Iterator[Finding]:
    for device in (board, host):
        device.load_arrays(state)
    arrays = subject.arrays("predict")
    wanted, found = ({"outputs": np.concatenate([a.ravel() for a in d.run("predict", *arrays)])} for d in (host, board))
    yield from different("predict", found, wanted)
    for step, verb in enumerate(subject.verbs):
        for device in (board, host):
            run_step(device, verb, *subject.arrays(verb, step))
        yield from different(f"step {step + 1}", board.state(), host.state())


def _about(parts: Parts, made: Deployment, manifest: Manifest) -> str:
    done = spent_text(made.lowered) or "nothing lowered"
    rows = ", row by row" if parts.recipe.rows else ""
    budget = f"{made.sram_bytes:,} of {made.limits.sram:,} B SRAM"
    return f"{manifest.board.name}: {parts.recipe.grad or 'f32'} gradients{rows}, {budget}; {done}"
