"""The int8 graph that an ONNX file was written from, as a property of the file: `insitu.load` gives the same integers.

The exact form computes with integers as floats: scales and op boundaries are not in it any more. So the file also has
the graph's text form. Arrays that are among the file's constants are references to them, in any order of axes; few
remain. The digest is that of the model's nodes and constants: a file that was changed is not taken for the old one.
"""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from itertools import permutations
from math import factorial

import numpy as np
from onnx import GraphProto, numpy_helper

from insitu.graph import Graph
from insitu.graph.text import arrays, to_text

PROPERTY = "insitu"
MOST_ORDERS = factorial(4)


def carried(graph: Graph, made: GraphProto) -> str:
    """The property's text."""
    there = {t.name: numpy_helper.to_array(t) for t in made.initializer}
    stored = {name: _reference(array, there) or _whole(array) for name, array in arrays(graph).items()}
    return json.dumps({"digest": digest(made), "graph": to_text(graph), "arrays": stored}, sort_keys=True)


def digest(made: GraphProto) -> str:
    return sha256(made.SerializeToString(deterministic=True)).hexdigest()


def _reference(array: np.ndarray, there: dict[str, np.ndarray]) -> dict | None:
    """The constant of the file that has these numbers, with its axes in some order."""
    for name, other in there.items():
        if other.dtype == array.dtype and other.size == array.size:
            for order in list(permutations(range(array.ndim)))[:MOST_ORDERS]:
                if np.array_equal(array.transpose(order).reshape(-1), other.reshape(-1)):
                    return {"name": name, "order": order, "shape": array.shape}
    return None


def _whole(array: np.ndarray) -> dict:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.str, "shape": array.shape, "data": data}
