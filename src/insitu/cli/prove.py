"""`insitu prove MODEL` or `insitu prove DIR`: the gradient certificate. Exit status 0 only if all of it holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from insitu.cli.compile import ARITHMETICS, LOSSES, OPTIMIZERS
from insitu.cli.model import add_model, add_shape, loaded
from insitu.cli.output import add_data, counted, read_data, say, show
from insitu.cli.values import count, index, saved_file
from insitu.files import write_whole

HELP = "check the gradients, the C and the memory plan of a model's training program"
EXAMPLES = """\
  insitu prove build                                          the program of a board's folder, as it will be flashed
  insitu prove learned.insitu                                 the program of a learner, with what it has learned
  insitu prove model.onnx --classes 10 --scheme last:6        everything trained in int8
  insitu prove model.tflite --classes 10 --scheme head
  insitu prove model.onnx --precision float --scheme full --optimizer adam
  insitu prove model.insitu --classes 3 --scheme bias:22 --data samples.npz --json
"""
OWN = {"classes": None, "scheme": "full", "precision": "int8", "head": "float", "head_after": None,
       "loss": LOSSES[0], "optimizer": "sgd", "arithmetic": "residual", "batch": 1}  # fmt: skip


def arguments(parser) -> None:
    add_model(parser, ".onnx, .tflite, .pt2, .keras, .pkl, .insitu, or a board's folder")
    add_shape(parser)
    parser.add_argument("--classes", type=count, metavar="N", help="new head with N classes (default: the model's own)")
    parser.add_argument(
        "--scheme", default="full", metavar="S", help="head, full, last:6, bias:22, a published name, a file (full)"
    )
    parser.add_argument(
        "--precision", choices=("int8", "float"), default="int8", help="arithmetic of the layers (int8)"
    )
    parser.add_argument("--head", choices=("float", "int8"), default="float", help="arithmetic of the head (float)")
    parser.add_argument("--head-after", metavar="LAYER", help="the layer whose output the new head takes")
    parser.add_argument("--loss", choices=LOSSES, default=LOSSES[0], metavar="L", help=", ".join(LOSSES))
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd", help="for float parameters (sgd)")
    parser.add_argument(
        "--arithmetic", choices=ARITHMETICS, default="residual", help="updates of int8 weights (residual)"
    )
    parser.add_argument("--batch", type=count, default=1, metavar="N", help="samples per update (1)")
    parser.add_argument("--steps", type=count, default=5, metavar="N", help="training steps to follow (5)")
    parser.add_argument("--seed", type=index, default=0, metavar="N", help="seed of samples, directions and head (0)")
    parser.add_argument("-o", "--output", type=saved_file, metavar="FILE", help="write the certificate as JSON too")
    add_data(parser, required=False)


def run(arguments) -> int:
    import json

    from insitu.deploy.folder import is_folder
    from insitu.graph.file import is_learner

    own = is_learner(arguments.model) and not _changed(arguments)
    kind = _folder if is_folder(arguments.model) else _learner if own else _model
    found = kind(arguments)
    if arguments.output:
        write_whole(arguments.output, (json.dumps(found.to_json(), indent=2) + "\n").encode())
    show(arguments, found.to_text(), found.to_json())
    return 0 if found.ok else 1


def _changed(arguments) -> list[str]:
    """The options that would make another program."""
    return [name for name, usual in OWN.items() if getattr(arguments, name, usual) != usual]


def _folder(arguments):
    """The certificate of a board's folder, which says everything but samples and steps itself."""
    from insitu.deploy.manifest import read_manifest
    from insitu.errors import DataError
    from insitu.proof.folder import CERTIFICATE, prove_folder

    changed = _changed(arguments)
    if changed:
        hint = "leave it out; insitu compile ... -o DIR with it makes another folder"
        raise DataError(f"is already compiled: --{changed[0].replace('_', '-')} would change it",
                        where=arguments.model, hint=hint)  # fmt: skip
    samples = read_data(arguments, read_manifest(arguments.model).graph) if arguments.data else None
    say(f"proving on {counted(samples) if samples else 'random samples'}")
    found = prove_folder(arguments.model, samples, arguments.steps, arguments.seed)
    say(f"written to {Path(arguments.model) / CERTIFICATE}")
    return found


def _learner(arguments):
    """The certificate of a learner's own program, in the state that it has reached."""
    from insitu.learner.file import open_learner
    from insitu.proof.learned import prove_learner
    from insitu.training.train import has_targets

    learner = open_learner(arguments.model)
    targets = has_targets(learner.recipe)
    samples = read_data(arguments, learner.graphs["predict"], targets=targets) if arguments.data else None
    say(f"proving on {counted(samples) if samples else 'random samples'}")
    return prove_learner(learner, samples, arguments.steps, arguments.seed)


def _model(arguments):
    from insitu.learner.model import load
    from insitu.pipeline import prove
    from insitu.training.train import Recipe, has_targets

    model = loaded(arguments, load)
    recipe = Recipe(loss=arguments.loss, optimizer=arguments.optimizer, arithmetic=arguments.arithmetic)
    samples = read_data(arguments, model.graph, targets=has_targets(recipe)) if arguments.data else None
    say(f"proving on {counted(samples) if samples else 'random samples'}")
    found = prove(
        model, classes=arguments.classes, data=samples, scheme=arguments.scheme, precision=arguments.precision,
        batch=arguments.batch, head=arguments.head, head_after=arguments.head_after, recipe=recipe,
        steps=arguments.steps, seed=arguments.seed,
    )  # fmt: skip
    return replace(found, model=Path(arguments.model).stem)
