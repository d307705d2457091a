"""Small training programs for the tests: a torch model in float, the same in int8, one weight with a fed gradient."""

from functools import cache

import numpy as np
import torch
from torch import nn

from insitu.devices.host import HostDevice, open_plans
from insitu.graph import Builder, Graph, Type, build
from insitu.importers.torch.read import read_torch
from insitu.learner.model import Model
from insitu.planner import plan
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.head import replace_head
from insitu.training.train import Recipe, _counters, _updates, train_graphs
from insitu.training.trainable import Trained

SHAPES = {"mlp": (1, 6), "cnn": (1, 2, 5, 5)}
CLASSES = 3


def torch_model(kind: str) -> nn.Module:
    torch.manual_seed(1)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, CLASSES))
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, CLASSES),
    )  # fmt: skip


def samples(kind: str, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, *SHAPES[kind][1:])).astype(np.float32)
    return x, rng.integers(0, CLASSES, count).astype(np.int32)


def float_programs(kind: str, recipe: Recipe, *, batch: int = 1, accumulate: bool = False) -> dict[str, Graph]:
    """Every parameter of the torch model, trained."""
    graph = read_torch(torch_model(kind), (torch.zeros(batch, *SHAPES[kind][1:]),))
    return _all_trained(replace_head(graph, None), recipe, accumulate)


@cache
def int8_model() -> Graph:
    graph = read_torch(torch_model("cnn"), (torch.zeros(SHAPES["cnn"]),))
    return replace_head(Model(graph).quantize(samples("cnn", 16)[0]).graph, None)


def int8_programs(recipe: Recipe, accumulate: bool = False) -> dict[str, Graph]:
    return _all_trained(int8_model(), recipe, accumulate)


def _all_trained(graph: Graph, recipe: Recipe, accumulate: bool) -> dict[str, Graph]:
    scheme = read_scheme("full", [layer for layer in layers(graph) if layer.name != "head"])
    return train_graphs(graph, scheme, recipe, accumulate=accumulate)


def opened(graphs: dict[str, Graph]) -> HostDevice:
    return open_plans({verb: plan(g) for verb, g in graphs.items()})


def one_weight(weight: np.ndarray, type: Type, recipe: Recipe) -> Graph:
    """The update of one weight, with the gradient and the rate as inputs."""
    builder = Builder("one")
    with build(builder):
        w = builder.lasting("w", weight, type)
        grad, rate = builder.input("grad", Type("f32", type.shape)), builder.input("rate", Type("f32"))
        _updates(builder, [(Trained(w, "layer", "weight"), grad)], rate, _counters(builder), recipe)
    return builder.graph()
