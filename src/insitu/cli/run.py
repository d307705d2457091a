"""`insitu run DIR`: train with a board's firmware, emulated or over a serial line, and show what it needs."""

from __future__ import annotations

import shlex
from pathlib import Path

from insitu.cli.again import again
from insitu.cli.groups import Groups
from insitu.cli.output import add_label, say, show, tell
from insitu.cli.values import amount, count, index, rate, saved_file
from insitu.cli.watching import INTERRUPTED, interrupted, kept_by, told, watched
from insitu.deploy.folder import LEARNER, MANIFEST
from insitu.deploy.manifest import read_manifest
from insitu.errors import DataError
from insitu.files import check_source
from insitu.learner.given import kept
from insitu.terminal.interrupts import AtOnce
from insitu.terminal.progress import bar, stage

NOISE_RATE = 0.01  # random samples teach nothing: only the time of a step is of interest
HELP = "train with a board's firmware: emulated here, or on the board itself"
EXAMPLES = """\
  insitu run build/ --data samples.npz --epochs 3        on the emulated board, with your samples
  insitu run build/ --steps 10                           on random samples, to measure a step
  insitu run build/ --on serial:/dev/ttyACM0 --data x.npz  on the board
  insitu run build/ --on serial:socket://10.0.0.7:2000 --steps 2  on a board behind a network adapter
  insitu run build/ --rung head --data x.npz             with the smallest of several schemes in one image
  insitu run build/ --on qemu --steps 2                  on another emulator, if QEMU is installed
"""


def arguments(parser) -> None:
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="the folder that `insitu compile --board ... -o DIR` wrote"
    )
    groups = Groups(parser)
    groups.data.add_argument("--data", metavar="FILE", help="samples with labels to train on")
    groups.data.add_argument(
        "--steps", type=count, metavar="N", help="use the first N samples of the data; without --data, N random ones"
    )
    add_label(groups.data)
    groups.data.add_argument("--load", type=Path, metavar="FILE", help="start from this state, or a learner's")
    add_course(groups.how)
    groups.how.add_argument(
        "--rung", metavar="S", help="one of the schemes of `compile --scheme head+ladder:7+...` (the largest)"
    )
    add_place(groups.board)
    groups.output.add_argument(
        "--save",
        type=saved_file,
        metavar="FILE",
        help="write the learner (.insitu) or its state (.bin): at the end, every few minutes, at Ctrl-C",
    )
    groups.add_report()


def add_course(group) -> None:
    group.add_argument("--epochs", type=count, default=1, metavar="N", help="(1)")
    group.add_argument("--rate", type=amount, metavar="R", help="learning rate (default: measured with a few samples)")
    group.add_argument("--batch", type=count, metavar="N", help="samples per update (default: as compiled)")
    group.add_argument("--seed", type=index, default=0, metavar="N", help="(0)")


def add_place(group) -> None:
    """Where it runs, and how long a request may take."""
    group.add_argument("--on", default="emulator", metavar="WHERE", help="emulator, qemu or serial:PORT (emulator)")
    group.add_argument(
        "--baud", type=count, metavar="N", help="of the serial port (default: as the board's profile says)"
    )
    group.add_argument("--limit", type=count, metavar="N", help="most instructions per request, emulated (2e10)")
    group.add_argument("--timeout", type=rate, metavar="S", help="most seconds per request on qemu or a board (600)")


def run(arguments) -> int:
    from insitu.reports.run import described

    check(arguments)
    with opened(arguments) as learner:
        name, board, _ = described(learner)
        say(f"{name} on {board.name}, {arguments.on}")
        training, test = samples(learner, arguments)
        before = outputs(learner, test, "before training")
        try:
            history = fit(learner, training, arguments)
        except AtOnce:  # the device may be in the middle of a step: it cannot be asked for its state
            say("stopped at once; what was learned since the last save is lost")
            return INTERRUPTED
        except KeyboardInterrupt:
            with stage("reading the state"):
                return interrupted(learner, arguments.save, "--save", lambda: continued(arguments))
        try:
            report = measured(learner, history, training, test, before, arguments)
        except KeyboardInterrupt:
            return told(arguments.save, continued(arguments)) if arguments.save else INTERRUPTED
    files = [str(path) for path in (arguments.save, arguments.report) if path]
    written = "".join(f"\nwritten to {path}" for path in files)
    show(arguments, report.to_text() + written, {**report.to_json(), "output": arguments.save and str(arguments.save)})
    return 0


def check(arguments) -> None:
    """What can be told before the firmware is built."""
    check_source(arguments.folder)
    if not (arguments.folder / MANIFEST).is_file():
        read_manifest(arguments.folder)  # says what the folder is instead
    if not arguments.data and not arguments.steps:
        raise DataError("nothing to train on", hint="--data FILE, or --steps N for random samples")
    if arguments.save and kept(arguments.save) == "learner" and not (arguments.folder / LEARNER).is_file():
        raise DataError("a board's folder has no model to save", hint="--save state.bin keeps what it learned")


def opened(arguments):
    """The learner of the folder, with the state to start from."""
    from insitu.learner.folder import open_folder

    patience = {"limit": arguments.limit, "timeout": arguments.timeout, "baud": arguments.baud}
    with stage(f"building and starting the firmware on {arguments.on}"):
        learner = open_folder(arguments.folder, arguments.on, **patience)
    try:
        rung = getattr(arguments, "rung", None)  # `insitu live` has none
        learner = learner.rung(rung) if rung else learner
        if arguments.load:
            with stage(f"sending the state {arguments.load}"):
                learner.load(arguments.load)
    except BaseException:
        learner.close()
        raise
    return learner


def fit(learner, training, arguments):
    """Train as `fit(..., schedule="constant", warmup=0)` does on the host, and keep what was learned."""
    rate = arguments.rate if arguments.data or arguments.rate else NOISE_RATE
    with watched(learner, arguments.save) as progress:
        history = learner.fit(
            training, epochs=arguments.epochs, rate=rate, batch=arguments.batch, schedule="constant", warmup=0,
            seed=arguments.seed, progress=progress,
        )  # fmt: skip
    tell(history)
    if arguments.save:
        with stage("reading the state"):
            kept_by(learner.save, arguments.save)
    return history


def continued(arguments) -> str:
    """The command that goes on from the saved state."""
    more = shlex.join(["--load", str(arguments.save)])
    return again(arguments.parser, arguments.words, model=str(arguments.folder), without={"load"}, more=more)


def measured(learner, history, training, test, before, arguments):
    """A report of what the training took and reached."""
    from insitu.reports.html import write_page
    from insitu.reports.page import About, outcome, report_of
    from insitu.reports.run import board_run

    found = None
    if test:
        found = outcome(learner, test, before, after=outputs(learner, test, "after training"))
    score = found.score() if found else None
    with stage("counting the instructions of a prediction"):
        run = board_run(learner, history, tuple(x[:1] for x in training.inputs), score and score.before,
                        score and score.after)  # fmt: skip
    if arguments.report:
        about = About(tests=tests(arguments.folder, arguments.save))
        write_page(report_of(learner, history, found, run.layers, about), arguments.report)
    return run


def tests(folder: Path, saved: Path | None) -> str:
    """The commands that measure what a board learned on samples it has not seen."""
    if saved and saved.suffix == ".insitu":
        return shlex.join(["insitu", "predict", str(saved), "--data", "FILE"])
    kept = shlex.join(["insitu", "run", str(folder), "--data", "FILE", "--save", "NAME.insitu"])
    return f"{kept}, then insitu predict NAME.insitu --data FILE"


def outputs(learner, test, when: str):
    """The outputs for the test samples, with progress; None if there are none."""
    from insitu.reports.page import outputs_of

    if not test:
        return None
    with bar() as report:
        return outputs_of(learner, test, report, f"predicting test samples {when}")


def labelled(arguments, graph, targets: bool = False):
    """The samples of a table whose column of labels is named."""
    from insitu.data import as_samples

    return as_samples(arguments.data, graph, targets=targets, every=False, label=arguments.label)


def samples(learner, arguments):
    """What to train on, random where no file is given; and what to measure on, where the file has a test part."""
    from insitu.data import read_held_out
    from insitu.data.noise import random_samples
    from insitu.devices.device import method_of
    from insitu.training.train import has_targets

    graph, targets = learner.graphs["predict"], has_targets(learner.recipe)
    if not arguments.data:
        count = max(arguments.steps, method_of(learner.device.verbs).samples)
        return random_samples(graph, count, arguments.seed, targets=targets), None
    data = labelled(arguments, graph, targets) if arguments.label else arguments.data
    found = learner.samples(data)
    test = None if targets else read_held_out(arguments.data, graph)
    test = test and learner.samples(test, part="test")
    return (found if arguments.steps is None else found.head(arguments.steps)), test
