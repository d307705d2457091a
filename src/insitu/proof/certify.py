"""From the parts of a training program to its certificate. pipeline.py makes the parts."""

from __future__ import annotations

from insitu.data import Samples
from insitu.devices.host import open_plans
from insitu.planner import plan, verify
from insitu.proof.certificate import Certificate
from insitu.proof.program import Subject, Tools, prove_program
from insitu.proof.source import Source
from insitu.training.parts import Parts
from insitu.training.prefix import split

TOOLS = Tools(plan, verify, open_plans)


def certify(parts: Parts, samples: Samples, scheme: str, steps: int, seed: int) -> Certificate:
    """Run every check on the program of these parts, over `steps` steps."""
    g, graphs = parts.forward, parts.graphs()
    source = Source(g, samples, parts.recipe, steps, seed)
    verbs = ("train_step",) * steps if "train_step" in graphs else (*("accumulate",) * steps, "apply")
    arithmetic = "int8" if any(v.dtype == "s8" for n in g.nodes for v in n.outputs) else "float"
    cut = None if parts.at_once else split(graphs, g.inputs)
    rows = prove_program(Subject(graphs, source.feed, verbs, cut), TOOLS, seed)
    return Certificate(g.name, scheme, arithmetic, tuple(rows))
