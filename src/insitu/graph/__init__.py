"""Types, the graph and its text form, its legality, its meaning, and how it is rewritten."""

from insitu.graph.check import check
from insitu.graph.eval import evaluate
from insitu.graph.graph import Builder, Graph, Node, Value, build, building
from insitu.graph.op import REGISTRY, Case, Facts, Op, lookup, op
from insitu.graph.rewrite import drop_unused, rewrite
from insitu.graph.text import arrays, parse, to_text
from insitu.graph.types import Quant, Type, f32, quant, s8, s32, type_of

__all__ = [
    "REGISTRY",
    "Builder",
    "Case",
    "Facts",
    "Graph",
    "Node",
    "Op",
    "Quant",
    "Type",
    "Value",
    "arrays",
    "build",
    "building",
    "check",
    "drop_unused",
    "evaluate",
    "f32",
    "lookup",
    "op",
    "parse",
    "quant",
    "rewrite",
    "s8",
    "s32",
    "to_text",
    "type_of",
]
