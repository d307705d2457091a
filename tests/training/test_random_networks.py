"""Thirty random networks: drawn as torch modules, imported, quantised, given a random scheme, and proven."""

import numpy as np
import pytest

pytest.importorskip("torch")

import insitu
from insitu.errors import GraphError
from insitu.pipeline import load, new_head, to_precision, trainable
from insitu.proof import drawn
from insitu.training.train import Recipe

from .random_nets import random_net

ARITHMETICS = ("residual", "residual", "residual4", "stochastic", "nearest", "master")
OPTIMIZERS = ("sgd", "momentum", "adam")


def random_scheme(graph, rng, folder) -> str:
    """A word, or a file that trains random layers, some of them in part."""
    found = trainable(graph)
    kind = rng.choice(["full", "head", "last", "bias", "file", "file"])
    if kind in ("last", "bias"):
        return f"{kind}:{rng.integers(1, len(found) + 1)}"
    if kind != "file":
        return str(kind)
    lines = [line(layer, rng) for layer in found if rng.random() < 0.7]
    path = folder / "scheme.txt"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def line(layer, rng) -> str:
    share = rng.choice(["1/4", "1/2", "1"]) if layer.channels is not None else "1"
    return f"{layer.name} {rng.choice(['bias', ''])} weight {share}"


@pytest.mark.parametrize("seed", range(30))
def test_a_random_network_is_proven(seed, tmp_path):
    module, example, classes = random_net(seed)
    rng = np.random.default_rng(seed)
    precision = "float" if seed % 6 == 5 else "int8"
    batch = int(rng.choice([1, 1, 3]))  # in float, several samples give their own statistics
    graph = load(module, example)
    scheme = "full" if precision == "float" else None
    graph = to_precision(graph, precision, drawn(graph, seed), scheme or "head", batch)
    scheme = scheme or random_scheme(new_head(graph, classes, None, Recipe(), None, "uniform", 0), rng, tmp_path)
    recipe = Recipe(
        arithmetic=str(rng.choice(ARITHMETICS)), optimizer=str(rng.choice(OPTIMIZERS)),
        clip=float(rng.choice([0, 0.05, 8])), decay=float(rng.choice([0, 0.01])), seed=seed,
    )  # fmt: skip
    options = {"classes": classes, "precision": precision, "recipe": recipe, "batch": batch, "steps": 3, "seed": seed}
    try:
        found = insitu.prove(graph, scheme=scheme, **options)
    except GraphError as e:  # int8 copies of a layer that is used twice would drift apart
        assert "is shared by" in str(e) and "Twice" in str(module)
        found = insitu.prove(graph, scheme="head", **options)
    assert found.ok, f"{found.to_text()}\n{module}\n{recipe}"
