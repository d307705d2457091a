"""prove(): the gradient certificate of the program that compile() would make, by the same stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from insitu.data import as_samples
from insitu.pipeline.network import has_statistics, head_of, load, new_head, to_precision
from insitu.proof import Certificate, certify, drawn
from insitu.proof.folder import is_folder, prove_folder
from insitu.schemes.scheme import read_scheme
from insitu.training.integer_head import integer_head
from insitu.training.parts import Parts, trainable
from insitu.training.train import Recipe, has_targets


def prove(model: Any, *, example: Any = None, classes: int | None = None, data: Any = None, scheme: str = "full",
          precision: str = "int8", batch: int = 1, head: str = "float", head_after: str | None = None,
          recipe: Recipe | None = None, steps: int = 5, seed: int = 0) -> Certificate:  # fmt: skip
    """The gradient certificate of the training program that `compile` would make. Takes the arguments of `compile`.

    `.ok` says whether everything holds, `.broken` what does not. Without `data`, samples are drawn at random.
    The head starts from random weights: with zeros, no gradient would reach the layers before it. The model may also be
    a board's folder: its program is proved as it will be flashed, and the certificate is written into the folder.
    """
    if isinstance(model, str | Path) and is_folder(model):
        return prove_folder(model, data, steps, seed)
    recipe = recipe or Recipe()
    g = load(model, example)
    samples = drawn(g, seed) if data is None else as_samples(data, g, targets=has_targets(recipe))
    g = to_precision(g, precision, samples, scheme, batch)
    g = new_head(g, classes, samples, recipe, head_after, "uniform", seed)
    g = integer_head(g) if head == "int8" else g
    parts = Parts(g, read_scheme(scheme, trainable(g)), recipe, batch, has_statistics(g), head_of(g))
    return certify(parts, samples, scheme, steps, seed)
