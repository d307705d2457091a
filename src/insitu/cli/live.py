"""`insitu live DIR`: what a board that lives is doing; or let an emulated one live through samples of yours."""

from __future__ import annotations

from pathlib import Path

from insitu.cli.groups import Groups
from insitu.cli.output import add_label, say, show
from insitu.cli.run import add_place
from insitu.cli.values import amount, count, rate
from insitu.data import Samples
from insitu.terminal.progress import bar, stage

HELP = "show what a board that collects and learns by itself is doing"
UNKNOWN = 0.01  # the rate of a bout if there is no sample that it could follow from
EXAMPLES = """\
  insitu live build --on serial:/dev/ttyACM0                      what has it seen, learned, worn out?
  insitu live build --on serial:/dev/ttyACM0 --every 60           again every minute, until Ctrl-C
  insitu live build --data day.npz --rehearse 50                  an emulated board sees these samples, then learns
  insitu live build --data day.npz --flash board.flash            its flash is kept in a file: next time it goes on
  insitu live build --add-class squat --data squats               one class more, by name, and its samples
  insitu live build --on serial:/dev/ttyACM0 --export kept.npz    its samples: latents with labels
  insitu live build --on serial:/dev/ttyACM0 --erase              everything is deleted, also from its flash
  insitu compile net.onnx --classes 4 --board nrf52840 --store 64K -o build    makes such a program
"""


def arguments(parser) -> None:
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="the folder that `insitu compile --store ... -o DIR` wrote"
    )
    groups = Groups(parser)
    groups.data.add_argument("--data", metavar="FILE", help="show it these samples first")
    add_label(groups.data)
    groups.data.add_argument("--samples", type=count, metavar="N", help="only the first N of them")
    groups.data.add_argument(
        "--labelled", type=amount, default=1.0, metavar="S", help="the share of them that come with a label (1)"
    )
    groups.data.add_argument("--add-class", metavar="NAME", help="first of all, take a new class")
    groups.data.add_argument("--forget", metavar="NAME", help="first of all, drop a class and its samples")
    groups.data.add_argument(
        "--forget-unlabelled", action="store_true", help="first of all, drop samples without a label"
    )
    groups.data.add_argument("--erase", action="store_true",
                             help="first of all, delete everything, also from its flash")  # fmt: skip
    groups.data.add_argument("--export", type=Path, metavar="FILE", help="last of all, write its samples to this .npz")
    groups.how.add_argument("--rehearse", type=count, metavar="N", help="then let it learn in a bout of N steps")
    groups.how.add_argument("--rate", type=rate, metavar="R",
                            help=f"learning rate of the bout (follows from --data; {UNKNOWN} without)")  # fmt: skip
    groups.how.add_argument("--partial", action="store_true", help="even if it has no sample of some class in use")
    groups.how.add_argument("--checkpoint", action="store_true", help="then write a checkpoint")
    groups.how.add_argument("--every", type=rate, metavar="S", help="look again every S seconds, until Ctrl-C")
    add_place(groups.board)
    groups.board.add_argument("--flash", type=Path, metavar="FILE", help="the emulated board's flash, kept in a file")


def run(arguments) -> int:
    import time

    from insitu.cli.run import opened

    arguments.load = None
    learner = opened(arguments)
    with learner:
        life = life_of(learner)
        take_flash(life, arguments.flash)
        try:
            lead(learner, life, arguments)
        finally:  # what a board has kept by then stays in its flash
            keep_flash(life, arguments.flash)
        while True:
            found = seen(learner, life, arguments.on)
            show(arguments, to_text(found), found)
            if arguments.every is None:
                return 0
            time.sleep(arguments.every)


def life_of(learner):
    from insitu.devices.link import LinkDevice
    from insitu.devices.living import Living

    assert isinstance(learner.device, LinkDevice)
    return Living(learner.device)


# an emulated board's flash ----------------------------------------------------------------------


def take_flash(life, path: Path | None) -> None:
    """Start again with the flash of an earlier day."""
    if path is None:
        return
    nor = flash_of(life)
    check_place(path)
    if path.exists():
        data = path.read_bytes()
        check_flash(data, nor, path)
        nor.load(life.device.core.uc, data)
        life.device.restart()


def keep_flash(life, path: Path | None) -> None:
    from insitu.files import write_whole

    if path is not None:
        nor = flash_of(life)
        write_whole(path, life.device.core.peek(nor.origin, nor.bytes))


def flash_of(life):
    from insitu.devices.emulator import EmulatorDevice
    from insitu.errors import DataError

    nor = life.device.core.nor if isinstance(life.device, EmulatorDevice) else None
    if nor is None:
        raise DataError("--flash is for an emulated board that keeps its samples in flash", hint="--on emulator")
    return nor


def check_place(path: Path) -> None:
    """It is written only at the end: a place that cannot be one must be told before the board has learned."""
    from insitu.errors import DataError

    if not path.parent.is_dir():
        raise DataError(f"there is no folder {path.parent}", where=str(path), hint="make it first")
    if path.exists() and not path.is_file():
        raise DataError("is not a file", where=str(path), hint="--flash FILE: a file of its own, made if there is none")


def check_flash(data: bytes, nor, path: Path) -> None:
    from insitu.errors import DataError

    if len(data) != nor.bytes:
        hint = "each folder needs a file of its own"
        raise DataError(f"has {len(data):,} bytes, this board's flash {nor.bytes:,}", where=str(path), hint=hint)


# its life ---------------------------------------------------------------------------------------


def lead(learner, life, arguments) -> None:
    """Classes that come and go; then show it samples, and let it learn."""
    if arguments.erase:
        life.erase()
    if arguments.forget:
        life.forget(arguments.forget)
    if arguments.forget_unlabelled:
        say(f"{life.forget_unlabelled():,} samples without a label dropped")
    if arguments.add_class:
        from insitu.store.verdict import note_missing_on

        note_missing_on(life)
        life.add_class(arguments.add_class)
    if any(life.names):
        learner.rename(life.names)
    told = shown(learner, life, arguments) if arguments.data else None
    if arguments.rehearse:
        rate = found_rate(learner, told) if arguments.rate is None else arguments.rate
        with stage("a bout of learning"):
            life.rehearse(arguments.rehearse, rate, arguments.partial)
    if arguments.checkpoint:
        life.checkpoint()
    if arguments.export:
        from insitu.store.export import export_board

        say(f"{life.statistics()['kept']:,} samples in {export_board(life, arguments.export)}")


def found_rate(learner, told: Samples | None) -> float:
    """The rate for samples like those that were told with their class; without any, one that suits many networks."""
    from insitu.store.on_board import rate_for

    if told is None or not len(told):
        say(f"note: rate {UNKNOWN}, because no labelled sample was shown that it could follow from")
        return UNKNOWN
    found = rate_for(learner, told)
    say(f"rate {found:.2g}, from {len(told):,} labelled samples")
    return found


def shown(learner, life, arguments) -> Samples:
    """Every sample once, in order; of each ten, so many have their label, if there are any. Returns those."""
    found = read(learner, arguments.data, arguments.label)
    found = found if arguments.samples is None else found.head(arguments.samples)
    share = 0.0 if found.labels is None else arguments.labelled
    told = [i for i in range(len(found)) if int((i + 1) * share) > int(i * share)]
    labelled = set(told)
    with bar() as report:
        for i in range(len(found)):
            label = int(found.labels[i]) if found.labels is not None and i in labelled else -1
            life.observe(*(x[i] for x in found.inputs), label=label, told=False)
            report("showing samples", i + 1, len(found))
    say(f"{len(found):,} samples of {arguments.data}")
    return found.take(told)


def read(learner, path: str, label: str = "") -> Samples:
    """Samples for a board: with their classes, or without any labels."""
    from insitu.data import as_samples

    found = as_samples(path, learner.graphs["predict"], label=label)
    for note in found.notes:
        say(f"note: {path}: {note}")
    return found if found.labels is None else learner.samples(found)


def seen(learner, life, place: str) -> dict:
    """What the device says, and what that means in energy."""
    from insitu.reports.run import described

    name, board, figures = described(learner)
    found = life.statistics()
    classes = life.class_statistics()
    guards = max(found["guards"], 1)
    spent, how = energy(life, found, figures)
    return {
        "model": name, "board": board.name, "on": place, **found, "capacity": life.capacity, "in": life.life["in"],
        "erases_in_all": life.erases(found),
        "classes": classes, "guard_accuracy": found["right"] / guards if found["guards"] else None,
        "instructions": spent, "counted": how, "millijoules": board.millijoules(spent) if spent else None,
        "slice_instructions": figures.get("life", {}).get("slice_instructions"),
    }  # fmt: skip


def energy(life, found: dict, figures: dict) -> tuple[int | None, str]:
    """Instructions of its life so far: exact on the emulator (since its start), else from counts of each function."""
    from insitu.devices.emulator import EmulatorDevice

    if isinstance(life.device, EmulatorDevice):
        return life.device.total, "counted since its start"
    each = {verb: figures.get(f"{verb}_instructions") for verb in ("recall", "learn")}
    if None in each.values():
        return None, ""
    sample = figures.get("encode_instructions", 0) + each["recall"]
    asked = 2 * found["bouts"] * found["guards"] * each["recall"]
    return found["observed"] * sample + found["steps"] * each["learn"] + asked, "estimated over its whole life"


def to_text(found: dict) -> str:
    from insitu.devices.living import PHASES, outcome
    from insitu.terminal.table import pairs, table

    started = "continued from a checkpoint" if found["continued"] else "started anew"
    doing = PHASES[found["phase"]] + (f", {found['left']} steps left" if found["left"] else "")
    rows = [
        ("board", f"{found['board']} on {found['on']}, {started}"),
        ("samples", f"{found['kept']} of {found['capacity']} kept in {found['in']}, {found['observed']} seen, "
                    f"{found['unlabelled']} kept without a label"),
        ("guards", outcome(found)),
        ("drift", drift_words(found)),
        ("bouts", f"{found['bouts']}, {found['undone']} rolled back, {found['steps']} steps; now {doing}"),
        ("flash", worn(found)),
        *_energy_rows(found),
    ]  # fmt: skip
    kept = [
        (c["name"] or str(k), c["labelled"], c["trainees"], c["guards"], "yes" if c["in_use"] else "no")
        for k, c in enumerate(found["classes"])
    ]
    return f"{pairs(rows)}\n\n{table(('class', 'labelled', 'to learn from', 'guards', 'in use'), kept)}"


def worn(found: dict) -> str:
    """Erases of pages, of the samples' and of the checkpoints'."""
    if not found["erases_in_all"] and not found["failures"]:
        return "no page erased yet" if found["in"] == "flash" else "not used"
    most = (found["checkpoints"] + 1) // 2  # two banks, in turn
    failed = f"; {found['failures']} operations failed" if found["failures"] else ""
    kept = found["erases_in_all"] - found["bank_erases"]
    return (f"{found['erases_in_all']} erases of pages in all: {kept} for samples "
            f"({found['wear']} of a page at most), {found['bank_erases']} for {found['checkpoints']} checkpoints "
            f"({most} of a page at most){failed}")  # fmt: skip


def drift_words(found: dict) -> str:
    """How far what it sees is from what it saw first."""
    from insitu.devices.living import COLLECT

    if found["usual"] < 64:
        return f"not known yet: {found['usual']} of the first 64 samples seen"
    ask = ": collect labels for what it sees now" if found["drift"] > COLLECT else ""
    return f"{found['drift']:.3g}{ask}; confidence {found['recent_confidence']:.0%}"


def _energy_rows(found: dict) -> list[tuple[str, str]]:
    rows = []
    if found["instructions"] is not None:
        spent = f", {found['millijoules']:.3g} mJ (estimate from the data sheet)" if found["millijoules"] else ""
        rows.append(("energy", f"{found['instructions']:,} instructions {found['counted']}{spent}"))
    if found["slice_instructions"]:
        rows.append(("worst slice", f"{found['slice_instructions']:,} instructions, the most that was counted"))
    return rows
