"""Small programs, linked for boards, and the same programs with an error."""

from __future__ import annotations

from functools import cache

import numpy as np

from insitu.boards import Board, Memory, find_board
from insitu.codegen import Program, emit_program
from insitu.codegen.device import emit_device
from insitu.firmware import Firmware, build_firmware
from insitu.planner import plan
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.head import replace_head
from insitu.training.train import train_graphs

from ..devices.firmware import program as linear_program
from ..devices.firmware import samples as linear_samples
from ..training.small_nets import SHAPE, int8_net

M3 = Board(
    "m3", "a Cortex-M3", "cortex-m3", Memory(0x20000000, 65536), Memory(0x08000000, 262144), 72, None
)  # small, and without a port
CORES = {"M0+": "rp2040", "M3": M3, "M4": "nrf52840", "M7": "stm32f746", "M33": "nrf5340", "M55": "corstone300",
         "RISC-V": "esp32c3"}  # fmt: skip
KINDS = ("linear", "conv")


def board(core: str) -> Board:
    return find_board(CORES[core])


@cache
def conv_graphs():
    """Convolutions, a skip and a depthwise layer, all of them trained."""
    graph = replace_head(int8_net(), None)
    return train_graphs(graph, read_scheme("full", [layer for layer in layers(graph) if layer.name != "head"]))


@cache
def program(kind: str = "linear", target: str = "mcu") -> Program:
    if kind == "linear":
        return linear_program()
    return emit_program({verb: plan(g, target=target) for verb, g in conv_graphs().items()})


def steps(kind: str, count: int):
    """Inputs of `count` training steps."""
    if kind == "linear":
        x, y = linear_samples(count)
    else:
        rng = np.random.default_rng(5)
        x, y = rng.normal(size=(count, *SHAPE[1:])).astype(np.float32), rng.integers(0, 3, count).astype(np.int32)
    return [(x[i : i + 1], y[i : i + 1], np.float32(0.05)) for i in range(count)]


@cache
def firmware(kind: str = "linear", core: str = "M7", compiler: str = "zig") -> Firmware:
    return build_firmware(program(kind), board(core), compiler=compiler)


def changed(statement: str, before: str = "", kind: str = "linear") -> dict[str, str]:
    """The model's file for the protocol, with a statement at the start of a prediction: to be linked instead."""
    text = emit_device(program(kind))["net_device.c"]
    start = "static void run_predict(void)\n{\n"
    assert start in text
    return {"net_device.c": text.replace(start, f"{before}\n{start}    {statement}\n")}
