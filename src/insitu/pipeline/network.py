"""The forward network as it will be trained: loaded, in its arithmetic, with its head. No gradient yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np

from insitu.data import Samples
from insitu.data.arguments import whole
from insitu.data.words import words_of_frame
from insitu.devices.host import open_host
from insitu.errors import DataError, ModelError
from insitu.graph import Graph, build, drop_unused
from insitu.graph.graph import Builder
from insitu.importers import load as load_graph
from insitu.learner.feed import plain, predict_all
from insitu.learner.model import Model
from insitu.ops.linear import linear, linear_s8
from insitu.ops.norm import batch_norm
from insitu.ops.quant import dequantize
from insitu.pipeline.statistics import with_statistics
from insitu.pipeline.typical import say_other_unit, say_untypical
from insitu.preprocess import fuse_transform
from insitu.quantizer import fold
from insitu.quantizer.columns import with_even_columns
from insitu.quantizer.fold import is_int8
from insitu.quantizer.rounding import WORDS as ROUNDINGS
from insitu.quantizer.rounding import with_rounding
from insitu.quantizer.untrained import is_untrained
from insitu.terminal.wording import either, option
from insitu.training.head import HEAD, prototypes, replace_head, reserve_head, with_head
from insitu.training.train import Recipe

PRECISIONS = ("int8", "float")
MOST_FLOAT = (
    4096  # weights of a last layer that becomes float: an autoencoder's would take four times its flash and SRAM
)
ROOM = 4.0  # times the ranges of an untrained network without norms
OWN = "own"  # head_init: the model's own classifier


def load(model: Any, example: Any = None) -> Graph:
    """The graph of a model, for one sample at a time."""
    graph = model.graph if isinstance(model, Model) else load_graph(model, example)
    if any(v.shape[:1] != (1,) for v in graph.inputs):
        raise ModelError(
            f"takes {graph.inputs[0].type}, but must take one sample at a time",
            where=graph.name,
            hint=either(
                shell="export it for a batch of 1; --batch says how many samples make an update",
                python="use an example whose first axis is 1; `batch` says how many samples make an update",
            ),
        )
    return graph


def example_of(model: Any, example: Any, data: Any) -> Any:
    """Without an example, the first of the samples, if they are arrays; for a file, only its shape matters."""
    module = any(kind.__module__.startswith("torch.nn") for kind in type(model).__mro__)
    if example is not None or isinstance(model, Model | Graph):
        return example
    if not module:
        return [x[:1] for x in _given(data) if hasattr(x, "shape") and len(x.shape) > 1]
    named = _named(data, model.forward)
    inputs = [_stacked(x) for x in (_arrays(data, _takes(model.forward)) if named is None else named)]
    if any(tuple(getattr(x, "shape", ())[:1]) == (0,) for x in inputs):
        raise DataError("there are no samples", where="data")
    if not inputs or any(not hasattr(x, "shape") for x in inputs):
        return example
    if len(inputs) > 1:
        return tuple(np.asarray(x[:1], np.float32) for x in inputs)
    x = inputs[0]
    worded = words_of_frame(x, ()) if hasattr(x, "dtypes") else None
    return np.asarray((x if worded is None else worded[0])[:1], np.float32)


def _stacked(x: Any) -> Any:
    """A list of samples as one array, if they are arrays of one shape or numbers."""
    if not isinstance(x, list) or not x:
        return x
    try:
        return np.asarray(x[:1], np.float32)
    except (TypeError, ValueError):
        return x


def _given(data: Any) -> Sequence[Any]:
    """The inputs among samples, in any of the forms that compile() takes."""
    first = data[0] if isinstance(data, tuple) and data else data
    return first if isinstance(first, tuple | list) else (first,)


def _named(data: Any, forward: Callable[..., Any]) -> list[Any] | None:
    """The inputs in a dict, in the order of the arguments; none if its names are not those; None if it is no dict."""
    first = data[0] if isinstance(data, tuple) and data else data
    if not isinstance(first, Mapping):
        return None
    order = [name for name in signature(forward).parameters if name in first]
    return [first[name] for name in order] if len(order) == len(first) else []


def _takes(forward: Callable[..., Any]) -> int:
    """How many inputs it must be given."""
    asked = signature(forward).parameters.values()
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in asked)


def _arrays(data: Any, count: int) -> list[Any]:
    """The inputs among samples: x, (x, y), (x, z) or ((x, z), y), or the first of a torch Dataset or DataLoader."""
    data = getattr(data, "dataset", data)
    if hasattr(data, "__getitem__") and not hasattr(data, "shape") and not isinstance(data, tuple | list | str):
        x, *_ = data[0]
        return [np.asarray(one)[None] for one in (x if isinstance(x, tuple) else (x,))]
    first = data[0] if isinstance(data, tuple) and data else data
    for inputs in (data, first):
        if isinstance(inputs, tuple | list) and len(inputs) == count > 1 and all(hasattr(x, "shape") for x in inputs):
            return list(inputs)
    return [first]


def check_arithmetic(word: str, of: str) -> None:
    if word not in PRECISIONS:
        raise DataError(f"{of} is {word!r}, which is unknown", hint=" or ".join(PRECISIONS))


def to_precision(graph: Graph, precision: str, samples: Samples | None, scheme: str, batch: int = 1) -> Graph:
    """The graph in the arithmetic it will be trained in; an int8 graph stays int8."""
    check_arithmetic(precision, "precision")
    if is_int8(graph):
        return fuse_transform(graph)
    if precision == "float":
        if samples is not None and is_untrained(graph):  # wide columns would hide narrow ones from its first steps
            graph = with_even_columns(graph, samples.inputs[0])
        if scheme == "full" and (batch > 1 or not has_statistics(graph)):
            return graph
        if samples is not None:
            say_other_unit(graph, samples.inputs)
            graph = with_statistics(graph, samples.inputs) if is_untrained(graph) else graph
        return fold(graph)  # frozen statistics fold away
    if samples is None:
        raise DataError(
            "converting a float model to int8 needs samples",
            where=graph.name,
            hint=f"{either(shell='--data FILE', python='data=x')} with typical inputs, or {option(precision='float')}",
        )
    say_other_unit(graph, samples.inputs)
    pairs = samples.inputs[0] if len(samples.inputs) == 1 else list(zip(*samples.inputs))
    untrained = is_untrained(graph)
    known = with_statistics(graph, samples.inputs) if untrained else graph
    small = untrained and known is graph  # with statistics of the samples, results are of their final size
    room = ROOM if scheme != HEAD and small else 1.0
    graph = Model(with_even_columns(fold(known), samples.inputs[0])).quantize(pairs, room=room).graph
    say_untypical(graph, samples.inputs)
    return fuse_transform(graph)


def rounded(graph: Graph, rounding: str | None) -> Graph:
    """The graph with this rounding of int8 results; None: as it is."""
    if rounding is not None and rounding not in ROUNDINGS:
        raise DataError(f"rounding is {rounding!r}, which is unknown", hint=" or ".join(ROUNDINGS))
    return with_rounding(graph, rounding) if rounding and is_int8(graph) else graph


def has_statistics(graph: Graph) -> bool:
    """Does the graph still have a batch norm, whose statistics are learned over a batch?"""
    return any(n.op is batch_norm for n in graph.nodes)


def new_head(graph: Graph, classes: int | None, samples: Samples | None, recipe: Recipe, after: str | None,
             init: str | None, seed: int) -> Graph:  # fmt: skip
    """The graph with its classifier replaced; a model trained towards targets keeps its output, in float if it can."""
    if recipe.loss in ("mse", "binary_cross_entropy") and classes is None and after is None:
        return replace_head(graph, None) if ends_in_linear(graph) else float_output(graph)
    first = "zero" if init in (None, OWN, "prototypes") else init
    made = replace_head(graph, classes, after=after, init=first, seed=seed)
    if init != "prototypes":
        return made
    if samples is None or samples.labels is None or classes is None:
        hint = either(shell="--classes N --data FILE, where FILE has labels", python="classes=N, data=(x, y)")
        raise DataError("prototypes are means of labelled samples", hint=hint)
    if samples.labels.min() < 0 or samples.labels.max() >= classes:
        raise DataError(f"labels go up to {samples.labels.max()}, but there are only {classes} classes")
    return with_head(made, *prototypes(features_of(made, samples), samples.labels, classes))


def with_room(graph: Graph, most: int | None, head: str) -> Graph:
    """The graph with rows of the head for classes that are added later."""
    if most is None:
        return graph
    most = whole(most, "max_classes", graph.outputs[0].shape[-1])
    if HEAD not in graph.producer or head != "float":
        raise DataError("only a float head has room for more classes", hint=f"compile with {option(head='float')}")
    return reserve_head(graph, most)


def features_of(graph: Graph, samples: Samples) -> np.ndarray:
    """The head's input for each sample."""
    body = drop_unused(replace(graph, outputs=(graph.producer[HEAD].inputs[0],)))
    return predict_all(open_host(body), plain(samples.inputs))[0][:, 0]


def ends_in_linear(graph: Graph) -> bool:
    """Is the output that of a linear layer: in float, or a small one in int8, whose range would limit the targets?"""
    node = graph.producer.get(graph.outputs[0].name)
    if node is not None and node.op is dequantize:
        node = graph.producer.get(node.inputs[0].name)
    if node is None or node.op not in (linear, linear_s8) or len(graph.outputs) > 1:
        return False
    if node.op is linear:
        return node.inputs[0].type.rank == 2 and all(v.name in graph.constants for v in node.inputs[1:])
    small = node.inputs[1].type.size <= MOST_FLOAT
    return small and node.attrs["lo"] < node.output.type.zero  # else a ReLU is part of it


def float_output(graph: Graph) -> Graph:
    """The graph with a float output."""
    out = graph.outputs[0]
    if out.dtype != "s8":
        return graph
    builder = Builder.of(graph)
    with build(builder):
        return builder.graph(dequantize(out, name=f"{out.name}.f32"))


def head_of(graph: Graph) -> str | None:
    return HEAD if HEAD in graph.producer else None
