"""The functions of a program that collects its own samples: encode them once, recall and learn from what was kept.

    predict    sample -> outputs
    encode     sample -> latents: the outputs of the frozen layers; absent if nothing is frozen
    recall     latents -> outputs, and the features that the head reads
    learn      latents, label, rate -> loss, outputs

`encode` then `learn` gives the same bytes as `train_step`. Nothing is stored or chosen here: c/device/life.c does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from insitu.errors import GraphError
from insitu.graph import Graph, drop_unused
from insitu.terminal.wording import either, option
from insitu.training.head import HEAD
from insitu.training.prefix import split

STEP = "train_step"
ENCODE, RECALL, LEARN = "encode", "recall", "learn"


def living(graphs: Mapping[str, Graph], head: str | None = HEAD) -> dict[str, Graph]:
    """The graphs of a living program, from those of a training program that takes one sample per update."""
    predict = graphs["predict"]
    if STEP not in graphs or graphs[STEP].inputs[0].shape[:1] != (1,):
        raise GraphError("a program with a store learns from one sample at a time", hint=option(batch=1))
    found = split({"predict": predict, STEP: graphs[STEP]}, predict.inputs, narrow=True)
    if predict.by_rows and not found:
        raise _rows_are_gone(predict)
    rest = found.rest if found else {"predict": predict, STEP: graphs[STEP]}
    encode = {ENCODE: replace(found.prefix, classes=(), by_rows=predict.by_rows)} if found else {}
    return {"predict": predict, **encode, RECALL: with_features(rest["predict"], head), LEARN: rest[STEP]}


def _rows_are_gone(predict: Graph) -> GraphError:
    """Why a sample that arrives row by row cannot be kept."""
    size = sum(v.type.bytes for v in predict.inputs)
    words = "nothing is frozen, so samples would be kept as they are, and rows that went by are gone"
    room = f"a whole sample takes {size:,} bytes of SRAM"
    hint = either(shell=f"--scheme head, or leave out --rows ({room}) or --store",
                  python=f'scheme="head", or leave out rows ({room}) or store')  # fmt: skip
    return GraphError(f"a program with a store and rows keeps outputs of frozen layers: {words}", hint=hint)


def with_features(graph: Graph, head: str | None) -> Graph:
    """The graph with the head's input as a second output; without a head, only its own output."""
    node = graph.producer.get(head or "")
    if node is None or node.inputs[0].dtype != "f32":
        return graph
    return drop_unused(replace(graph, outputs=(graph.outputs[0], node.inputs[0])))
