"""The meaning of a graph, computed with numpy: the reference for every generated program.

Integer graphs give the exact bytes. Float graphs run in the precision of their inputs: with `precision=np.float64`,
every float is computed in float64.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.errors import DataError
from insitu.graph.graph import Graph


def evaluate(graph: Graph, *inputs, precision: type = np.float32, keep: bool = False, state=None):
    """The outputs (one array, or a tuple); with `keep`, a dict of every value by name instead.

    `state` has the contents of the persistent values (by default their initial contents). It is not changed: `run_step`
    returns the new state.
    """
    if len(inputs) != len(graph.inputs):
        raise DataError(f"{len(graph.inputs)} inputs wanted, {len(inputs)} given", where=graph.name)
    env: dict[str, np.ndarray] = {}
    for v, x in zip(graph.inputs, inputs):
        env[v.name] = _feed(v, x, precision)
    for name, array in graph.constants.items():
        env[name] = _cast(array, precision)
    for name, array in (graph.state if state is None else state).items():
        env[name] = _cast(array, precision)
    last = _last_use(graph) if not keep else {}
    for i, node in enumerate(graph.nodes):
        results = node.rule("eval", *(env[v.name] for v in node.inputs))
        for v, r in zip(node.outputs, results if isinstance(results, tuple) else (results,)):
            env[v.name] = _result(v, r, precision)
        for name in last.get(i, ()):
            del env[name]
    if keep:
        return env
    found = tuple(env[v.name] for v in graph.outputs)
    return found[0] if len(found) == 1 else found


def run_step(graph: Graph, state: dict[str, np.ndarray], *inputs, precision: type = np.float32):
    """One run of a graph with state: its outputs (a tuple), and the state after the run."""
    whole = replace(graph, outputs=graph.results)
    found = evaluate(whole, *inputs, precision=precision, state=state)
    found = found if isinstance(found, tuple) else (found,)
    count = len(graph.outputs)
    return found[:count], {**state, **dict(zip(graph.updates, found[count:]))}


def _feed(value, x, precision) -> np.ndarray:
    x = np.asarray(x)
    if x.shape != value.shape:
        raise DataError(f"is {value.type}, but the data have the shape {x.shape}", where=f"%{value.name}")
    if value.dtype in ("f32", "f64"):
        return x.astype(precision)
    if x.dtype != value.type.numpy:
        raise DataError(f"is {value.type}, but the data are {x.dtype}", where=f"%{value.name}")
    return x


def _cast(array: np.ndarray, precision) -> np.ndarray:
    return array.astype(precision) if array.dtype in (np.float32, np.float64) else array


def _result(value, r, precision) -> np.ndarray:
    r = np.asarray(r)
    assert r.shape == value.shape, f"{value} is {value.type}, but its eval gave {r.shape}"
    if value.dtype in ("f32", "f64"):
        return r.astype(precision, copy=False)
    assert r.dtype == value.type.numpy, f"{value} is {value.type}, but its eval gave {r.dtype}"
    return r


def _last_use(graph: Graph) -> dict[int, list[str]]:
    """Step -> the values not needed after it."""
    keep = {v.name for v in graph.results}
    seen: dict[str, int] = {}
    for i, node in enumerate(graph.nodes):
        for v in (*node.inputs, *node.outputs):
            seen[v.name] = i
    dead: dict[int, list[str]] = {}
    for name, i in seen.items():
        if name not in keep and name not in graph.constants and name not in graph.state:
            dead.setdefault(i, []).append(name)
    return dead
