"""`insitu train MODEL --data FILE`: train with the generated C, and keep what was learned."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

from insitu.cli.compile import add_compiler, build, describe, read
from insitu.cli.output import count, show, target_file
from insitu.errors import DataError
from insitu.samples import Samples, split

HELP = "train a model with its generated C, and save what it learned"
EXAMPLES = """\
  insitu train model.tflite --data photos/ --classes 5 --epochs 10 -o state.bin
  insitu train model.onnx --data x.npz --precision float --scheme full --rate 0.05 --split 0.8
  insitu train net.pkl --data x.npz --classes 10 --epochs 20 --start-epoch 10 --resume state.bin -o state.bin
"""


def arguments(parser) -> None:
    add_compiler(parser)
    parser.add_argument("--data", required=True, metavar="FILE", help=".npz, .csv, or a folder of images a class")
    parser.add_argument("--test", metavar="FILE", help="samples to measure accuracy on after each epoch")
    parser.add_argument("--split", type=_share, metavar="SHARE", help="train on this share, measure on the rest")
    parser.add_argument("--epochs", type=count, default=1, metavar="N", help="(1)")
    parser.add_argument("--rate", type=float, default=0.01, metavar="R", help="largest learning rate (0.01)")
    parser.add_argument("--schedule", choices=("cosine", "constant"), default="cosine", help="(cosine)")
    parser.add_argument("--warmup", type=float, default=1.0, metavar="N", help="epochs in which the rate rises (1)")
    parser.add_argument("--augment", action="store_true", help="crop, flip and colour images at random")
    parser.add_argument("--views", type=count, metavar="K", help="K fixed random changes a sample, kept")
    parser.add_argument("--threads", type=count, metavar="N", help="over the samples of a batch; changes no result")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="start from a saved state")
    parser.add_argument("--start-epoch", type=int, default=0, metavar="N", help="epochs that were done before (0)")
    parser.add_argument("--stop-epoch", type=count, metavar="N", help="stop early, as if interrupted")
    parser.add_argument("-o", "--output", type=target_file, metavar="FILE", help="write what was learned to this file")


def run(arguments) -> int:
    learner, samples = build(arguments)
    training, test = _divided(learner, samples, arguments)
    if arguments.resume:
        learner.load(arguments.resume)
    history = learner.fit(
        training, epochs=arguments.epochs, rate=arguments.rate, batch=arguments.batch, schedule=arguments.schedule,
        warmup=arguments.warmup, augment=_augment(arguments), views=arguments.views, validation=test,
        seed=arguments.seed, start_epoch=arguments.start_epoch, stop_epoch=arguments.stop_epoch,
        threads=arguments.threads,
    )  # fmt: skip
    if arguments.output:
        learner.save(arguments.output)
    report = {**describe(learner), **summary(history), "output": arguments.output and str(arguments.output)}
    show(arguments, to_text(report, arguments.start_epoch), report)
    return 0


def _divided(learner, samples: Samples | None, arguments) -> tuple[Samples, Samples | None]:
    assert samples is not None  # --data is required
    if arguments.split and arguments.test:
        raise DataError("both --split and --test say what to measure on", hint="give one of them")
    if arguments.split:
        return split(samples, arguments.split, arguments.seed)
    return samples, read(arguments.test, learner.graphs["predict"], arguments) if arguments.test else None


def _augment(arguments):
    from insitu.augment import Augment

    return Augment(bounds=arguments.pixels) if arguments.augment else None


def summary(history) -> dict:
    return {
        "loss": history.loss,
        "accuracy": history.accuracy,
        "validation": history.validation,
        "counters": history.counters,
        "cached": history.cached,
        "threads": history.threads,
    }


def to_text(report: dict, start: int) -> str:
    from insitu.cli.compile import to_text as memory
    from insitu.reports.table import table

    tested = report["validation"]
    headers = ["epoch", "loss", "accuracy", *(["tested"] if tested else [])]
    columns = [range(start + 1, start + 1 + len(report["loss"])), report["loss"], report["accuracy"]]
    rows = list(zip(*columns, *([tested] if tested else [])))
    way = "started from cached outputs of the frozen layers" if report["cached"] else "went through all layers"
    counters = ", ".join(f"{n:,} {name}" for name, n in report["counters"].items())
    lines = [table(headers, rows), "", f"training {way}; updates: {counters}", "", memory(report)]
    return "\n".join(lines + ([f"written to {report['output']}"] if report["output"] else []))


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share < 1:
        raise ArgumentTypeError(f"{text} is not between 0 and 1")
    return share
