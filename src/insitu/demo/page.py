"""What the demo's page shows about a device: instructions by layer, and how SRAM and flash are used."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from insitu.demo.device import Opened
from insitu.deploy import lowered_by
from insitu.deploy.lowering import LoweringCost
from insitu.devices.device import Counter
from insitu.learner import Learner
from insitu.planner.spent import spent_text
from insitu.reports.html_costs import layer_costs, multiply_adds
from insitu.reports.html_data import LayerCost, Memory
from insitu.reports.needs import pieces
from insitu.schemes.layers import layers


@dataclass(frozen=True)
class Measured:
    """Instructions counted on the device; None if the device cannot count."""

    layers: dict[str, dict[str, int]] = field(default_factory=dict)  # verb -> node -> instructions
    stack_bytes: int | None = None
    cost: LoweringCost | None = None  # of lowering the peak

    @property
    def step(self) -> int | None:
        return sum(self.layers["train_step"].values()) if self.layers else None

    @property
    def predict(self) -> int | None:
        return sum(self.layers["predict"].values()) if self.layers else None


def measured(opened: Opened, learner: Learner, samples) -> Measured:
    """One training step at a rate of zero, and one prediction, counted. The learned state does not change."""
    counter = opened.learner.device.counter
    if counter is None:
        return Measured()
    layers = counted_by(counter, samples)
    return Measured(layers, counter.stack_bytes(), lowering_of(opened, learner, samples, layers))


def counted_by(counter: Counter, samples) -> dict[str, dict[str, int]]:
    x, y = samples.x[:1], samples.y[:1].astype(np.int32)
    _, step = counter.measure("train_step", x, y, np.float32(0))
    _, predict = counter.measure("predict", x)
    return {"train_step": step, "predict": predict}


def counted_life(opened: Opened, samples) -> Measured:
    """The same of a living program: a lesson, and a prediction."""
    counter = opened.learner.device.counter
    assert counter is not None  # an emulated core counts
    x, y = samples.x[:1], samples.y[:1].astype(np.int32)
    device = opened.learner.device
    latents = device.run("encode", x) if "encode" in device.verbs else (x,)
    _, lesson = counter.measure("learn", *latents, y, np.float32(0))
    _, predict = counter.measure("predict", x)
    return Measured({"train_step": lesson, "predict": predict}, counter.stack_bytes())


def lowering_of(opened: Opened, learner: Learner, samples, layers: dict) -> LoweringCost | None:
    """The cost of lowering the peak: the same sample and state in the program without a lowered peak."""
    from insitu.deploy.cost import cost_of, unlowered_firmware
    from insitu.devices.emulator import emulate

    if opened.firmware is None or not spent_text(lowered_by(opened.firmware.program)):
        return None
    other = unlowered_firmware(learner.graphs, opened.firmware.board)
    device = emulate(other)
    device.load_state(opened.learner.device.save_state())
    return cost_of(opened.firmware, other, layers, counted_by(device, samples))


def costs_of(learner: Learner, taken: Measured) -> tuple[tuple[LayerCost, ...], str]:
    """Costs by layer: instructions if they were counted, else multiply-adds."""
    graph = learner.graphs["train_step"]
    forward = learner.parts.forward if learner.parts else learner.graphs["predict"]
    names = tuple(layer.name for layer in layers(forward))
    counted = taken.layers.get("train_step")
    counts, unit = (counted, "instructions") if counted else (multiply_adds(graph), "multiply-adds")
    return layer_costs(graph, counts, names), unit


def sram_of(opened: Opened, learner: Learner, taken: Measured) -> Memory:
    if opened.firmware is None or opened.board is None:
        info = learner.info()
        found = {"arena": info["arena_bytes"], "state": info["state_bytes"]}
        return Memory(pieces(found), note="Stack and firmware are not counted: the program ran on the host.")
    words = (
        f"Everything is counted. The stack reached {taken.stack_bytes:,} B of its reserve." if taken.stack_bytes else ""
    )
    return Memory(pieces(opened.firmware.account.sram), opened.board.sram.bytes, words)


def flash_of(opened: Opened, learner: Learner) -> Memory:
    if opened.firmware is None or opened.board is None:
        note = "Code is not counted: the program ran on the host."
        return Memory(pieces({"constants": learner.info()["const_bytes"]}), note=note)
    return Memory(pieces(opened.firmware.account.flash), opened.board.flash.bytes)
