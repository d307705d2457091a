"""What a learner has learned, put where other tools find it: in a model of its own, or in the C program's first state.

The state itself is saved and loaded by the learner; this makes nothing of it that could be trained on from there with
its optimizer's memory: the model has the learned weights as constants.
"""

from __future__ import annotations

from dataclasses import replace

from insitu.codegen import Program, emit_program
from insitu.graph import drop_unused
from insitu.learner import Learner
from insitu.learner.model import Model


def learned_model(learner: Learner) -> Model:
    """The model as it predicts now."""
    graph, state = learner.graphs["predict"], learner.device.state()
    constants = {**graph.constants, **{name: state[name] for name in graph.state}}
    return Model(drop_unused(replace(graph, constants=constants, state={}, updates={}, by_rows="")))


def learned_program(learner: Learner) -> Program:
    """The C program whose `init` starts from what was learned; it saves and loads the same states as before."""
    state = learner.device.state()
    plans = {
        verb: replace(p, graph=replace(p.graph, state={name: state[name] for name in p.graph.state}))
        for verb, p in learner.plans.items()
    }
    return emit_program(plans, learner.device.program.prefix)
