"""What training needs on a microcontroller: exact instructions, every byte of SRAM and flash, on emulated cores.

    make bench-mcu                          all models and boards: a table, bench/mcu.json, docs/mcu.md, docs/mcu.svg
    python -m bench.mcu --only mcunet       a part of it: rows whose name contains this
    INSITU_TENSORFLOW=python make bench-mcu a Python with TensorFlow, to measure its memory too

The numbers are exact and repeatable: instructions, not cycles. Models are found as the tests find them
(INSITU_TEST_FILES, or `shared` beside the checkout). KB is 1,000 bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import TypeGuard

import numpy as np

from bench.mcu_peers import peers
from bench.mcu_plot import plot
from bench.photos import ROOT, folder
from insitu import Recipe, compile
from insitu.boards import find_board
from insitu.codegen import Program
from insitu.deploy import deploy, limits_of
from insitu.deploy.budget import kb
from insitu.deploy.cost import cost_of, count, random_input, unlowered_firmware
from insitu.deploy.limits import PREFERENCES
from insitu.devices.emulator import EmulatorDevice, emulate
from insitu.errors import Error
from insitu.firmware import Firmware
from insitu.graph import Graph
from insitu.graph.loops import Loop
from insitu.planner import plan
from insitu.reports.speed import machine
from insitu.terminal.table import table

CLASSES = 10
BOARDS = ("stm32f746", "nrf52840", "rp2040")
CHECKPOINTS = ("mcunet-5fps/49kb", "mcunet-5fps/99kb", "mbv2-w0.35/49kb", "mbv2-w0.35/99kb", "proxyless-w0.3/49kb",
               "proxyless-w0.3/98kb")  # fmt: skip
TINY = {"ad01": "ad01_int8", "resnet8": "ic_resnet8_int8", "kws": "kws_dscnn_int8", "vww": "vww_mbv1_int8"}
LAST = "last:2"
# the published engine (Tiny Training Engine), mcunet-5fps/49kb on a Cortex-M7, measured in the same way
PUBLISHED = {"train_step": 106_371_044, "predict": 65_035_916, "sram": 253_368, "flash": 663_864, "stack": 21_816}
SHOWN = 12  # layers of the breakdown in the page
# other than the defaults, for the first checkpoint on the first board
ASKED = ({"by_rows": True, "allowed": 96_000}, {"allowed": 112_000}, {"prefer": "speed"})
LOWERING = CHECKPOINTS[0]  # whose programs are counted without lowered peaks, too


@dataclass
class Row:
    model: str
    scheme: str
    board: str
    grad: str
    by_rows: bool = False  # the image arrives row by row
    prefer: str = PREFERENCES[0]
    allowed: int | None = None  # bytes of SRAM, of the board's
    fits: bool = False
    why: str = ""  # why it does not fit
    sram_bytes: int = 0
    flash_bytes: int = 0
    arena_bytes: int = 0
    input_bytes: int = 0  # part of the arena: the image, or the rows of it that are held
    forward_bytes: int = 0  # part of the arena: what the forward part of a step needs
    predict_bytes: int = 0  # the arena of a program that only predicts
    state_bytes: int = 0
    in_place: bool = False  # SRAM cannot hold the state twice
    stack_bytes: int = 0
    stack_used_bytes: int = 0
    const_bytes: int = 0
    sram: dict[str, int] = field(default_factory=dict)
    flash: dict[str, int] = field(default_factory=dict)
    predict_instructions: int = 0
    train_step_instructions: int = 0
    macs: int = 0  # of a prediction
    layers: dict[str, dict[str, list[int]]] = field(default_factory=dict)  # verb -> layer -> [instructions, macs]
    # the same program without a lowered peak (LOWERING only)
    unlowered_arena_bytes: int = 0
    unlowered_sram_bytes: int = 0
    unlowered_predict_instructions: int = 0
    unlowered_train_step_instructions: int = 0
    lowered_by: str = ""
    lowered_instructions: dict[str, int] = field(default_factory=dict)  # kind of change -> extra instructions of a step
    seconds: float = 0.0

    @property
    def name(self) -> str:
        more = ["rows"] * self.by_rows + [self.prefer] * (self.prefer != PREFERENCES[0]) + [str(self.allowed or "")]
        return "/".join([self.model, self.scheme, self.board, self.grad, *filter(None, more)])

    @property
    def options(self) -> str:
        """The options that differ from the defaults, as a command has them."""
        said = ["--rows"] * self.by_rows + [f"--prefer {self.prefer}"] * (self.prefer != PREFERENCES[0])
        return " ".join(said + ([f"--sram {self.allowed}"] if self.allowed else []))

    @property
    def marked(self) -> str:
        """The same for a page."""
        return self.options and f" `{self.options}`"


# measuring --------------------------------------------------------------------------------------


def rows() -> list[Row]:
    named = [(s.partition("/")[0], s.partition("/")[2]) for s in CHECKPOINTS] + [(name, LAST) for name in TINY]
    whole = [Row(*which, board, grad) for board in BOARDS for which in named for grad in grads(board)]
    ours = [r for r in whole if f"{r.model}/{r.scheme}" == CHECKPOINTS[0]]
    integers = [r for r in ours if r.grad == "s16"]
    eight = [replace(r, grad="s8") for r in integers]
    small = [replace(r, prefer="memory") for r in (*ours, *eight)]
    arriving = [replace(r, by_rows=True) for r in small if r.grad != "f32"]
    asked = [replace(integers[0], **asked) for asked in ASKED]
    return sorted([*whole, *eight, *small, *arriving, *asked], key=lambda r: BOARDS.index(r.board))


def grads(board: str) -> tuple[str, ...]:
    """The kinds of gradients to measure: without an FPU, floats make no sense."""
    return ("f32", "s16") if find_board(board).core.fpu else ("s16",)


def measure(row: Row) -> Row:
    """Compile, link, run one prediction and one step on the emulated board."""
    start = time.perf_counter()
    try:
        learner = compile(**source(row))
        found = deploy(learner.graphs, limits_of(row.board, row.allowed, None, row.prefer))
    except Error as e:
        row.why = e.what.splitlines()[0]
        return row
    for key, value in found.figures().items():
        if hasattr(row, key):
            setattr(row, key, value)
    parts(row, found.program, learner.graphs["predict"])
    row.fits = found.fits
    if not found.fits:
        row.why = f"needs {kb(row.sram_bytes)} of SRAM and {kb(row.flash_bytes)} of flash"
        return row
    assert found.firmware is not None
    run(row, emulate(found.firmware), learner.graphs)
    if f"{row.model}/{row.scheme}" == LOWERING:
        without(row, found.firmware, learner.graphs)
    row.seconds = round(time.perf_counter() - start, 1)
    return row


def parts(row: Row, program: Program, predict: Graph) -> None:
    """How the arena is used: the image, the forward part; and the arena of a program that only predicts."""
    step = program.plans["train_step"]
    end = next(i for i, node in enumerate(step.graph.nodes) if node.name == "loss")
    first = step.calls[0]
    held = [room.bytes for room in first.rooms if room.value == first.nodes[0].output] if by_rows(first) else []
    row.input_bytes = sum(held) if row.by_rows else step.graph.inputs[0].type.bytes
    row.forward_bytes = max(step.live[: end + 1])
    row.predict_bytes = plan(predict, target="mcu").arena_bytes


def by_rows(call) -> TypeGuard[Loop]:
    return isinstance(call, Loop) and call.source is not None


def source(row: Row) -> dict:
    if row.model in TINY:
        path = folder("models") / "mlperf-tiny" / f"{TINY[row.model]}.tflite"
        loss = "mse" if row.model == "ad01" else "cross_entropy"
        return {"model": path, "scheme": row.scheme, "recipe": Recipe(loss=loss, grad=row.grad, rows=row.by_rows)}
    path = folder("models") / f"{row.model}.pkl"
    recipe = Recipe(grad=row.grad, rows=row.by_rows)
    return {"model": path, "scheme": f"{row.model}/{row.scheme}", "classes": CLASSES, "recipe": recipe}


def run(row: Row, device: EmulatorDevice, graphs: dict[str, Graph]) -> None:
    rng = np.random.default_rng(0)
    steps = graphs["train_step"].inputs
    device.measure(
        "train_step", *(random_input(rng, v) for v in steps)
    )  # until then the head is zero, and so are gradients
    for verb in ("train_step", "predict"):
        inputs = [random_input(rng, v) for v in graphs[verb].inputs]
        _, layers = device.measure(verb, *inputs)
        macs = macs_of(graphs[verb])
        row.layers[verb] = {name: [count, macs.get(name, 0)] for name, count in layers.items()}
        setattr(row, f"{verb}_instructions", sum(layers.values()))
    row.macs = sum(macs_of(graphs["predict"]).values())
    row.stack_used_bytes = device.stack_bytes()


def without(row: Row, firmware: Firmware, graphs: dict[str, Graph]) -> None:
    """The same program without a lowered peak, on the same core with enough memory."""
    other = unlowered_firmware(graphs, firmware.board)
    layers = {verb: {name: counts[0] for name, counts in named.items()} for verb, named in row.layers.items()}
    cost = cost_of(firmware, other, layers, count(other))
    row.unlowered_arena_bytes, row.unlowered_sram_bytes = cost.without.arena_bytes, cost.without.sram_bytes
    row.unlowered_predict_instructions = cost.without.instructions("predict")
    row.unlowered_train_step_instructions = cost.without.instructions("train_step")
    row.lowered_by, row.lowered_instructions = cost.summary, cost.by_kind


def macs_of(graph: Graph) -> dict[str, int]:
    return {n.name: int(n.rule("macs", n.outputs[0], *n.inputs)) for n in graph.nodes if n.op.has("macs")}


# showing ----------------------------------------------------------------------------------------

HEAD = (
    "board",
    "model",
    "gradients",
    "inference",
    "step",
    "per MAC",
    "SRAM",
    "arena",
    "input",
    "forward",
    "inference only",
    "state",
    "stack",
    "flash",
    "constants",
    "code",
)


def cells(r: Row) -> tuple[str, ...]:
    name = f"{r.model}/{r.scheme}{r.marked}"
    if not r.fits:
        return (r.board, name, r.grad, r.why, *[""] * (len(HEAD) - 4))
    code = r.flash_bytes - r.flash.get("constants", 0)
    kept = kb(r.state_bytes) + (", in place" if r.in_place else "")
    return (
        r.board, name, r.grad, f"{r.predict_instructions / 1e6:.2f} M",
        f"{r.train_step_instructions / 1e6:.2f} M", f"{r.predict_instructions / r.macs:.2f}", kb(r.sram_bytes),
        kb(r.arena_bytes), kb(r.input_bytes), kb(r.forward_bytes), kb(r.predict_bytes),
        kept, f"{r.stack_bytes:,} B", kb(r.flash_bytes), kb(r.const_bytes), kb(code),
    )  # fmt: skip


def published_cells() -> tuple[str, ...]:
    p = PUBLISHED
    return (
        "*published*", "mcunet-5fps/49kb", "f32", f"{p['predict'] / 1e6:.2f} M", f"{p['train_step'] / 1e6:.2f} M",
        "2.90", kb(p["sram"]), "190 KB", "", "", "", "40 KB", f"{p['stack']:,} B", kb(p["flash"]), "543 KB", "86 KB",
    )  # fmt: skip


def markdown(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    marks = ["---", "---", *["--:"] * (len(head) - 2)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, marks, *lines))


def breakdown(r: Row) -> str:
    """The most expensive calls of a step."""
    named = sorted(r.layers["train_step"].items(), key=lambda item: -item[1][0])[:SHOWN]
    lines = [
        (name, f"{count:,}", f"{count / r.train_step_instructions:.1%}", f"{macs:,}" if macs else "-",
         f"{count / macs:.2f}" if macs else "-") for name, (count, macs) in named
    ]  # fmt: skip
    return markdown(("call", "instructions", "share", "MAC", "instructions per MAC"), lines)


LOWERED_HEAD = ("board", "gradients", "arena", "without", "step", "without", "extra", "inference", "without", "by")


def lowered_cells(r: Row) -> tuple[str, ...]:
    """The lowered arena, and the instructions it cost."""
    step, before = r.train_step_instructions, r.unlowered_train_step_instructions
    kinds = ", ".join(f"{kind} {count / 1e6:+.2f} M" for kind, count in r.lowered_instructions.items()
                      if abs(count) >= 10_000)  # fmt: skip
    return (
        r.board, f"{r.grad}{r.marked}", kb(r.arena_bytes), kb(r.unlowered_arena_bytes),
        f"{step / 1e6:.2f} M", f"{before / 1e6:.2f} M", f"{100 * (step / before - 1):+.1f} %",
        f"{r.predict_instructions / 1e6:.2f} M", f"{r.unlowered_predict_instructions / 1e6:.2f} M", kinds,
    )  # fmt: skip


def lowered_text(found: list[Row]) -> list[str]:
    rows = [r for r in found if r.unlowered_arena_bytes]
    if not rows:
        return []
    words = (
        "The planner spends instructions where that lowers the peak ([streaming.md](streaming.md)). *Without* is the "
        "same graphs\nplanned without that, with the whole image in memory. Both learn the same bytes, and are counted "
        "on the same core with enough\nSRAM. *By* is what the extra instructions of a step were spent on."
    )
    return [f"## What a smaller arena costs ({LOWERING})", words, markdown(LOWERED_HEAD, map(lowered_cells, rows))]


READING = """\
What one training step and one prediction cost on three cores. For a model of your own:

```sh
insitu compile model.onnx --board stm32f746 --measure -o build
```

Instructions (not cycles) and bytes are exact: the firmware runs on an emulated core, and every byte of the linked
image counts. Batch 1, 10 classes for the three checkpoints, `last:2` for the MLPerf Tiny models. The second step is
counted: in the first, a head of zeros gives no gradients. KB = 1,000 bytes. `make bench-mcu` (bench/mcu.py) writes
this page.

How to read the tables:

* **Flags.** Each row names its flags. Without any, a program takes the fewest instructions that fit half of the
  board's SRAM, or all of it if that is not enough. `--prefer memory` takes the least memory, `--prefer speed` the
  fewest instructions that fit the board ([streaming.md](streaming.md)).
* **Parts of the arena.** *input* is the image, or the rows of it that are held; *forward* is the forward part of a
  step. *inference only* is the arena of a program that only predicts.
* **State.** If the state is larger than the arena, SRAM has room for two states: a new one is received completely
  before it replaces the old one. If SRAM is short, or that saves a tenth of it with `--prefer memory`, the state is
  received *in place*.
* ***published*** is the Tiny Training Engine on a Cortex-M7, counted in the same way."""


def page(found: list[Row], others: dict) -> str:
    first = next((r for r in found if f"{r.model}/{r.scheme}" == LOWERING and r.grad == "s16" and r.fits), None)
    parts = [
        "# Training on a microcontroller, counted",
        READING,
        "![SRAM and instructions](mcu.svg)",
        markdown(HEAD, [published_cells(), *map(cells, found)]),
        *lowered_text(found),
    ]
    if first:
        parts += [
            f"## Where the instructions of a step go ({first.model}/{first.scheme}, {first.board})",
            breakdown(first),
        ]
        parts += ["## Compared with frameworks", peers_text(first, others)]
    parts += ["## Where it ran", "\n".join(f"* {k}: {v}" for k, v in machine().items())]
    return "\n\n".join(parts) + "\n"


def peers_text(row: Row, others: dict) -> str:
    lines = [(name, f"{o['process_mb']:.0f} MB", f"{o['process_mb'] * 1e6 / row.sram_bytes:,.0f}x",
              f"{o['step_mb']:.1f} MB", f"{o['step_mb'] * 1e6 / row.sram_bytes:,.0f}x")
             for name, o in others.items() if "process_mb" in o]  # fmt: skip
    missing = [f"* {name}: {o['why']}" for name, o in others.items() if "why" in o]
    words = (
        f"The same network in float, one full training step at batch 1, in its own process: the peak memory, and how "
        f"much of it the\nstep added after everything was loaded. Ours is {kb(row.sram_bytes)} in total."
    )
    head = ("framework", "whole process", "times ours", "added by training", "times ours")
    return "\n\n".join([words, markdown(head, lines), *missing])


def write(data: dict) -> None:
    (ROOT / "bench" / "mcu.json").write_text(json.dumps(data, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    options = parser.parse_args(arguments)
    wanted = [r for r in rows() if options.only in r.name]
    with ProcessPoolExecutor(max_workers=options.jobs) as pool:
        found = []
        for row in pool.map(measure, wanted):
            said = row.why or f"{row.train_step_instructions:,} instructions per step"
            print(f"{row.name}: {said}", file=sys.stderr, flush=True)
            found.append(row)
            write({"machine": machine(), "rows": [asdict(r) for r in found], "published": PUBLISHED})
    others = peers() if not options.only or "mcunet" in options.only else {}
    data = {"machine": machine(), "rows": [asdict(r) for r in found], "published": PUBLISHED, "peers": others}
    write(data)
    print(table(HEAD, [published_cells(), *map(cells, found)]))
    counted = [r for r in found if r.unlowered_arena_bytes]
    if counted:
        print(f"\n{table(LOWERED_HEAD, map(lowered_cells, counted), widest=120)}")
    if not options.only:
        (ROOT / "docs" / "mcu.md").write_text(page(found, others))
        (ROOT / "docs" / "mcu.svg").write_text(plot([asdict(r) for r in found], PUBLISHED))
    return 0


if __name__ == "__main__":
    sys.exit(main())
