"""From the parts of a training program to its certificate. pipeline/proving.py makes the parts."""

from __future__ import annotations

from collections.abc import Mapping

from insitu.data import Samples
from insitu.devices.host import open_plans
from insitu.graph import Graph
from insitu.planner import plan, verify
from insitu.proof.certificate import Certificate
from insitu.proof.program import Subject, Tools, prove_program
from insitu.proof.source import Source
from insitu.training.parts import Parts
from insitu.training.prefix import split

TOOLS = Tools(plan, verify, open_plans)


def certify(parts: Parts, samples: Samples, scheme: str, steps: int, seed: int) -> Certificate:
    """Run every check on the program of these parts, over `steps` steps."""
    subject = subject_of(parts, parts.graphs(), samples, steps, seed)
    return Certificate(parts.forward.name, scheme, arithmetic(parts), tuple(prove_program(subject, TOOLS, seed)))


def subject_of(parts: Parts, graphs: Mapping[str, Graph], samples: Samples, steps: int, seed: int) -> Subject:
    """The program of these graphs, and the inputs of `steps` steps."""
    source = Source(parts.forward, samples, parts.recipe, steps, seed)
    verbs = ("train_step",) * steps if "train_step" in graphs else (*("accumulate",) * steps, "apply")
    return Subject(graphs, source.feed, verbs, None if parts.at_once else split(graphs, parts.forward.inputs))


def arithmetic(parts: Parts) -> str:
    return "int8" if any(v.dtype == "s8" for n in parts.forward.nodes for v in n.outputs) else "float"
