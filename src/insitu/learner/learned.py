"""What a learner has learned, exported: as a model of its own, or as the initial state of the C program.

The learner itself saves and loads states. Nothing is planned again here: the program is emitted with the same plans,
and linked again for a board. The model has the learned weights as constants, and no optimizer state.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from insitu.codegen import Program, with_state
from insitu.deploy import Deployment, deploy_program, starting_from
from insitu.deploy.bundle import write_board, write_bundle
from insitu.errors import BoardError, BudgetError, GraphError
from insitu.graph import drop_unused
from insitu.learner.learner import Learner
from insitu.learner.model import Model
from insitu.terminal.wording import option
from insitu.training.low_rank import merged


def learned_model(learner: Learner) -> Model:
    """The model as it predicts now."""
    graph, state = learner.graphs["predict"], learner.device.state()
    if not graph.nodes:
        raise GraphError(
            "a folder has no model, only its program", hint="save the state, and load it where the model is"
        )
    constants = {**graph.constants, **{name: state[name] for name in graph.state}}
    return Model(merged(drop_unused(replace(graph, constants=constants, state={}, updates={}, by_rows=""))))


def learned_program(learner: Learner) -> Program:
    """The C program whose `init` starts from what was learned; it saves and loads the same states as before."""
    return with_state(learner.program, learner.device.state()) if learner.learned else learner.program


def learned_deployment(learner: Learner) -> Deployment | None:
    """The deployment, starting from what was learned; None without a board."""
    made = learner.deployed
    if made is None or not learner.learned:
        return made
    found = deploy_program(with_state(made.program, learner.device.state()), made.limits)
    if not found.fits:
        raise BudgetError(
            f"with the learned state it takes {found.flash_bytes:,} bytes of flash",
            hint=f"more flash ({option(flash='BYTES')}), or train less",
        )
    about = {name: getattr(made, name) for name in ("batch", "loss", "scheme", "chosen", "programs")}
    return replace(found, **about)


def measured_deployment(learner: Learner, cost: bool = True) -> Deployment:
    """The same with the instructions of each function, counted on an emulated core, and the cost of a lower peak.

    For that cost, a program without a lowered peak is planned and compared.
    """
    from insitu.deploy.cost import count, lowering_cost

    deployed = learned_deployment(learner)
    if deployed is None or deployed.firmware is None:
        hint = f"{option(board='NAME')}; insitu boards lists them"
        raise BoardError("instructions are counted on an emulated board", hint=hint)
    graphs = starting_from(learner.graphs, learner.device.state()) if learner.learned else learner.graphs
    found = lowering_cost(deployed, graphs) if cost else None
    layers = found.lowered.layers if found else count(deployed.firmware)
    return replace(deployed, cost=found, counts={verb: sum(each.values()) for verb, each in layers.items()})


def with_life(deployed: Deployment | None) -> Deployment | None:
    """The deployment with the cost of its life, if it keeps samples and its core is emulated here."""
    from insitu.deploy.living import life_cost

    if deployed is None or deployed.firmware is None or deployed.program.life is None:
        return deployed
    if deployed.firmware.board.emulated != "unicorn":
        return deployed
    cost, counts = life_cost(deployed.firmware)
    return replace(deployed, life=cost.to_json(), counts=deployed.counts or counts)


def write(learner: Learner, folder: str | Path, deployed: Deployment | None = None) -> list[Path]:
    """The program's folder, with firmware if it was compiled for a board; it starts from what was learned."""
    from insitu.learner.file import learner_bytes

    made = deployed or with_life(learned_deployment(learner))
    return write_board(made, folder, learner_bytes(learner)) if made else write_bundle(learned_program(learner), folder)
