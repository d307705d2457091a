"""Is this a legal graph, and legal at this stage? The rules are a table; the errors name the value.

Every pass may assume a checked graph, so no pass checks again.
"""

from __future__ import annotations

from insitu.errors import Error, GraphError
from insitu.graph.classes import checked
from insitu.graph.graph import Graph, Node

FLOATS = ("f32", "f64")
INTEGERS = ("s8", "u8", "s16", "s32", "s64", "b1")


def _inference(node: Node) -> str | None:
    return None if node.op.facts.inference else f"{node.op.name} is not legal here"


def _no_int8_op(node: Node) -> str | None:
    return f"{node.op.name} is an int8 op" if node.op.kind == "int8" else None


def _quantised_s8(node: Node) -> str | None:
    for v in node.outputs:
        if v.dtype == "s8" and v.type.quant is None:
            return f"{v} is s8 but has no scale"
    return None


# stage -> the rules that every node must satisfy
STAGES = {
    "any": (),
    "float": (_no_int8_op,),
    "inference": (_no_int8_op, _inference),
    "int8": (_quantised_s8, _inference),
}


def check(graph: Graph, stage: str = "any") -> Graph:
    """Return the graph, or raise a GraphError for the first broken rule."""
    _check_definitions(graph)
    for node in graph.nodes:
        _check_types(node)
        for rule in STAGES[stage]:
            complaint = rule(node)
            if complaint:
                raise GraphError(f"{complaint} (stage {stage!r})", where=f"%{node.name}")
    return graph


def _check_definitions(graph: Graph) -> None:
    defined = {v.name: v.type for v in graph.inputs}
    if len(defined) != len(graph.inputs):
        raise GraphError("two inputs share a name", where=graph.name)
    if graph.by_rows and graph.by_rows not in defined:
        raise GraphError("arrives row by row, but is not an input", where=f"%{graph.by_rows}")
    for name, array in (*graph.constants.items(), *graph.state.items()):
        value = graph.values.get(name)
        if value is None:
            continue  # an unused constant does no harm; rewrites leave some behind
        if name in defined:
            raise GraphError("is defined twice: as an input, a constant or state", where=f"%{name}")
        if array.shape != value.shape or array.dtype != value.type.numpy:
            raise GraphError(f"is {value.type}, but its data are {array.dtype}{array.shape}", where=f"%{name}")
        defined[name] = value.type
    for node in graph.nodes:
        for v in node.inputs:
            if defined.get(v.name) != v.type:
                what = "is used before it is defined" if v.name not in defined else "has two types"
                raise GraphError(f"{what}, by {node.op.name}", where=f"%{v.name}")
        for v in node.outputs:
            if v.name in defined:
                raise GraphError("is defined twice", where=f"%{v.name}")
            defined[v.name] = v.type
    for v in graph.results:
        if defined.get(v.name) != v.type:
            raise GraphError("is an output that nothing defines", where=f"%{v.name}")
    checked(graph.classes)
    checked(graph.columns, "column")
    if graph.pixels and not -1e6 < graph.pixels[0] < graph.pixels[1] < 1e6:
        raise GraphError(f"takes pixels of {graph.pixels[0]:g} to {graph.pixels[1]:g}", where=graph.name)
    for name, new in graph.updates.items():
        if name not in graph.state or graph.state[name].shape != new.shape:
            raise GraphError(f"cannot become {new}: it is not state, or has another shape", where=f"%{name}")


def _check_types(node: Node) -> None:
    declared = tuple(v.type for v in node.outputs)
    wish = declared if len(node.outputs) > 1 else node.output.type
    try:
        types = node.op.apply("infer", tuple(v.type for v in node.inputs), dict(node.attrs), out=wish)
    except Error as e:
        raise GraphError(e.what, where=f"%{node.name}", hint=e.hint) from e
    if (types if isinstance(types, tuple) else (types,)) != declared:
        found = ", ".join(map(str, types if isinstance(types, tuple) else (types,)))
        raise GraphError(f"{node.op.name} gives {found}, not {', '.join(map(str, declared))}", where=f"%{node.name}")
