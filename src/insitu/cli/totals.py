"""What training a model would take on a board, scheme by scheme: planned, not linked, and without the user's data.

Memory does not depend on the samples, so a float model is calibrated on random ones. Large programs are planned without
lowering their peak, which is quick and gives an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from insitu import pipeline
from insitu.codegen import emit_program
from insitu.deploy import bare_sram
from insitu.deploy.deployment import board_programs
from insitu.errors import Error
from insitu.graph import Graph
from insitu.planner import plan
from insitu.proof import drawn
from insitu.reports.html_costs import multiply_adds
from insitu.reports.trainable import SchemeTotals, Totals
from insitu.schemes.scheme import read_scheme
from insitu.training.parts import Parts
from insitu.training.train import Recipe

SCHEMES = ("head", "last:2", "last:4", "full")
LINKED = 1800  # stack and protocol of a linked program: 1,610 to 1,950 bytes
QUICK = 160  # nodes of a training step whose peak is lowered within a second


def totals(graph: Graph, parameters: int) -> Totals:
    """Parameters, multiply-adds, and the memory of each scheme; no schemes if the model cannot be compiled."""
    return Totals(parameters, sum(multiply_adds(graph).values()), tuple(_schemes(graph)))


def _schemes(graph: Graph) -> Iterator[SchemeTotals]:
    try:
        ready, recipe = _ready(graph)
    except Error:
        return
    for name in SCHEMES:
        try:
            yield _needed(ready, name, recipe)
        except Error:
            continue  # fewer layers than that


def _ready(graph: Graph) -> tuple[Graph, Recipe]:
    """The graph in int8, with a classifier in float; a model without one is trained towards targets."""
    samples = drawn(graph, 0)
    int8 = pipeline.to_precision(graph, "int8", samples, "head")
    recipe = Recipe(grad="s16")
    try:
        return pipeline.new_head(int8, None, samples, recipe, None, "zero", 0), recipe
    except Error:
        recipe = Recipe(grad="s16", loss="mse")
        return pipeline.new_head(int8, None, samples, recipe, None, "zero", 0), recipe


def _needed(graph: Graph, name: str, recipe: Recipe) -> SchemeTotals:
    scheme = read_scheme(name, pipeline.trainable(graph))
    graphs = Parts(graph, scheme, recipe, 1, pipeline.has_statistics(graph), pipeline.head_of(graph)).graphs()
    quick = max(len(g.nodes) for g in graphs.values()) <= QUICK
    if quick:
        *_, program = board_programs(graphs)
    else:
        program = emit_program({verb: plan(g, target="mcu", stream=False) for verb, g in graphs.items()})
    trained = sum(array.size for array in graphs["predict"].state.values())
    return SchemeTotals(name, trained, program.state_bytes, bare_sram(program) + LINKED, quick)
