"""What was learned as a PyTorch state dict: of the user's own module, or of the network's layers in torch's layout.

With the module (`into`, or export(..., module=net)) all names and shapes are the module's. Without it (state.py), each
layer gives NAME.weight and NAME.bias, a batch norm that is trained all four of its arrays, and every other parameter
has its own name. Batch norms that compile() folded stay folded.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator

import torch

from insitu.errors import DataError
from insitu.exporters.compared import FAR
from insitu.exporters.learned import learned_graph
from insitu.exporters.saturation import reason, saturating, unsaturated_distance, way_out
from insitu.exporters.torch.into import into, trained_graph
from insitu.exporters.torch.state import arrays_of, uncertain
from insitu.exporters.written import Options, Written
from insitu.graph import Graph
from insitu.ops.norm import batch_norm
from insitu.quantizer.fold import is_int8

__all__ = ["check", "into", "write"]

FOLDED = "batch norms are folded into the layers; module=net writes the state dict of your own module"


def write(learner, options: Options) -> Written:
    """The bytes of the file, and notes."""
    if options.module is not None:
        return Written(saved(into(copy.deepcopy(options.module), learner).state_dict()))
    graph, known = trained_graph(learner), learner.graphs["predict"]
    parameters = () if is_int8(known) else known.parameters  # a quantised graph has lost which they are
    state = {name: torch.from_numpy(array) for name, array in arrays_of(graph, parameters).items()}
    return Written(saved(state), tuple(_notes(graph, uncertain(graph, parameters))))


def _notes(graph: Graph, bare: list[str]) -> Iterator[str]:
    if all(node.op is not batch_norm for node in graph.nodes):
        yield FOLDED
    if bare:
        yield f"in insitu's own shape: {', '.join(bare)}; module=net writes the shapes of your own module"


def saved(state) -> bytes:
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    return buffer.getvalue()


def check(data: bytes, learner, options: Options) -> list[str]:
    """Load the file as anyone would, without running code from it, and into the module, if there is one.

    Without one, what a module of these weights would compute is compared with the learner.
    """
    state = torch.load(io.BytesIO(data), weights_only=True)
    if options.module is not None:
        copy.deepcopy(options.module).load_state_dict(state)
    size = f"a state dict of {len(state)} tensors, {sum(t.numel() for t in state.values()):,} numbers"
    return [size, *([] if options.module is not None else _near(learned_graph(learner), options.data))]


def _near(graph: Graph, samples) -> Iterator[str]:
    """A note on how near a module of these weights comes to an int8 network; too far is an error."""
    if not is_int8(graph):
        return
    off = unsaturated_distance(graph, samples)
    if off > FAR:
        what = f"a module of these weights would be off by {off:.0%} of the largest output"
        raise DataError(what + reason(saturating(graph, samples)), hint=way_out(graph))
    yield f"a module of these weights computes the learner's outputs within {off:.1%} of the largest"
