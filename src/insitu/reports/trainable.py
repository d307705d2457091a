"""Can this model be trained, and from which layer on? Walks back from the output along the gradient rules.

An op without a gradient rule blocks all layers before it. Nothing is trained or differentiated here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from insitu.graph import REGISTRY, Graph, Node, Op
from insitu.importers.instead import instead_of
from insitu.importers.survey import Use
from insitu.ops.activation import lut_s8
from insitu.reports.mapping import ops_for
from insitu.terminal.table import size, table


@dataclass(frozen=True)
class Row:
    """One op of the model."""

    layer: str
    op: str
    type: str
    imported: bool
    trainable: bool
    parameters: int
    why: str = ""  # what prevents training


@dataclass(frozen=True)
class SchemeTotals:
    """What training by a scheme takes on a board, estimated."""

    scheme: str
    trained: int  # parameters
    state_bytes: int
    sram_bytes: int  # arena, state, and an allowance for stack and protocol
    lowered: bool  # was the peak lowered as for a board? If not, this is an upper bound


@dataclass(frozen=True)
class Totals:
    parameters: int
    macs: int  # multiply-adds of a prediction
    schemes: tuple[SchemeTotals, ...]

    def to_text(self) -> str:
        words = f"{self.parameters:,} parameters, {self.macs:,} multiply-adds per prediction"
        if not self.schemes:
            return words
        rows = [
            (s.scheme, s.trained, size(s.state_bytes), f"{'' if s.lowered else 'at most '}{size(s.sram_bytes)}")
            for s in self.schemes
        ]
        return f"{words}\n\n{table(('scheme', 'trained', 'state', 'least SRAM, estimated'), rows)}"


@dataclass(frozen=True)
class Check:
    model: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    imported: bool
    verdict: str
    advice: str = ""
    totals: Totals | None = None  # if it can be trained

    @property
    def trainable(self) -> bool:
        """Does a gradient reach any layer with parameters?"""
        return self.imported and any(r.trainable and r.parameters for r in self.rows)

    def to_json(self) -> dict:
        return {**asdict(self), "trainable": self.trainable}

    def to_text(self) -> str:
        headers = ("layer", "op", "type", "imported", "trainable", "parameters", "")
        rows = [(r.layer, r.op, r.type, r.imported, r.trainable, r.parameters or None, r.why) for r in self.rows]
        lines = [table(headers, rows), ""]
        lines += [f"note: {note}" for note in self.notes]
        lines.append(self.verdict)
        lines += [f"  try: {self.advice}"] if self.advice else []
        return "\n".join(lines + ([self.totals.to_text()] if self.totals else []))


def has_gradient(op: Op) -> bool:
    return op.has("grad")


def check_graph(graph: Graph, gradient: Callable[[Op], bool] | None = None) -> Check:
    """The report on a model that was imported."""
    gradient = gradient or has_gradient
    reached = reached_nodes(graph, gradient)
    rows = tuple(_row(graph, node, node in reached, gradient) for node in graph.nodes)
    blocker = next((n for n in reversed(graph.nodes) if n not in reached and not gradient(n.op)), None)
    verdict, advice = _verdict(rows, blocker)
    if not any(gradient(op) for op in REGISTRY.values()):
        advice = "a later version: this one has no gradient rules"
    return Check(graph.name, rows, graph.notes, True, verdict, advice)


def reached_nodes(graph: Graph, gradient: Callable[[Op], bool]) -> set[Node]:
    """The nodes a gradient passes through: each has a rule, and so has every node between it and the output.

    A value with several readers needs the gradient of every branch: one blocked branch would make the sum wrong.
    """
    reached: set[Node] = set()
    needed = {v.name for v in graph.outputs}
    blocked: set[str] = set()  # values whose gradient cannot be known
    for node in reversed(graph.nodes):
        names = {v.name for v in node.outputs}
        if not names & needed:
            continue  # does not lead to the output
        if gradient(node.op) and not names & blocked:
            reached.add(node)
        else:
            blocked |= {v.name for v in node.inputs}
        needed |= {v.name for v in node.inputs}
    return reached


def check_uses(model: str, form: str, uses: list[Use], problem: str, hint: str) -> Check:
    """The report on a file that cannot be imported: every op in it, and the first one that is not supported."""
    rows = _use_rows(form, [_marked(use, problem) for use in uses])
    unknown = next((r for r in reversed(rows) if not r.imported), None)
    if unknown is None or all(use.known for use in uses):
        return Check(model, rows, (), False, f"cannot be trained: it cannot be imported. {problem}", hint)
    verdict = f"cannot be trained: {unknown.op} ({unknown.layer}) is not supported"
    return Check(model, rows, (), False, verdict, instead_of(unknown.op))


def _marked(use: Use, problem: str) -> Use:
    """The op marked as refused, if the importer knows it but refused it here."""
    refused = use.known and use.layer and use.layer in problem and use.op in problem
    return replace(use, known=False, reason="refused, see below") if refused else use


def _use_rows(form: str, uses: list[Use]) -> tuple[Row, ...]:
    """One row per op. Without a graph, every op before a blocker in the file counts as blocked."""
    rows, blocked = [], False
    for use in reversed(uses):
        rule = use.known and all(has_gradient(REGISTRY[name]) for name in ops_for(form, use.op))
        why = use.reason or ("" if rule else "no gradient rule") or ("behind a blocker" if blocked else "")
        blocked |= not rule
        rows.append(Row(use.layer, use.op, "", use.known, not blocked, 0, why))
    return tuple(reversed(rows))


def _row(graph: Graph, node: Node, reached: bool, gradient: Callable[[Op], bool]) -> Row:
    why = "" if reached else f"{node.op.name} has no gradient rule" if not gradient(node.op) else "behind a blocker"
    return Row(node.name, node.op.name, _short(node), True, reached, _parameters(graph, node), why)


def _short(node: Node) -> str:
    type = node.output.type
    return str(type.with_dtype(type.dtype))


def _parameters(graph: Graph, node: Node) -> int:
    """The number of elements of the constants it reads; tables and single numbers are computed and not learned."""
    if node.op is lut_s8:
        return 0
    read = [v for v in node.inputs if v.name in graph.constants and (v.shape or v.name in graph.parameters)]
    return sum(graph.constants[v.name].size for v in read)


def _verdict(rows: tuple[Row, ...], blocker: Node | None) -> tuple[str, str]:
    layers = [r for r in rows if r.parameters]
    open_ = [r for r in layers if r.trainable]
    if layers and len(open_) == len(layers):
        return f"can be trained: all {len(layers)} layers with parameters", ""
    if not layers:
        return "cannot be trained: no layer has parameters", ""
    if blocker is None:
        return "cannot be trained: no layer with parameters leads to the output", ""
    place = f"{blocker.op.name} ({blocker.name}) has no gradient rule"
    if not open_:
        return (
            f"cannot be trained: {place}",
            f"`insitu ops {blocker.op.name}` shows what it has; replace it, or add a rule",
        )
    verdict = f"can be trained from {open_[0].layer} on ({len(open_)} of {len(layers)} layers); {place}"
    return verdict, f"keep everything before {open_[0].layer} frozen, or replace {blocker.op.name}"
