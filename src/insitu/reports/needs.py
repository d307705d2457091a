"""What a learner's program needs: SRAM, flash, instructions or milliseconds, on its board or on this machine.

Instructions are counted where the board can be emulated. The learner's own state does not change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from insitu.boards import Board, boards
from insitu.deploy import Deployment, starting_from
from insitu.deploy.deployment import UNLINKED_FLASH, UNLINKED_SRAM
from insitu.devices.device import Updates, method_of
from insitu.devices.host import HostDevice
from insitu.errors import BoardError, ToolError
from insitu.learner import Learner
from insitu.planner import Plan
from insitu.reports.html_costs import REST, layer_costs, multiply_adds
from insitu.reports.html_data import LayerCost, Memory, Piece, Speed
from insitu.schemes.layers import layers
from insitu.terminal.progress import stage

NOTES = {
    "arena": "values of a step",
    "state": "trained parameters, their residuals, counters",
    "stack reserve": "the deepest path",
    "constants": "weights and tables",
    "kernels": "code",
    "model": "the generated program",
}
Layers = Mapping[str, Mapping[str, int]]  # verb -> layer -> instructions
STEPS = ("train_step", "accumulate", "predict")  # the function to show: the first that the program has
TIMED = 0.03  # seconds
SMALLER = "As planned for this machine, without stack, protocol and code. For a board, memory is planned anew."
PASS = re.compile(r"(\.weight|\.bias)?\.(grad|new|mask)\b.*")


@dataclass(frozen=True, eq=False)
class Needs:
    """Memory, plans and counts of a program."""

    sram: Memory
    flash: Memory
    board: Board | None = None
    plans: Mapping[str, Plan] = field(default_factory=dict)
    layers: Layers = field(default_factory=dict)
    lowering: Mapping[str, Any] | None = None  # LoweringCost.to_json()

    def instructions(self, batch: int) -> tuple[int | None, int | None]:
        """Of one update with all its samples, and of one prediction."""
        total = {verb: sum(each.values()) for verb, each in self.layers.items()}
        if "apply" in total:
            return batch * total["accumulate"] + total["apply"], total.get("predict")
        return total.get("train_step"), total.get("predict")

    @property
    def step(self) -> str | None:
        """The function that learns from a sample; predict if nothing is learned."""
        return next((verb for verb in STEPS if verb in (self.plans or self.layers)), None)


def needs_of(learner: Learner, counted: Layers | None = None) -> Needs:
    """The needs of this learner; `counted` if instructions were counted before."""
    manifest = learner.site.manifest
    if manifest:
        return of_figures(manifest.figures, manifest.board, layers=counted or {})
    if learner.deployed is None or learner.deployed.limits.board is None:
        info = learner.info()
        sram = Memory(pieces({"arena": info["arena_bytes"], "state": info["state_bytes"]}), note=SMALLER)
        return Needs(sram, Memory(pieces({"constants": info["const_bytes"]})), plans=learner.plans)
    return of_board(learner, learner.deployed)


def of_board(learner: Learner, deployed: Deployment) -> Needs:
    layers, cost = counts(learner, deployed)
    return of_figures(deployed.figures(), deployed.limits.board, deployed.program.plans, layers, cost)


def of_figures(figures: Mapping[str, Any], board: Board | None, plans: Mapping[str, Plan] | None = None,
               layers: Layers | None = None, lowering: Mapping[str, Any] | None = None) -> Needs:  # fmt: skip
    """From the figures of a deployment or of a board's folder."""
    sram = figures.get("sram") or {
        "arena": figures["arena_bytes"], "state": figures["state_bytes"],
        "stack and protocol, estimated": figures["sram_bytes"] - figures["arena_bytes"] - figures["state_bytes"],
    }  # fmt: skip
    flash = figures.get("flash") or {
        "constants": figures["const_bytes"], "code, estimated": figures["flash_bytes"] - figures["const_bytes"]
    }  # fmt: skip
    return Needs(
        Memory(pieces(sram), figures["sram_budget_bytes"]), Memory(pieces(flash), figures["flash_budget_bytes"]), board,
        plans or {}, layers or {}, lowering or figures.get("lowering"),
    )  # fmt: skip


def pieces(found: Mapping[str, int]) -> tuple[Piece, ...]:
    return tuple(Piece(name, int(count), NOTES.get(name, "")) for name, count in found.items())


def counts(learner: Learner, deployed: Deployment) -> tuple[Layers, Mapping[str, Any] | None]:
    """Instructions by layer, and the cost of a lower peak; nothing where no such core can be emulated here."""
    from insitu.deploy.cost import count, lowering_cost
    from insitu.devices.emulator import check_emulated

    if deployed.firmware is None:
        return {}, None
    try:
        check_emulated(deployed.firmware.board)
        with stage("counting instructions on the emulated core"):
            graphs = starting_from(learner.graphs, learner.device.state()) if learner.learned else learner.graphs
            cost = lowering_cost(deployed, graphs)
            return (cost.lowered.layers if cost else count(deployed.firmware)), cost and cost.to_json()
    except (BoardError, ToolError):
        return {}, None


# by layer ---------------------------------------------------------------------------------------


def costs(learner: Learner, needs: Needs) -> tuple[tuple[LayerCost, ...], str]:
    """By layer: instructions if they were counted, else multiply-adds."""
    verb = needs.step
    counted = needs.layers.get(verb or "")
    graph = learner.graphs.get(verb or "")
    if graph is None or not graph.nodes:  # a folder has no graph, but its layers have names
        return named_costs(counted or {}), "instructions"
    forward = learner.parts.forward if learner.parts else learner.graphs["predict"]
    names = tuple(layer.name for layer in layers(forward))
    found = counted or multiply_adds(graph)
    return layer_costs(graph, found, names), "instructions" if counted else "multiply-adds"


def named_costs(counted: Mapping[str, int]) -> tuple[LayerCost, ...]:
    """Costs by layer from names alone: autodiff names gradients and updates after their layer."""
    found: dict[str, dict[str, int]] = {}
    for name, count in counted.items():
        layer, part = PASS.sub("", name) or REST, part_of(name)
        parts = found.setdefault(layer, {"forward": 0, "backward": 0, "update": 0})
        parts[part] += count
    return tuple(LayerCost(layer, **parts) for layer, parts in found.items())


def part_of(name: str) -> str:
    return "update" if ".new" in name else "backward" if ".grad" in name else "forward"


# on this machine --------------------------------------------------------------------------------


def room(needs: Needs) -> str:
    """On how many boards a program that was compiled without one probably fits. A plan for a board takes less SRAM, but
    hardly less flash: only if that is too small everywhere, no board is left."""
    count, known = len(large_boards(needs)), len(boards())
    if count:
        return f"Probably on {count} of {known} boards"
    return "Not planned for a board" if can_be_stored(needs) else f"On none of {known} boards: their flash is smaller"


def can_be_stored(needs: Needs) -> bool:
    """Is any board's flash large enough?"""
    return any(board.flash.bytes >= needs.flash.bytes for board in boards().values())


def large_boards(needs: Needs) -> list[Board]:
    """Boards that are large enough as it was planned for this machine, the smallest first; one may lower its memory."""
    sram, flash = needs.sram.bytes + UNLINKED_SRAM, needs.flash.bytes + UNLINKED_FLASH
    found = [b for b in boards().values() if b.sram.bytes >= sram and b.flash.bytes >= flash]
    return sorted(found, key=lambda board: board.sram.bytes)


def speed(learner: Learner) -> Speed | None:
    """Timed on a twin, so that nothing is learned; None on other devices."""
    if not isinstance(learner.device, HostDevice):
        return None
    twin = learner.device.twin()
    x = tuple(np.zeros((1, *v.shape[1:]), v.type.numpy) for v in learner.graphs["predict"].inputs)
    predict = timed(lambda: twin.run("predict", *x))
    if not {"train_step", "accumulate"} & set(twin.verbs):
        return Speed(None, predict)
    method = method_of(twin.verbs)
    given = twin.verbs[method.verb][0]
    count = learner.batch if method.adds_up else method.samples
    arrays = tuple(np.zeros((count, *v.shape[1:]), v.type.numpy) for v in given if v.shape)
    return Speed(timed(lambda: twin.train(Updates(arrays, range(count), [0.0], count))), predict)


def timed(run: Callable[[], object]) -> float:
    """Milliseconds of one call: the best of a few, after one to warm up."""
    run()
    best, end = float("inf"), perf_counter() + TIMED
    while perf_counter() < end:
        start = perf_counter()
        run()
        best = min(best, perf_counter() - start)
    return 1000 * best
