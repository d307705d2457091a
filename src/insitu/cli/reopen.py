"""A learner's file as the model of a verb: it has its own classes, scheme and recipe."""

from __future__ import annotations

from insitu.cli.output import read_data
from insitu.data.samples import Samples
from insitu.errors import BudgetError, DataError
from insitu.learner import Learner

# options that made the program, which are in a learner's file already
OWN = {
    "scheme": "auto", "classes": None, "precision": "int8", "batch": 1, "head": "float", "head_after": None,
    "head_init": None, "loss": "cross_entropy", "optimizer": "sgd", "arithmetic": "residual", "clip": None,
    "decay": 0.0, "smoothing": 0.0, "mean": None, "std": None, "size": None, "raw_pixels": False, "audio": None,
    "motion": None, "crop": None, "camera": "rgb", "rounding": None,
}  # fmt: skip
# options of the program, not of what was learned
ON_A_BOARD = {"max_classes": None, "store": None, "store_rule": None, "class_cost": None, "rows": False}


def reopen(arguments, data: str | None, schemes: bool = False) -> tuple[Learner, Samples | None]:
    """The learner of a file, for this machine or linked for a board; and the samples read from `data`.

    With `schemes`, it may train another scheme from now on."""
    from insitu.learner.relinked import with_scheme

    learner, samples = opened(arguments, data, ("scheme",) if schemes else ())
    if schemes and arguments.scheme != OWN["scheme"]:
        learner = with_scheme(learner, arguments.scheme)
    return (learner if arguments.board == "host" else linked(learner, arguments)), samples


def opened(arguments, data: str | None, free: tuple[str, ...] = ()) -> tuple[Learner, Samples | None]:
    """The learner as it is in its file, and the samples; options that would change it are an error, but for `free`."""
    from insitu.learner.file import open_learner
    from insitu.pipeline.reopened import as_it_is
    from insitu.training.train import has_targets

    fixed = OWN | (ON_A_BOARD if arguments.board == "host" else {})
    fixed = {name: usual for name, usual in fixed.items() if name not in free}
    learner = open_learner(arguments.model)
    own = as_it_is(learner)
    changed = [name for name, usual in fixed.items() if getattr(arguments, name, usual) not in (usual, own.get(name))]
    if changed:
        option = f"--{changed[0].replace('_', '-')}"
        hint = "leave it out, or start from the model that the learner was made from"
        hint = "--board NAME: it is for a board's program" if changed[0] in ON_A_BOARD else hint
        raise DataError(f"is already compiled: {option} would change it", where=str(arguments.model), hint=hint)
    graph, targets = learner.graphs["predict"], has_targets(learner.recipe)
    return learner, read_data(arguments, graph, data, targets=targets) if data else None


def linked(learner: Learner, arguments) -> Learner:
    """The same learner, with a program for this board that starts from what was learned."""
    from insitu.deploy import limits_of
    from insitu.learner.relinked import relinked

    given = {name: getattr(arguments, name, None) for name in ("store", "store_rule", "class_cost")}
    limits = limits_of(arguments.board, arguments.sram, arguments.flash, arguments.prefer, **given)
    try:
        return relinked(learner, limits, arguments.grad, getattr(arguments, "max_classes", None), arguments.rows)
    except BudgetError as e:
        raise too_large(e, learner, arguments.board) from e


def too_large(error: BudgetError, learner: Learner, board: str) -> BudgetError:
    """The error, with the way out of a learner that `insitu teach` chose for more memory: teach chooses again."""
    if learner.lesson is None or learner.lesson.board == board:
        return error
    again = f"insitu teach DATA --board {board} -o NEW.insitu, which chooses a network that fits and learns anew"
    return BudgetError(error.what, where=error.where, hint=f"{again}   or   {error.hint}")
