"""Learners and histories as one screen of text, a table in a notebook, and a picture. No file is written here."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from insitu.files import write_whole
from insitu.graph.classes import class_words

if TYPE_CHECKING:
    from insitu.learner.history import History
    from insitu.learner.owner import Owner

WIDE, HIGH, LEFT, BELOW = 640, 240, 52, 28  # of a picture, and of its margins
COLOURS = ("#2a6fdb", "#d1642a", "#2a9d5c", "#8a5bd0")
MOST_ROWS = 20


def learner_rows(learner: Owner) -> list[tuple[str, str]]:
    """A learner's description, line by line. Nothing is planned, compiled or opened for it."""
    graph, parts = learner.graphs["predict"], learner.parts
    trained = sum(array.size for array in graph.state.values())
    where = learner.site.place or "a device that was opened elsewhere"
    return [
        ("model", graph.name),
        ("takes", ", ".join(f"{v.name} {v.type}" for v in graph.inputs)),
        ("gives", ", ".join(f"{v.name} {v.type}" for v in graph.outputs)),
        answers(learner),
        *([("scheme", f"{parts.scheme.name}, {trained:,} trained parameters")] if parts else []),
        ("updates", f"every {learner.batch} samples" if learner.batch > 1 else "every sample"),
        ("loss", learner.recipe.loss),
        ("on", where + (f", linked for {learner.deployed.limits.board.name}"
                        if learner.deployed and learner.deployed.limits.board else "")),
    ]  # fmt: skip


def answers(learner: Owner) -> tuple[str, str]:
    """What it answers: classes, targets, or outputs that are 0 or 1."""
    kind = {"mse": "targets", "binary_cross_entropy": "outputs"}.get(learner.recipe.loss, "classes")
    return kind, class_words(learner.classes, learner.names)


def as_text(title: str, rows: list[tuple[str, str]]) -> str:
    wide = max(len(key) for key, _ in rows)
    return "\n".join([title, *(f"  {key:<{wide}}  {value}" for key, value in rows)])


def as_html(title: str, rows: list[tuple[str, str]]) -> str:
    lines = "".join(
        f'<tr><th style="text-align:left">{escape(k)}</th><td style="text-align:left">{escape(v)}</td></tr>'
        for k, v in rows
    )
    return f"<table><caption>{escape(title)}</caption>{lines}</table>"


# histories --------------------------------------------------------------------------------------


def columns(history: History) -> dict[str, list[float]]:
    """The parts of a history with one number per epoch."""
    found = {name: getattr(history, name, []) for name in ("loss", "accuracy", "error", "validation", "tested")}
    return {name: values for name, values in found.items() if values}


def history_rows(history: History) -> list[tuple[str, ...]]:
    """Epochs as rows of words; of many epochs, some in the middle are left out."""
    named = columns(history)
    count = len(history.loss)
    shown = range(count) if count <= MOST_ROWS else [*range(MOST_ROWS // 2), *range(count - MOST_ROWS // 2, count)]
    rows = [(str(i + 1), *(f"{v[i]:.4g}" if i < len(v) else "" for v in named.values())) for i in shown]
    if count > MOST_ROWS:
        rows.insert(MOST_ROWS // 2, ("...", *[""] * len(named)))
    return [("epoch", *named), *rows]


def history_text(history: History) -> str:
    rows = history_rows(history)
    wide = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ["  ".join(f"{word:>{n}}" for word, n in zip(row, wide)) for row in rows]
    return "\n".join([str(history), *lines] if history.loss else [str(history)])


def history_html(history: History) -> str:
    head, *rows = history_rows(history)
    cells = "".join(f"<tr>{''.join(f'<td>{escape(word)}</td>' for word in row)}</tr>" for row in rows)
    top = "".join(f"<th>{escape(word)}</th>" for word in head)
    return f"<p>{escape(str(history))}</p>{curves(history)}<table><tr>{top}</tr>{cells}</table>"


@dataclass(frozen=True, repr=False)
class Picture:
    """An SVG: a notebook shows it, `save` writes it."""

    svg: str

    def __repr__(self) -> str:
        return f'Picture of {WIDE} x {HIGH}, SVG, {len(self.svg):,} bytes: .save("curves.svg") writes it'

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        return write_whole(path, self.svg.encode())


def curves(history: History) -> str:
    """An SVG of the loss and each measure over the epochs: accuracies from 0 to 1, the others on their own scales."""
    lines, legend = [], []
    for (name, values), colour in zip(columns(history).items(), COLOURS):
        share = bool(history.accuracy) and name != "loss"
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in _points(values, (0.0, 1.0) if share else None))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        at = LEFT + 8 + 145 * len(legend)
        words = f"{name} {values[0]:.3g} to {values[-1]:.3g}"
        legend.append(f'<text x="{at}" y="14" fill="{colour}" font-size="12">{escape(words)}</text>')
    count = len(history.loss)
    frame = f'<path d="M{LEFT} 20V{HIGH - BELOW}H{WIDE - 8}" fill="none" stroke="currentColor" opacity="0.5"/>'
    foot = (
        f'<text x="{WIDE - 8}" y="{HIGH - 8}" text-anchor="end" font-size="12" fill="currentColor">epoch {count}</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" width="{WIDE}" height="{HIGH}" '
        f'font-family="sans-serif" role="img" aria-label="{escape(str(history))}">'
        f"{frame}{''.join(lines)}{''.join(legend)}{foot}</svg>"
    )


def _points(values: list[float], span: tuple[float, float] | None) -> list[tuple[float, float]]:
    """Places in the picture, on a scale of this span or of their own; numbers that are not finite have none.

    Numbers that are all the same are half way up, and a single one is a line.
    """
    known = [(i, v) for i, v in enumerate(values * 2 if len(values) == 1 else values) if isfinite(v)]
    low, high = span or (min((v for _, v in known), default=0), max((v for _, v in known), default=1))
    if low == high:
        low, high = low - 0.5, high + 0.5
    wide, high_px = WIDE - 8 - LEFT, HIGH - BELOW - 24
    return [(LEFT + wide * i / max(len(values) - 1, 1), 24 + high_px * (high - v) / (high - low)) for i, v in known]
