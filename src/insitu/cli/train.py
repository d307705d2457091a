"""`insitu train MODEL --data FILE`: train with the generated C, and keep what was learned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from insitu.cli.compile import add_compiler, build, describe
from insitu.cli.groups import Groups
from insitu.cli.model import add_model, add_shape
from insitu.cli.output import add_data, counted, read_data, say, show, tell
from insitu.cli.values import amount, count, index, model_file, rate, saved_file, share
from insitu.cli.watching import continued, interrupted, kept_by, unbegun, watched
from insitu.data import read_held_out
from insitu.data.samples import Samples, split
from insitu.errors import DataError
from insitu.learner.given import kept
from insitu.training.train import has_targets

HELP = "train a model with its generated C, and save what it learned"
EXAMPLES = """\
  insitu train model.tflite --data photos/ -o flowers.insitu      one class per folder; the file holds all of it
  insitu train flowers.insitu --data more/ -o flowers.insitu      goes on where it stopped
  insitu train flowers.insitu --data all/ --add-classes -o flowers.insitu     and learns the new classes too
  insitu train model.tflite --data photos/ --classes 5 --epochs 10 --save state.bin
  insitu train model.onnx --data x.npz --precision float --scheme full --rate 0.05 --split 0.8
  insitu train model.onnx --data x.npz --scheme last:4 --save-model learned.insitu
  insitu train net.pkl --data x.npz --classes 10 --epochs 20 --start-epoch 10 --resume state.bin --save state.bin
"""
WORDS = {"accuracy": "accuracy", "error": "squared error"}
DATA = (
    ".npz, .csv, or one folder of images, .wav or .csv files per class; an .npz's x_train trains, its x_test measures"
)


def arguments(parser) -> None:
    add_model(parser)
    groups = Groups(parser)
    add_shape(groups.data)
    add_data(groups.data, help=DATA)
    groups.data.add_argument("--test", metavar="FILE", help="samples to test on, before training and after each epoch")
    groups.data.add_argument(
        "--split", type=share, metavar="SHARE", help="train on this share of the data, test on the rest"
    )
    groups.data.add_argument(
        "--add-classes", action="store_true", help="a learner's file also learns classes that are new in the data"
    )
    groups.data.add_argument("--augment", action="store_true", help="crop, flip and colour images at random")
    groups.data.add_argument("--views", type=count, metavar="K", help="K fixed random variants of each sample, cached")
    add_course(groups.how)
    add_compiler(groups)
    groups.how.add_argument("--threads", type=count, metavar="N", help="threads per batch; changes no result")
    groups.output.add_argument("-o", "--save", "--output", dest="output", type=saved_file, metavar="FILE",
                               help="write the learner (.insitu), or only its state (.bin)")  # fmt: skip
    groups.output.add_argument(
        "--save-model", type=model_file, metavar="FILE", help="write the trained model (.insitu)"
    )
    groups.add_report()


def add_course(group) -> None:
    """Add the options of `fit`."""
    group.add_argument("--epochs", type=count, metavar="N", help="(default: follows from the number of samples)")
    group.add_argument("--rate", type=rate, metavar="R", help="highest learning rate (default: is found)")
    group.add_argument("--head-rate", type=rate, metavar="R", help="another rate for the head")
    group.add_argument("--effort", type=amount, default=1.0, metavar="N",
                       help="work to find what is not given, in multiples of the usual (1)")  # fmt: skip
    group.add_argument("--schedule", choices=("cosine", "constant"), default="cosine", help="(cosine)")
    group.add_argument("--average", type=index, default=0, metavar="N", help="epochs at the end to average (0)")
    group.add_argument(
        "--warmup", type=amount, metavar="N", help="epochs while the rate rises (a tenth of all, at most 1)"
    )
    group.add_argument("--resume", type=Path, metavar="FILE", help="start from a saved state")
    group.add_argument("--start-epoch", type=index, default=0, metavar="N", help="epochs already done (0)")
    group.add_argument("--stop-epoch", type=count, metavar="N", help="stop early, as if interrupted")


def run(arguments) -> int:
    from insitu.learner.learned import learned_model

    if arguments.output:
        kept(arguments.output)  # an unknown suffix is told before training
    learner, samples = build(arguments, arguments.data)
    training, test = _divided(learner, samples, arguments)
    if arguments.resume:
        learner.load(arguments.resume)
    if arguments.add_classes:
        _add_classes(learner, training, arguments.data)
    say(f"training on {counted(training)}{'' if test is None else f'; tested on {counted(test)}'}")
    try:
        tests, first = measured_on(learner, training, test)
        before = first.score().after
    except KeyboardInterrupt:
        return unbegun()
    start = learner.device.state()
    try:
        with watched(learner, arguments.output) as progress:
            history = fit(learner, training, test, arguments, progress)
        tell(history)
        if arguments.output:
            kept_by(learner.save, arguments.output)
        if arguments.save_model:
            kept_by(learned_model(learner).save, arguments.save_model)
        if arguments.report:
            write_report(learner, history, tests, first, arguments)
        written = [str(path) for path in (arguments.output, arguments.save_model, arguments.report) if path]
        report = {
            **describe(learner), **summary(history), "before": before, "written": written,
            "training": _about(training), "test": test and _about(test), "explained": _explained(learner, tests),
        }  # fmt: skip
        show(arguments, to_text(report, arguments.start_epoch), report)
    except KeyboardInterrupt:
        if same(start, learner.device.state()):  # rates were tried, no more
            return unbegun()
        return interrupted(learner, arguments.output, "-o", lambda: continued(arguments))
    return 0


def same(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(v, b[name]) for name, v in a.items())


def _add_classes(learner, training: Samples, where: str) -> None:
    from insitu.learner.growing import add_new_classes

    used = () if training.labels is None or not training.names else np.unique(training.labels)
    new = add_new_classes(learner, [training.names[i] for i in used], where)
    say(f"note: new classes: {', '.join(new)}" if new else "note: no class of the data is new")


def measured_on(learner, training: Samples, test: Samples | None):
    """The samples to measure on (without test samples, those of the training), and the outputs before training."""
    from insitu.reports.page import outcome

    samples = learner.samples(training if test is None else test, part="test", naming=test is None)
    return samples, outcome(learner, samples, name="training samples" if test is None else "test samples")


def write_report(learner, history, samples: Samples, first, arguments) -> None:
    """The page about this training."""
    from insitu.reports.html import write_page
    from insitu.reports.page import FILE, About, outcome, report_of

    found = outcome(learner, samples, first.after, first.name)
    about = About(file=str(arguments.output or FILE), tests="--test FILE or --split 0.8")
    write_page(report_of(learner, history, found, about=about), arguments.report)


def fit(learner, training: Samples, test: Samples | None, arguments, progress):
    return learner.fit(
        training, epochs=arguments.epochs, rate=arguments.rate, head_rate=arguments.head_rate, batch=arguments.batch,
        schedule=arguments.schedule, warmup=arguments.warmup, average=arguments.average, effort=arguments.effort,
        augment=_augment(learner, arguments), views=arguments.views, test=test, seed=arguments.seed,
        start_epoch=arguments.start_epoch,
        stop_epoch=arguments.stop_epoch, threads=arguments.threads, progress=progress,
    )  # fmt: skip


def _divided(learner, samples: Samples | None, arguments) -> tuple[Samples, Samples | None]:
    """The samples to train on and to test on: --test, the rest of a --split, or the test part of an .npz."""
    assert samples is not None  # --data is required
    if arguments.split and arguments.test:
        raise DataError("--split and --test both say what to test on", hint="give only one of them")
    if arguments.split:
        return split(samples, arguments.split, arguments.seed)
    graph, targets = learner.graphs["predict"], has_targets(learner.recipe)
    if arguments.test:
        return samples, read_data(arguments, graph, arguments.test, part="test", targets=targets)
    return samples, read_held_out(arguments.data, graph, pixels=arguments.pixels, targets=targets)


def _explained(learner, tests: Samples) -> float | None:
    """The share of the variance of the targets that the outputs explain; None for classes."""
    if learner.measure == "accuracy" or tests.labels is None:
        return None
    spread = float(np.square(tests.labels - tests.labels.mean(0)).mean())
    return 1 - learner.evaluate(tests)[learner.measure] / spread if spread else None


def _about(samples: Samples) -> dict:
    return {"source": samples.source, "samples": len(samples)}


def _augment(learner, arguments):
    from insitu.data.augment import Augment
    from insitu.data.source import source_of

    taken = source_of(learner.graphs["predict"])
    return Augment(bounds=arguments.pixels or taken.pixels, camera=taken.camera) if arguments.augment else None


def summary(history) -> dict:
    return {
        "loss": history.loss,
        "accuracy": history.accuracy,
        "error": history.error,
        "validation": history.validation,
        "tested": history.tested,
        "rate": history.rate,
        "head_rate": history.head_rate,
        "notes": history.notes,
        "counters": history.counters,
        "cached": history.cached,
        "threads": history.threads,
    }


def to_text(report: dict, start: int) -> str:
    from insitu.cli.compile import to_text as memory
    from insitu.terminal.table import table

    measure, tested, share = report["measure"], report["test"], report["explained"]
    explained = share and f"explains {share:.1%} of the variance of the {'test' if tested else 'training'} samples"
    numbers = map(str, range(start + 1, start + 1 + len(report["loss"])))
    columns = [report["loss"], report[measure], *([report["tested"]] if tested else [])]
    first = ("before", None, *([None] if tested else []), report["before"])
    rows = [first, *zip(numbers, *columns)]
    way = (
        "started from cached outputs of the frozen layers" if report["cached"] else "ran the whole network in each step"
    )
    counters = ", ".join(f"{n:,} {name}" for name, n in report["counters"].items())
    lines = [
        table(("epoch", "loss", WORDS[measure], *(["tested"] if tested else [])), rows), "",
        *([explained] if explained else []),
        f"training {way}; updates: {counters}", "", memory(report),
    ]  # fmt: skip
    return "\n".join(lines + [f"written to {path}" for path in report["written"]])
