"""`insitu compile MODEL`: a training program in C, and the memory it needs. Defines the options shared with `train`."""

from __future__ import annotations

from pathlib import Path

from insitu.cli.groups import Groups
from insitu.cli.model import add_model, add_shape, loaded, taking
from insitu.cli.output import add_data, counted, read_data, say, show
from insitu.cli.values import amount, audio, classes, count, height_width, index, motion, numbers, size, target_folder
from insitu.graph.classes import class_words
from insitu.ops.pixels import CAMERAS

HELP = "turn a model into a C program that trains it, and show how much memory it needs"
EXAMPLES = """\
  insitu compile model.tflite --classes 10                            a new head; as much is trained as fits
  insitu compile model.onnx --data x.npz --classes 4 --scheme last:6  calibrated on x.npz, six layers trained
  insitu compile net.pkl --classes 10 --scheme bias:22 --sram 256K -o net_c
  insitu compile net.pkl --classes 10 --board stm32f746 -o build      with firmware; every byte accounted for
  insitu compile net.pkl --classes 10 --board rp2040 --measure        count the instructions of an emulated step
  insitu compile net.pkl --classes 10 --board rp2040 --sram 200K      the fewest instructions within 200 KB
  insitu compile net.pkl --classes 10 --board rp2040 --prefer memory  as little memory as possible
  insitu compile net.pkl --classes 10 --state state.bin -o net_c      the program starts from this state
  insitu compile gesture.insitu --board nrf52840 -o build             a learner, with all that it has learned
"""
LOSSES = ("cross_entropy", "soft_cross_entropy", "binary_cross_entropy", "mse")
OPTIMIZERS = ("sgd", "momentum", "adam")
ARITHMETICS = ("residual", "residual4", "stochastic", "nearest", "master")
GRADIENTS = ("f32", "s16", "s8")
PREFERENCES = ("balance", "memory", "speed")
STORE_RULES = ("balanced", "oldest", "informative", "typical")


def arguments(parser) -> None:
    add_model(parser)
    groups = Groups(parser)
    add_shape(groups.data)
    add_data(groups.data, required=False, help="samples to calibrate a float model for int8")
    groups.data.add_argument("--state", type=Path, metavar="FILE", help="start from this state (`insitu train --save`)")
    add_compiler(groups)
    groups.board.add_argument(
        "--measure", action="store_true", help="count instructions on the emulated board, and the cost of saving memory"
    )
    groups.output.add_argument(
        "-o", "--output", metavar="DIR", type=target_folder, help="write the C program to this folder"
    )
    groups.add_report()


def add_compiler(groups: Groups, program: bool = True) -> None:
    """Add the options of `insitu.compile`; without `program`, only those that say what there is to choose from."""
    add_trained(groups.trained, program)
    add_how(groups.how)
    add_board(groups.board, program)
    add_pixels(groups.pixels)
    add_sound(groups.pixels)
    if program:
        groups.output.add_argument("--dump", metavar="DIR", type=Path, help="write one text file per stage")


def add_trained(group, program: bool) -> None:
    if program:
        words = "auto (as much as fits), head, full, last:6, bias:22, ladder:40, lora:4, a name or a file (auto)"
        group.add_argument("--scheme", default="auto", metavar="S", help=words)
    group.add_argument(
        "--classes",
        type=classes,
        metavar="N",
        help="new head: N classes, or names: rest,wave (default: as the data)",
    )
    group.add_argument(
        "--max-classes", type=count, metavar="N", help="room in the head for classes that are added later"
    )
    group.add_argument("--head", choices=("float", "int8"), default="float", help="arithmetic of the head (float)")
    group.add_argument("--head-after", metavar="LAYER", help="put the new head on this layer's output")
    group.add_argument(
        "--head-init", choices=("own", "zero", "uniform", "prototypes"),
        help="weights of the head: the model's own, or a new one's (own if it knows the classes, else zero)",
    )  # fmt: skip
    group.add_argument("--precision", choices=("int8", "float"), default="int8", help="arithmetic of the layers (int8)")
    group.add_argument(
        "--rounding", choices=("single", "litert"),
        help="of int8 results: once, as XNNPACK; or as LiteRT's reference kernels (as the model has it, else single)",
    )  # fmt: skip


def add_how(group) -> None:
    losses = ", ".join(LOSSES)
    group.add_argument("--batch", type=count, default=1, metavar="N", help="samples per update (1)")
    group.add_argument("--loss", choices=LOSSES, default=LOSSES[0], metavar="L", help=f"{losses} ({LOSSES[0]})")
    group.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd", help="for float parameters (sgd)")
    group.add_argument(
        "--arithmetic", choices=ARITHMETICS, default="residual", help="updates of int8 weights (residual)"
    )
    group.add_argument("--grad", choices=GRADIENTS, help="type of gradients in int8 layers (f32; on a board s16)")
    group.add_argument(
        "--clip",
        type=amount,
        metavar="NORM",
        help="clip gradients to this norm; 0: no limit (default: no step longer than a tenth of a layer's weights)",
    )
    group.add_argument("--decay", type=amount, default=0.0, metavar="D", help="weight decay (0)")
    group.add_argument("--smoothing", type=amount, default=0.0, metavar="S", help="label smoothing, e.g. 0.1 (0)")
    group.add_argument("--seed", type=index, default=0, metavar="N", help="(0)")


def add_board(group, program: bool) -> None:
    group.add_argument("--board", default="host", metavar="B", help="a board's name or profile.json (`insitu boards`)")
    group.add_argument(
        "--sram", type=size, metavar="BYTES", help="SRAM a step may use in total, e.g. 256K (K is 1,024)"
    )
    group.add_argument(
        "--flash", type=size, metavar="BYTES", help="flash the constants (on a board: the program) may use, e.g. 1M"
    )
    if program:
        group.add_argument(
            "--prefer", choices=PREFERENCES, default=PREFERENCES[0],
            help="on a board: the fewest instructions within --sram, or half of its SRAM (balance) or all (speed); or "
            "the least memory",
        )  # fmt: skip
        group.add_argument(
            "--store",
            type=size,
            metavar="BYTES",
            help="on a board: flash or SRAM for samples that it collects, e.g. 64K",
        )
        group.add_argument(
            "--store-rule", choices=STORE_RULES, help=f"what gives way when that is full ({STORE_RULES[0]})"
        )
        group.add_argument(
            "--class-cost", type=float, metavar="SHARE",
            help="of the others' samples in the store, which a class that is added may take (0), e.g. 0.02",
        )  # fmt: skip
    group.add_argument("--rows", action="store_true", help="the image or sound arrives row by row, never whole")


def add_pixels(group) -> None:
    group.add_argument("--mean", type=numbers, metavar="M,..", help="mean of pixels in 0..1: the program takes bytes")
    group.add_argument("--std", type=numbers, metavar="S,..", help="standard deviation of pixels in 0..1")
    group.add_argument("--size", type=height_width, metavar="HxW", help="size of the incoming images")
    group.add_argument("--crop", type=height_width, metavar="HxW", help="keep the middle of the images")
    group.add_argument(
        "--camera",
        choices=CAMERAS,
        default="rgb",
        help="the bytes of a pixel as a camera gives them; photos of --data are turned into them (rgb)",
    )
    group.add_argument("--raw-pixels", action="store_true", help="the model's int8 input is pixel - 128")


def add_sound(group) -> None:
    group.add_argument(
        "--audio", type=audio, nargs="?", const={}, metavar="NAME=VALUE,..",
        help="the program takes int16 sound, 16 kHz, and computes MFCC; other features: fields of insitu.Audio, e.g. "
        "coefficients=none for bands, scale=pcen for noisy places",
    )  # fmt: skip
    group.add_argument(
        "--motion", type=motion, nargs="?", const={}, metavar="NAME=VALUE,..",
        help="the program takes readings of a sensor, filters and normalises them: fields of insitu.Motion",
    )  # fmt: skip


def run(arguments) -> int:
    from insitu.deploy.tradeoff import with_choices
    from insitu.learner.learned import learned_deployment, measured_deployment, with_life, write

    if arguments.measure:
        check_measured(arguments.board)
    learner, samples = build(arguments, arguments.data, schemes=True)
    if samples is not None:
        say(f"calibrated on {counted(samples)}")
    if arguments.state:
        learner.load(arguments.state)
    deployed = measured_deployment(learner) if arguments.measure else learned_deployment(learner)
    deployed = with_life(deployed)
    deployed = deployed and with_choices(deployed, counted=arguments.measure)
    report = {**describe(learner, deployed), "state": arguments.state and str(arguments.state)}
    if arguments.output:
        written = write(learner, arguments.output, deployed)
        report |= {"output": str(arguments.output), "files": len(written)}
    if arguments.report:
        write_report(learner, samples, arguments)
        report |= {"report": str(arguments.report)}
    show(arguments, to_text(report), report)
    return 0


def write_report(learner, samples, arguments) -> None:
    """The page about what was compiled; if it has learned, measured on the given samples."""
    from insitu.reports.html import write_page
    from insitu.reports.page import FILE, About, outcome, report_of

    found = None
    if samples is not None and samples.labels is not None and learner.has_learned:
        found = outcome(learner, learner.samples(samples, part="test"), name="samples of --data")
    file = str(arguments.model) if Path(arguments.model).suffix == ".insitu" else FILE
    about = About(file=file, folder=str(arguments.output or ""))
    write_page(report_of(learner, None, found, about=about), arguments.report)


def check_measured(board: str) -> None:
    """Raise, before anything is compiled, if instructions cannot be counted on this board."""
    from insitu.boards import find_board
    from insitu.devices.emulator import check_emulated
    from insitu.errors import BoardError

    if board == "host":
        raise BoardError("instructions are counted on an emulated board", hint="--board NAME; insitu boards lists them")
    check_emulated(find_board(board))


def build(arguments, data: str | None, schemes: bool = False):
    """The learner, and the samples read from `data`; a float model is calibrated on them.

    With `schemes`, the learner of a file may get another scheme."""
    from insitu import pipeline
    from insitu.cli.reopen import reopen
    from insitu.graph.file import is_learner
    from insitu.training.train import has_targets

    if is_learner(arguments.model):
        return reopen(arguments, data, schemes)
    graph = taking(loaded(arguments, pipeline.load), arguments.pixels)
    transform = transform_of(arguments, graph)
    graph = transform.applied_to(graph) if transform else graph
    samples = read_data(arguments, graph, data, targets=has_targets(recipe(arguments))) if data else None
    learner = pipeline.compile(
        graph, classes=arguments.classes, data=samples, scheme=arguments.scheme, precision=arguments.precision,
        batch=arguments.batch, head=arguments.head, head_after=arguments.head_after, head_init=arguments.head_init,
        rounding=arguments.rounding, recipe=recipe(arguments), board=arguments.board, sram=arguments.sram,
        flash=arguments.flash, prefer=arguments.prefer, seed=arguments.seed, dump=arguments.dump,
        max_classes=arguments.max_classes, store=arguments.store, store_rule=arguments.store_rule,
        class_cost=arguments.class_cost,
    )  # fmt: skip
    return learner, samples


def recipe(arguments):
    from insitu.training.train import Recipe

    clip = {} if arguments.clip is None else {"clip": arguments.clip}
    names = ("loss", "optimizer", "arithmetic", "decay", "smoothing", "seed", "grad", "rows")
    return Recipe(**{name: getattr(arguments, name) for name in names}, **clip)


def transform_of(arguments, graph):
    from dataclasses import replace

    from insitu.preprocess import Audio, Motion, Transform

    if arguments.audio is not None:
        return Audio(**arguments.audio)
    if arguments.motion is not None:
        return Motion(**arguments.motion)
    camera = {"size": arguments.size, "crop": arguments.crop, "format": arguments.camera}
    if arguments.raw_pixels:
        return replace(Transform.raw(graph), **camera)
    made = Transform(arguments.mean or 0.0, arguments.std or 1.0, **camera)
    return None if made == Transform() and arguments.mean is None and arguments.std is None else made


def describe(learner, deployed=None) -> dict:
    """What a program trains, and the memory it needs."""
    parts, deployed = learner.parts, deployed or learner.deployed
    program = deployed.program if deployed else learner.program
    return {
        "model": parts.forward.name,
        "scheme": parts.scheme.name,
        "classes": learner.classes,
        "names": list(learner.names),
        "measure": learner.measure,
        "trained": sorted(learner.graphs["predict"].state),
        **(deployed.figures() if deployed else learner.info()),
        "kernels": len(program.kernels),
    }


def to_text(report: dict) -> str:
    from insitu.deploy import IN_PLACE
    from insitu.deploy.choices import choices_table
    from insitu.deploy.lowering import lowering_rows, lowering_table
    from insitu.planner.spent import spent_text
    from insitu.terminal.table import pairs, size

    trained, files, bound = report["trained"], report.get("files"), size(report["arena_lower_bound_bytes"])
    lines = pairs([
        ("model", report["model"]),
        ("scheme", f"{report['scheme']}, {len(trained)} trained tensors"),
        (_gives(report), class_words(report["classes"], report.get("names", ()))),
        ("arena", f"{size(report['arena_bytes'])} (lower bound {bound}){_kept(report)}"),
        *lowering_rows(spent_text(report.get("lowered", {})), report.get("lowering")),
        ("state", size(report["state_bytes"]) + (f", {IN_PLACE}" if report.get("in_place") else "")),
        ("constants", size(report["const_bytes"])),
        *([(f"total {m}", _share(report, m.lower())) for m in ("SRAM", "flash")] if "board" in report else []),
        *([("", report["note"])] if report.get("note") else []),
        *_instructions(report),
        *life_rows(report.get("life")),
        *([("starts from", report["state"])] if report.get("state") else []),
        *([("written to", f"{report['output']} ({files} files)")] if files else []),
    ])  # fmt: skip
    tables = choices_table(report.get("choices")), lowering_table(report.get("lowering"))
    return "\n\n".join(filter(None, (lines, *tables)))


def _gives(report: dict) -> str:
    return "classes" if report.get("measure", "accuracy") == "accuracy" else "outputs"


def _kept(report: dict) -> str:
    """What to say if the memory reserved for the arena is larger than the arena."""
    from insitu.terminal.table import size

    place = report.get("sram", {}).get("arena", 0)
    return f", {size(place)} reserved to receive a state" if place > report["arena_bytes"] else ""


def _instructions(report: dict) -> list[tuple[str, str]]:
    """The instructions of each function, if they were counted."""
    known = ("train_step", "accumulate", "apply", "encode", "recall", "learn", "predict")
    counts = {verb: report.get(f"{verb}_instructions") for verb in known}
    return [(verb, f"{count:,} instructions") for verb, count in counts.items() if count is not None]


def life_rows(life: dict | None) -> list[tuple[str, str]]:
    """What a program keeps, and what that costs."""
    from insitu.terminal.table import size

    if not life:
        return []
    each = f"{life['capacity']:,} of {size(life['latent_bytes'])} in {life['in']}"
    rows = [("samples", f"{each}, {life['classes']} classes at most")]
    if "slice_instructions" in life:
        most = f"{life['observe_instructions']:,} instructions, the most that was counted (store full; no proof)"
        rows.append(("keeping one", most))
        slowest = f"{life['slice_instructions']:,} instructions ({life['slice']}), the most that was counted"
        rows.append(("worst slice", slowest))
    return rows


def _share(report: dict, memory: str) -> str:
    from insitu.terminal.table import size

    parts = ", ".join(f"{name} {size(count)}" for name, count in report.get(memory, {}).items() if count)
    return (
        f"{size(report[memory + '_bytes'])} of {size(report[memory + '_budget_bytes'])}{f' ({parts})' if parts else ''}"
    )
