"""How a program learns unless the user says otherwise: the recipe of a compiled Keras model, or the usual one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from insitu.data.arguments import whole
from insitu.deploy import Limits, usual_gradients
from insitu.graph import Graph, drop_unused
from insitu.importers.keras.compiled import BATCH as KERAS_BATCH
from insitu.importers.keras.compiled import Compiled, compiled
from insitu.learner.classify import PROBABILITY, last_op
from insitu.ops.activation import sigmoid
from insitu.ops.norm import log_softmax, softmax, softmax_s8
from insitu.terminal.wording import option
from insitu.training.train import Recipe

CONTAIN_SOFTMAX = ("cross_entropy", "soft_cross_entropy")  # losses of logits


@dataclass(frozen=True)
class Settings:
    """How the program learns."""

    recipe: Recipe
    batch: int
    taken: Compiled | None  # what a Keras model was compiled with, if that is used
    notes: tuple[str, ...]


def settings_of(model: Any, recipe: Recipe | None, precision: str, batch: int | None, limits: Limits) -> Settings:
    """What the user gave, and for the rest what the model says or what is usual."""
    taken = None if recipe else compiled(model)
    found, notes = recipe_of(taken, recipe, precision)
    batch = whole(_usual_batch(taken, precision, limits) if batch is None else batch, "batch", 1)
    return Settings(with_gradients(found, limits), batch, taken, notes)


def recipe_of(taken: Compiled | None, recipe: Recipe | None, precision: str) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe: the user's own, or that of a compiled Keras model, or the usual one; and notes about it."""
    if recipe is not None or taken is None:
        return recipe or Recipe(), ()
    if precision == "float":
        return Recipe(**taken.fields, clip_kind="parameter"), taken.notes
    kept = {name: taken.fields[name] for name in ("loss", "decay", "smoothing") if name in taken.fields}
    if "rate" not in taken.fields:
        return Recipe(**kept), taken.notes
    plain = taken.fields.get("optimizer") == "sgd"  # only then does its rate mean the same
    if plain:
        return Recipe(**kept, rate=taken.fields["rate"], clip=taken.fields["clip"] or None), taken.notes
    keeps = f"{option(precision='float')} keeps {taken.name}"
    note = f"int8 weights are updated by SGD, at a rate that fit finds; {keeps}"
    return Recipe(**kept), (f"Keras: {note}", *(n for n in taken.notes if n not in taken.about_steps))


def _usual_batch(taken: Compiled | None, precision: str, limits: Limits) -> int:
    """One sample per update; as many as Keras takes, for a model that it compiled, in float on this machine."""
    return KERAS_BATCH if taken and taken.name and precision == "float" and not limits.board else 1


def with_gradients(recipe: Recipe, limits: Limits) -> Recipe:
    """The recipe with the kind of gradients filled in."""
    return replace(recipe, grad=recipe.grad or usual_gradients(limits.board))


def bare(graph: Graph, settings: Settings) -> tuple[Graph, str]:
    """The graph without a last sigmoid, which is part of the loss binary_cross_entropy: it would be applied twice. And
    a note: also in Keras, predict would give probabilities."""
    node, taken = graph.producer.get(graph.outputs[0].name), settings.taken
    part_of_loss = settings.recipe.loss == "binary_cross_entropy" and not (taken and taken.logits)
    if not part_of_loss or node is None or node.op is not sigmoid:
        return graph, ""
    way = "classify gives probabilities" if graph.outputs[0].type.size == 1 else PROBABILITY
    note = f"the last sigmoid is part of the loss: predict gives logits, {way}"
    return drop_unused(replace(graph, outputs=(node.inputs[0], *graph.outputs[1:]))), note


def without_softmax(graph: Graph, recipe: Recipe) -> str:
    """What to say of a model that ends in a softmax, if its own classifier is trained on: the loss contains it."""
    if recipe.loss not in CONTAIN_SOFTMAX or last_op(graph) not in (softmax, softmax_s8, log_softmax):
        return ""
    return "the last softmax is part of the loss: predict gives logits, classify gives probabilities"
