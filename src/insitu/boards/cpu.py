"""Processor cores: how to compile for each, and which emulator runs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cpu:
    name: str
    title: str
    zig: tuple[str, ...]  # options for `zig cc`
    gcc: tuple[str, ...]  # options for a bare-metal gcc
    fpu: bool
    dsp: bool  # 16-bit multiply-accumulate in pairs
    emulator: str = ""  # unicorn, qemu or nothing
    model: str = ""  # the emulator's name for it

    @property
    def level(self) -> str:
        """The optimisation level: with the DSP extension, hot loops are assembler and the rest is compiled for size."""
        return "-Os" if self.dsp else "-O2"

    @property
    def arm(self) -> bool:
        return self.name.startswith("cortex")

    @property
    def linked(self) -> bool:
        """Is firmware linked for it? Only if it can be run here; others get the C."""
        return bool(self.emulator)

    @property
    def startup(self) -> str:
        """What runs from reset to main, below the folder of C."""
        return "boards/startup.c" if self.arm else "boards/startup_riscv.c"


# automatic vectorisation is off: its stack frames are aligned to 16 bytes, and their size cannot be read from the code.
# The vector code that matters is written in c/isa/
NO_OTHER_VECTORS = ("-fno-vectorize", "-fno-slp-vectorize")


def _arm(name: str, title: str, zig: str, gcc: str, fpu: str, dsp: bool, emulator: str, model: str) -> Cpu:
    abi = "eabihf" if fpu else "eabi"
    target = ("-target", f"thumb-freestanding-{abi}", f"-mcpu={zig}", *(NO_OTHER_VECTORS if "+mve" in zig else ()))
    floats = ("-mfloat-abi=hard", f"-mfpu={fpu}") if fpu else ("-mfloat-abi=soft",)
    return Cpu(name, title, target, (f"-mcpu={gcc}", "-mthumb", *floats), bool(fpu), dsp, emulator, model)


# zig makes the same code for a Cortex-M0 as for an M0+; under one name, both share objects and zig's own runtime
CPUS = {
    cpu.name: cpu
    for cpu in (
        _arm("cortex-m0", "Cortex-M0", "cortex_m0plus", "cortex-m0", "", False, "unicorn", "M0"),
        _arm("cortex-m0plus", "Cortex-M0+", "cortex_m0plus", "cortex-m0plus", "", False, "unicorn", "M0"),
        _arm("cortex-m3", "Cortex-M3", "cortex_m3", "cortex-m3", "", False, "unicorn", "M3"),
        _arm("cortex-m4", "Cortex-M4F", "cortex_m4+vfp4d16sp", "cortex-m4", "fpv4-sp-d16", True, "unicorn", "M4"),
        _arm("cortex-m7", "Cortex-M7", "cortex_m7+fp_armv8d16sp", "cortex-m7", "fpv5-sp-d16", True, "unicorn", "M7"),
        _arm("cortex-m33", "Cortex-M33", "cortex_m33+fp_armv8d16sp+dsp", "cortex-m33", "fpv5-sp-d16", True, "unicorn",
             "M33"),
        _arm("cortex-m55", "Cortex-M55", "cortex_m55+fp_armv8d16+mve", "cortex-m55+nomve.fp", "auto", True, "qemu",
             "cortex-m55"),
        Cpu(
            "rv32imc", "RISC-V rv32imc",
            ("-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m+c", "-fno-jump-tables"),
            ("-march=rv32imc_zicsr", "-mabi=ilp32", "-fno-jump-tables"), False, False, "unicorn", "RISCV32",
        ),
    )
}  # fmt: skip
