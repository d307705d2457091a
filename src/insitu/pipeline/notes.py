"""What a user should know about a compiled learner: said on the terminal, or only kept with it."""

from __future__ import annotations

from collections.abc import Iterable

from insitu.graph import Graph
from insitu.pipeline.choosing import Chosen, Wish
from insitu.terminal import colour
from insitu.terminal.wording import Caller, option
from insitu.training.head import HEAD
from insitu.training.train import Recipe

PROTOTYPES = "prototypes"
UNTRAINED = "the weights are random initial ones"
ROOM = "int8 gets room for them to grow"
MEASURED = "its batch norms got the statistics of the data"
SCHOOL = f"{UNTRAINED}: fit learns in float, too, in batches, as batch norms want it; if better, that is made int8"


def say_notes(first: Iterable[str], graph: Graph, precision: str, wish: Wish, made: Chosen,
              frozen: bool = False, school: bool = False) -> tuple[str, ...]:  # fmt: skip
    """All notes, the most general first; those about what nobody asked for are said. frozen: had it batch norms, which
    do not learn their statistics? school: does it learn in float first?"""
    whole = wish.untrained and wish.schemes != (HEAD,) and not Caller.teaches
    random = SCHOOL if school else _untrained_note(precision, made.parts.recipe, frozen) if whole else ""
    said = [*first, random, _scheme_note(wish.schemes, made.parts.scheme.name), _other_outputs(graph)]
    for note in filter(None, said):
        colour.say(f"note: {note}")
    return tuple(filter(None, (*said, wish.why, made.note, made.deployed.note if made.deployed else "")))


def prototypes_note(head_init: str | None) -> str:
    """Means of samples know these very samples: held out by a fit, they look known already."""
    if head_init != PROTOTYPES:
        return ""
    return f"the head was made of these samples: to fit the same ones, {option(head_init='zero')} learns more"


def _untrained_note(precision: str, recipe: Recipe, frozen: bool) -> str:
    """What to say of random weights: what was done about them, and what learns more from them. Batch norms would rather
    have the statistics of batches."""
    own = {"loss": recipe.loss} if recipe.loss != Recipe().loss else {}
    batch = {"batch": 8} if frozen else {}
    if precision == "int8":
        so = MEASURED if frozen else ROOM
        return f"{UNTRAINED}, so {so}; {option(precision='float', **batch, **own, optimizer='adam')} may learn more"
    if frozen or (recipe.loss == "mse" and recipe.optimizer == "sgd"):
        what = f"{UNTRAINED}, so {MEASURED}" if frozen else UNTRAINED
        return f"{what}; {option(**batch, **own, optimizer='adam')} may learn more"
    return ""


def _scheme_note(schemes: tuple[str, ...], name: str) -> str:
    """What to say of a scheme that was chosen for an untrained model."""
    if len(schemes) == 1:
        return ""
    if name == HEAD:
        return "the model is untrained, and only its head fits the board: it will learn little. More SRAM helps"
    what = "all its layers are" if name == schemes[0] else "as many layers as fit the board are"
    return f"the model is untrained: {what} trained, not only its head ({option(scheme=name)})"


def _other_outputs(graph: Graph) -> str:
    if len(graph.outputs) == 1:
        return ""
    first, *others = (v.name for v in graph.outputs)
    return f"the loss is computed from {first}: what leads only to {', '.join(others)} is not trained"
