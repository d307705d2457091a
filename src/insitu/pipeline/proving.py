"""prove(): the gradient certificate of the program that compile() would make, by the same stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from insitu.data import as_samples
from insitu.deploy.folder import is_folder
from insitu.learner.learned import learned_model
from insitu.pipeline.network import example_of, has_statistics, head_of, load, new_head, to_precision
from insitu.pipeline.reopened import learner_of
from insitu.proof import Certificate, certify, drawn
from insitu.proof.folder import prove_folder
from insitu.proof.learned import prove_learner
from insitu.quantizer.fold import is_int8
from insitu.quantizer.untrained import is_untrained
from insitu.schemes.scheme import read_scheme
from insitu.terminal.misspelled import spelled
from insitu.training.integer_head import integer_head
from insitu.training.parts import Parts, trainable
from insitu.training.train import Recipe, has_targets, usual_clip


@spelled
def prove(model: Any, *, example: Any = None, classes: int | None = None, data: Any = None, scheme: str = "full",
          precision: str = "int8", batch: int = 1, head: str = "float", head_after: str | None = None,
          recipe: Recipe | None = None, steps: int = 5, seed: int = 0) -> Certificate:  # fmt: skip
    """The gradient certificate of the training program that `compile` would make. Takes the arguments of `compile`.

    `.ok` says whether everything holds, `.broken` what does not. Without `data`, samples are drawn at random.
    The head starts from random weights: with zeros, no gradient would reach the layers before it. The model may also be
    a learner or its file, whose own program is proved in the state that it has reached (with other arguments, its model
    is meant); or a board's folder, whose program is proved as it will be flashed.
    """
    if isinstance(model, str | Path) and is_folder(model):
        return prove_folder(model, data, steps, seed)
    asked = classes, scheme, precision, batch, head, head_after, recipe
    learner = learner_of(model)
    if learner and asked == (None, "full", "int8", 1, "float", None, None):
        return prove_learner(learner, data, steps, seed)
    model = learned_model(learner) if learner else model
    recipe = recipe or Recipe()
    g = load(model, example_of(model, example, data))
    recipe = usual_clip(recipe, not is_int8(g) and is_untrained(g))
    samples = drawn(g, seed) if data is None else as_samples(data, g, targets=has_targets(recipe))
    g = to_precision(g, precision, samples, scheme, batch)
    g = new_head(g, classes, samples, recipe, head_after, "uniform", seed)
    g = integer_head(g) if head == "int8" else g
    parts = Parts(g, read_scheme(scheme, trainable(g)), recipe, batch, has_statistics(g), head_of(g))
    return certify(parts, samples, scheme, steps, seed)
