"""The int8 graph that an ONNX file of insitu's carries in its property `insitu` (exporters/onnx/carried.py).

Only text and numbers are read. A property that is damaged, or belongs to other nodes, counts as absent.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from hashlib import sha256

import numpy as np

from insitu.errors import Error
from insitu.graph import Graph, check
from insitu.graph.text import parse

PROPERTY = "insitu"
MOST = 1 << 28  # characters
DTYPES = ("|i1", "|u1", "<i2", "<i4", "<i8", "<f4", "<f8")


def carried_graph(proto, arrays: Mapping[str, np.ndarray]) -> Graph | None:
    """The graph, if the file has one and was not changed since."""
    text = next((p.value for p in proto.metadata_props if p.key == PROPERTY), "")
    if not text or len(text) > MOST:
        return None
    try:
        found = json.loads(text)
        if found["digest"] != sha256(proto.graph.SerializeToString(deterministic=True)).hexdigest():
            return None
        return check(parse(found["graph"], {str(k): _array(v, arrays) for k, v in found["arrays"].items()}))
    except (Error, ValueError, TypeError, LookupError, AttributeError, RecursionError, binascii.Error):
        return None


def _array(stored: dict, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    shape = tuple(stored["shape"])
    if "data" in stored:
        if stored["dtype"] not in DTYPES:
            raise ValueError(f"elements of type {stored['dtype']!r}")
        return np.frombuffer(base64.b64decode(stored["data"], validate=True), stored["dtype"]).reshape(shape)
    order = list(stored["order"])
    turned = arrays[stored["name"]].reshape([shape[d] for d in order])
    return np.ascontiguousarray(turned.transpose(np.argsort(order)))
