"""RISC-V code is read as its assembler means it: frames, calls, and jumps that only a register knows."""

import numpy as np
import pytest

import insitu
from insitu.devices.emulator import emulate
from insitu.devices.host import open_program
from insitu.errors import ToolError
from insitu.firmware.stack_riscv import jump, pushed, through_register

from .images import firmware, program, steps

for package in ("unicorn", "elftools", "ziglang"):
    pytest.importorskip(package)

PUSHED = {
    "addi sp, sp, -16 (short)": (0x1141, 16), "addi sp, sp, -64 (short)": (0x7139, 64),
    "addi sp, sp, -64": (0xFC010113, 64), "addi sp, sp, -2032": (0x81010113, 2032), "addi sp, sp, 16": (0x0141, 0),
    "addi a0, sp, 8": (0x00810513, 0), "lui a0, 1": (0x6505, 0), "ret": (0x8082, 0), "mv a0, sp": (0x850A, 0),
}  # fmt: skip
UNKNOWN = {"sub sp, sp, a0": 0x40A10133, "mv sp, s0": 0x8122, "add sp, sp, a0": 0x912A, "addi sp, s0, -16": 0xFF040113}
AT, CALL = 0x42000100, 0x00000097  # auipc ra, 0
JUMPS = {
    "jal ra, +8": (0x008000EF, 0, AT + 8, True), "jal x0, -4": (0xFFDFF06F, 0, AT - 4, False),
    "c.j +6": (0xA019, 0, AT + 6, False), "c.jal +16": (0x2801, 0, AT + 16, True),
    "auipc ra; jalr ra, 12(ra)": (0x00C080E7, CALL, AT - 4 + 12, True),
    "ret": (0x8082, 0, None, False), "jalr ra, a0": (0x000500E7, CALL, None, False),
}  # fmt: skip
REGISTERS = {"ret": (0x8082, False), "jr a5": (0x8782, True), "jalr a0": (0x9502, True), "ebreak": (0x9002, False),
             "mv a0, a1": (0x852E, False), "ret (wide)": (0x00008067, False), "jalr ra": (0x9082, True)}  # fmt: skip


@pytest.mark.parametrize("what", PUSHED)
def test_what_an_instruction_pushes(what):
    word, bytes = PUSHED[what]
    assert pushed(word, "here") == bytes


@pytest.mark.parametrize("what", UNKNOWN)
def test_a_frame_that_is_not_in_the_code_is_refused(what):
    with pytest.raises(ToolError, match="size is not in the code"):
        pushed(UNKNOWN[what], "here")


@pytest.mark.parametrize("what", JUMPS)
def test_where_a_jump_leads(what):
    word, before, target, comes_back = JUMPS[what]
    assert jump(AT, word, before) == (target, comes_back)


@pytest.mark.parametrize("what", REGISTERS)
def test_which_jumps_only_a_register_knows(what):
    word, through = REGISTERS[what]
    assert through_register(word) is through


def test_an_esp32c3_trains_twenty_steps_to_the_bytes_of_the_host():
    made = firmware("conv", "RISC-V")
    device, host = emulate(made), open_program(program("conv", "host"))
    for step in steps("conv", 20):
        assert device.run("train_step", *step)[0].tobytes() == host.run("train_step", *step)[0].tobytes()
    assert device.save_state() == host.save_state()
    assert made.stack.bytes - 16 <= device.stack_bytes() <= made.stack.bytes


def test_small_arrays_of_a_network_stay_apart_and_are_accounted_for():
    """clang puts arrays of less than 2 KB of a file into one, under a name of its own, unless it is told not to."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3)).eval()
    x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    made = insitu.compile(net, data=x, scheme="full", board="esp32c3")
    assert made.deployed is not None and made.deployed.sram_bytes < 4096
