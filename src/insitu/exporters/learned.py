"""The graph that an exporter writes: the learner's network for inference, with what was learned as constants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.errors import DataError, GraphError
from insitu.exporters.chances import left_out, with_chances
from insitu.exporters.features import real_features
from insitu.exporters.real import real_graph
from insitu.exporters.written import Options
from insitu.graph import Graph, drop_unused
from insitu.learner import Learner
from insitu.quantizer import fold
from insitu.quantizer.fold import is_int8
from insitu.terminal.wording import either
from insitu.training.low_rank import merged


def learned_graph(learner: Learner) -> Graph:
    """As it predicts now, without batch norms, dropout and other parts that only training needs."""
    return fold(unfolded_graph(learner))


def unfolded_graph(learner: Learner) -> Graph:
    """As it predicts now, with the batch norms and scales that it trains; low-rank updates are in their weights."""
    graph = learner.graphs["predict"]
    if not graph.nodes:
        what = "a board's folder has no model, only its program"
        raise GraphError(what, hint="save the state, load it where the model is, and export there")
    constants = {**graph.constants, **learned_state(learner)}
    return merged(drop_unused(replace(graph, constants=constants, state={}, updates={}, by_rows="")))


def chosen_graph(learner: Learner, options: Options) -> Graph:
    """The learned graph in the arithmetic that the user wants, with features over real numbers."""
    graph = real_features(learned_graph(learner))
    if options.precision == "int8" and not is_int8(graph):
        hint = either(shell="insitu train MODEL --data FILE -o FILE", python="insitu.compile(..., data=x)")
        raise DataError("this learner is float", hint=f"{hint} makes an int8 one")
    graph = real_graph(graph) if options.precision == "float" and is_int8(graph) else graph
    end = left_out(learner) if options.probabilities else None
    return with_chances(graph, end) if end is not None else graph


def learned_state(learner: Learner) -> dict[str, np.ndarray]:
    """The trained parameters of the network as they are now. A program that never ran is not started for this."""
    graph = learner.graphs["predict"]
    state = learner.device.state() if learner.opened else graph.state
    return {name: state[name] for name in graph.state}
