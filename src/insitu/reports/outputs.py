"""A model's predictions: the top classes if the output is scores, else its numbers if they are few, and a summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from insitu.data import Samples
from insitu.graph import Graph, Value
from insitu.graph.classes import word
from insitu.learner.classify import probabilities
from insitu.terminal.table import table

SHOWN = 10  # samples in the text, if there are more than twice as many
FEW = 8  # numbers per sample that are shown
WIDEST = 60  # letters of a path


@dataclass(frozen=True)
class Prediction:
    """The likeliest classes of one sample, best first."""

    classes: tuple[int, ...]
    scores: tuple[float, ...]
    label: int | None = None
    probabilities: tuple[float, ...] = ()
    file: str = ""


@dataclass(frozen=True)
class Predictions:
    model: str
    samples: int
    output: str  # name and type
    top: tuple[Prediction, ...]  # empty if the output is not a row of scores
    accuracy: float | None
    summary: dict[str, float]  # of all outputs together
    names: tuple[str, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()  # the outputs of each sample, if they are few and no scores
    files: tuple[str, ...] = ()  # where each sample comes from

    def to_json(self) -> dict:
        return asdict(self)

    def to_text(self) -> str:
        lines = [f"{self.model}: {self.samples:,} sample{'s' * (self.samples != 1)} -> {self.output}", ""]
        lines.append(self._top_table() if self.top else self._numbers() + self._summary_line())
        if self.accuracy is not None:
            lines += ["", f"accuracy {100 * self.accuracy:.2f} % of {self.samples:,}", *self._mistakes()]
        return "\n".join(lines)

    def _mistakes(self) -> list[str]:
        """Which samples got another answer than their label, the surest ones first."""
        wrong = [
            (p.probabilities[0], short(p.file) or i, word(self.names, p.label), word(self.names, p.classes[0]))
            for i, p in enumerate(self.top)
            if p.label is not None and p.classes[0] != p.label
        ]
        if not wrong:
            return []
        wrong.sort(key=lambda row: -row[0])
        rows = [(where, label, f"{answer} ({percent(sure)})") for sure, where, label, answer in wrong[:SHOWN]]
        rest = f"\n... and {len(wrong) - SHOWN:,} more" if len(wrong) > SHOWN else ""
        return ["", table(("wrong", "label", "answer"), rows) + rest]

    def _top_table(self) -> str:
        shown = self.top[: shown_of(len(self.top))]
        count = len(shown[0].classes)
        rows, known = [self._row(i, p) for i, p in enumerate(shown)], any(p.label is not None for p in shown)
        heads = ["file" if shown[0].file else "sample", *(f"top {k + 1}" for k in range(count)), "label"]
        text = table(heads, rows) if known else table(heads[:-1], [row[:-1] for row in rows])
        rest = len(self.top) - len(shown)
        return text + (f"\n... and {rest:,} more (-o writes all of them)" if rest else "")

    def _row(self, i: int, p: Prediction) -> list:
        words = [f"{word(self.names, c)} ({percent(s)})" for c, s in zip(p.classes, p.probabilities)]
        return [short(p.file) or i, *words, "" if p.label is None else word(self.names, p.label)]

    def _numbers(self) -> str:
        if not self.values:
            return ""
        count = len(self.values[0])
        own = self.names if len(self.names) == count and all(self.names) else [f"output {k}" for k in range(count)]
        heads = ["file" if self.files else "sample", *own]
        rows = [
            [short(self.files[i]) if self.files else i, *(f"{v:.5g}" for v in row)] for i, row in enumerate(self.values)
        ]
        shown = shown_of(len(rows))
        rest = len(rows) - shown
        return table(heads, rows[:shown]) + (f"\n... and {rest:,} more (-o writes all of them)" * (rest > 0)) + "\n\n"

    def _summary_line(self) -> str:
        return "  ".join(f"{k} {v:.4g}" for k, v in self.summary.items())


def shown_of(count: int) -> int:
    """How many of so many samples are printed: all of them, if few would be left out."""
    return count if count <= 2 * SHOWN else SHOWN


def short(file: str) -> str:
    """The end of a long path, which tells files apart."""
    return file if len(file) <= WIDEST else f"...{file[3 - WIDEST :]}"


def percent(share: float) -> str:
    return "< 0.1 %" if share < 0.0005 else f"{100 * share:.1f} %"


def describe(graph: Graph, outputs: tuple[np.ndarray, ...], samples: Samples, top: int = 3,
             files: tuple[str, ...] = ()) -> Predictions:  # fmt: skip
    """A report on the first output; `files` says where each sample comes from. `top` 0: the outputs are no scores."""
    value = graph.outputs[0]
    y = real(value, outputs[0])
    scores, labels = y.reshape(len(samples), -1), samples.labels
    found = tuple(_best(row, top, labels, i) for i, row in enumerate(scores)) if top and is_scores(value) else ()
    if found:
        chances = probabilities(graph, outputs[0])
        found = tuple(_with_chances(p, chances[i], files[i] if files else "") for i, p in enumerate(found))
    right = None
    if found and labels is not None:
        right = float(np.mean(scores.argmax(axis=1) == labels))
    summary = {"min": float(y.min()), "mean": float(y.mean()), "max": float(y.max())}
    if not found and labels is not None and labels.size == y.size:
        summary["squared error"] = float(np.mean((scores - labels.reshape(scores.shape)) ** 2))
    output = f"{value.name} {value.type}"
    values = () if found or scores.shape[1] > FEW else tuple(tuple(map(float, row)) for row in scores)
    return Predictions(graph.name, len(samples), output, found, right, summary, graph.classes, values, files)


def _with_chances(found: Prediction, row: np.ndarray, file: str) -> Prediction:
    return replace(found, probabilities=tuple(float(row[k]) for k in found.classes), file=file)


def is_scores(value: Value) -> bool:
    """Is this output a row of scores, one per class?"""
    each = value.type.size // (value.shape or (1,))[0]
    return value.type.rank >= 2 and 1 < each == value.shape[-1]


def real(value: Value, y: np.ndarray) -> np.ndarray:
    """The real numbers that a value's integers stand for."""
    q = value.type.quant
    return y if q is None else (y.astype(np.float64) - q.zero) * q.scales(y.ndim)


def _best(row: np.ndarray, top: int, labels, i: int) -> Prediction:
    order = np.argsort(-row, kind="stable")[:top]
    label = None if labels is None else int(labels[i])
    return Prediction(tuple(map(int, order)), tuple(float(row[k]) for k in order), label)
