"""Learner, Model, Graph, Plan and History in a notebook: short, and escaped."""

from __future__ import annotations

import pytest

from insitu.graph import Graph
from tests.learners import data, imported, learner
from tests.reports.test_html import Page

NAMES = ["<b>", "a & b", "c", "d"]


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    made = learner(classes=NAMES)
    x, y = data()
    history = made.fit(x, [NAMES[k] for k in y], epochs=2, rate=0.05)
    things = (made, imported(), imported().graph, made.plans["train_step"], history)
    return {type(thing).__name__: thing._repr_html_() for thing in things}


def test_each_has_one(shown):
    assert set(shown) == {"Learner", "Model", "Graph", "Plan", "History"}


@pytest.mark.parametrize("name", ["Learner", "Model", "Graph", "Plan", "History"])
def test_it_is_short_fetches_nothing_and_escapes_names(shown, name):
    text = shown[name]
    assert "<b>" not in text and len(text) < 8000 and not Page(text).fetched


def test_a_plan_shows_its_memory_map(shown):
    assert "lower bound" in shown["Plan"] and "step 0" in shown["Plan"]


def test_a_large_graph_is_cut():
    made = imported().graph
    assert isinstance(made, Graph) and made._repr_html_().count("\n") < 60
