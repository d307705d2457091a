"""A torch module and the graph it is read as, compared: what the tests of the torch importer share."""

from copy import deepcopy

import numpy as np
import torch

from insitu.graph import check, evaluate
from insitu.importers.torch.read import read_torch


def close(a, b, tolerance=1e-5):
    """The tolerance for floats everywhere here; b is the reference, in float64."""
    assert a.shape == b.shape
    return np.max(np.abs(a - b)) <= tolerance * max(np.max(np.abs(b)), 1e-6)


def reference(module, *inputs):
    """torch's result in float64."""
    with torch.no_grad():
        return deepcopy(module).double().eval()(*(x.double() for x in inputs)).numpy()


def agrees(module, *inputs):
    """The import, after a check that it computes the same as torch."""
    graph = check(read_torch(module, inputs), "float")
    y = evaluate(graph, *(x.numpy() for x in inputs), precision=np.float64)
    assert close(y, reference(module, *inputs)), graph
    return graph


def ops(graph):
    return [n.op.name for n in graph.nodes]
