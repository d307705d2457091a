"""Exact instructions of every kernel call of a training step on an emulated Cortex-M7, one line per layer.

    python -m bench.mcu_kernels [SCHEME] [--core m7] [--scalar] [-O3]     default: mcunet-5fps/49kb

Models are found as the tests find them. Also reports whether loss and state equal the host's after the step.
"""

from __future__ import annotations

import io
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from bench.bare_cortex import Image, Machine, build
from bench.schemes import CLASSES, find_models
from insitu.codegen import Program, emit_program
from insitu.devices.host import open_plans
from insitu.importers import load
from insitu.planner import plan
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.head import HEAD, replace_head
from insitu.training.train import train_graphs

RAM = 0x20000000
CALL = r"^ +(?:if \([^;]*?\) )?(\w+)\([^;]*;(?:\s+/\* (.*?) \*/)?$"  # a line of a generated function


@dataclass(frozen=True)
class Line:
    kernel: str
    layer: str
    instructions: int
    macs: int
    elements: int


def training_graphs(scheme: str) -> dict:
    graph = replace_head(load(find_models() / f"{scheme.partition('/')[0]}.pkl"), CLASSES)
    chosen = read_scheme(scheme, [layer for layer in layers(graph) if layer.name != HEAD])
    return train_graphs(graph, chosen)


def by_call(program: Program, verb: str, image: Image, counts: np.ndarray) -> list[Line]:
    """Counts of a function, split at its calls, which follow the order of the source; a compiler may duplicate some."""
    nodes = {n.name: n for n in program.plans[verb].nodes}
    found = re.findall(CALL, program.files[f"{program.prefix}_{verb}.c"], re.M)
    calls = [(kernel, layer) for kernel, layer in found if kernel in image.symbols]
    sites = call_sites(image, f"{program.prefix}_{verb}", {kernel for kernel, _ in calls})
    ends = [*(at for at, _ in sites[1:]), len(counts)]  # a last call may be a jump
    pairs = SequenceMatcher(None, [name for _, name in sites], [kernel for kernel, _ in calls], autojunk=False)
    layer = {m.a + i: calls[m.b + i][1] for m in pairs.get_matching_blocks() for i in range(m.size)}
    lines = []
    for i, ((first, kernel), end) in enumerate(zip(sites, ends)):
        node = nodes.get(layer.get(i, ""))
        macs = node.op.apply("macs", (node.output, *node.inputs), {}, node=node) if node and node.op.has("macs") else 0
        size = node.output.type.size if node else 0
        lines.append(Line(kernel, layer.get(i, ""), int(counts[first:end].sum()), macs, size))
    return lines


def call_sites(image: Image, function: str, names: set[str]) -> list[tuple[int, str]]:
    """(halfword, name) of each call of these functions, in order; everything until the next call belongs to it."""
    address, size = image.symbols[function]
    code = np.frombuffer(code_at(image, address, size), "<u2").astype(np.int64)
    starts = {image.symbols[n][0]: n for n in names}
    sites, i = [], 0
    while i + 1 < len(code):
        high, low = int(code[i]), int(code[i + 1])
        target = address + 2 * i + 4 + offset(high, low)
        if high >> 11 == 0b11110 and low & 0xD000 == 0xD000 and target in starts:
            sites.append((i, starts[target]))
        i += 2 if high >> 11 in (0b11101, 0b11110, 0b11111) else 1
    return sites


def offset(high: int, low: int) -> int:
    """The distance of a `bl`."""
    sign = high >> 10 & 1
    bits = [sign, ~(low >> 13 ^ sign) & 1, ~(low >> 11 ^ sign) & 1]
    distance = bits[1] << 23 | bits[2] << 22 | (high & 0x3FF) << 12 | (low & 0x7FF) << 1
    return distance - (sign << 24)


def code_at(image: Image, address: int, size: int) -> bytes:
    from elftools.elf.elffile import ELFFile

    for segment in ELFFile(io.BytesIO(image.data)).iter_segments():
        start = address - segment["p_vaddr"]
        if 0 <= start < segment["p_filesz"]:
            return segment.data()[start : start + size]
    raise RuntimeError(f"no code at {address:#x}")


def report(lines: list[Line]) -> str:
    shown = [f"{'kernel':24}{'layer':44}{'instructions':>14}{'MAC':>12}{'a MAC':>8}{'an element':>12}"]
    for x in lines:
        per = f"{x.instructions / x.macs:.2f}" if x.macs else ""
        shown.append(
            f"{x.kernel:24}{x.layer[:43]:44}{x.instructions:>14,}{x.macs or '':>12}{per:>8}"
            f"{x.instructions / max(x.elements, 1):>12.1f}"
        )
    return "\n".join(shown)


def by_kernel(lines: list[Line]) -> str:
    total, macs, calls = defaultdict(int), defaultdict(int), defaultdict(int)
    for x in lines:
        total[x.kernel] += x.instructions
        macs[x.kernel] += x.macs
        calls[x.kernel] += 1
    rows = sorted(total, key=lambda k: -total[k])
    return "\n".join(
        f"{k:28}{calls[k]:>4}{total[k]:>14,}{macs[k] or '':>12} {total[k] / macs[k] if macs[k] else 0:6.2f}"
        for k in rows
    )


def measure(scheme: str, core: str, flags: list[str]) -> dict:
    plans = {verb: plan(g, target="mcu") for verb, g in training_graphs(scheme).items()}
    program = emit_program(plans)
    image = build([program], core, flags)
    host, machine = open_plans(plans), Machine(image)
    x = np.random.default_rng(3).integers(-128, 128, (1, 128, 128, 3)).astype(np.int8)
    feeds = (x, np.array([3], np.int32), np.array(0.05, np.float32))
    machine.call("bench_net_init")
    found = {}
    for verb, given in (("predict", (x,)), ("train_step", feeds)):
        counts, outputs = machine.run(program, verb, *given)
        wanted = host.run(verb, *given)
        same = all(a.tobytes() == b.tobytes() for a, b in zip(outputs, wanted))
        steps = by_call(program, verb, image, counts)
        found[verb] = (steps, int(counts.sum()), same)
    state = bytes(machine.uc.mem_read(image.symbols["bench_net_state"][0], program.state_bytes))
    code = sum(size for n, (at, size) in image.symbols.items() if at < RAM and not n.startswith(("bench", "net_")))
    return {"verbs": found, "state": state == host._state.tobytes(), "code": code, "program": program}


def main() -> int:
    words = [a for a in sys.argv[1:] if not a.startswith("-")]
    core = words.pop() if words and words[-1] in ("m7", "m4", "m0") else "m7"
    flags = [a for a in sys.argv[1:] if a.startswith("-O")] or ["-O2"]
    flags += ["-DINSITU_SCALAR"] if "--scalar" in sys.argv else []
    made = measure(words[0] if words else "mcunet-5fps/49kb", core, flags)
    steps, total, same = made["verbs"]["train_step"]
    print(report(steps))
    print(by_kernel(steps))
    print("inference:")
    print(by_kernel(made["verbs"]["predict"][0]))
    print("predict:", made["verbs"]["predict"][1:], "train_step:", (total, same), "state equal:", made["state"])
    print(
        "kernels",
        made["code"],
        "bytes of code; arena",
        made["program"].arena_bytes,
        "const",
        made["program"].const_bytes,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
