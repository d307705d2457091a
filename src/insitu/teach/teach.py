"""The steps from a folder to a learner: look, choose a network that fits, read, train, test.

Photos: a network that knows photos already gets a new classifier. Tables and recordings: a small network learns from
nothing, in float, and is then made int8. Everything that runs is the generated C. Files are written by the caller.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from insitu import pipeline
from insitu.boards import Board
from insitu.data.reading import read_image
from insitu.data.samples import Samples
from insitu.data.tables import read_table
from insitu.deploy import limits_of
from insitu.errors import BudgetError, DataError, LearningWarning
from insitu.graph import Graph
from insitu.learner import Learner
from insitu.learner.history import History
from insitu.learner.learned import learned_model
from insitu.teach.backbones import backbones
from insitu.teach.material import PHOTOS, TABLE, Material, look
from insitu.teach.scratch import for_table, for_windows
from insitu.terminal.progress import Report, bar
from insitu.terminal.table import table

WINDOW = 128  # readings of a recording that are looked at together; fewer if a recording is shorter
WORST_LOSS = 0.02  # of accuracy from float to int8, above which a note says so
SHOWN = 12  # classes in a printed confusion matrix; with more, the worst confusions are listed


@dataclass(frozen=True, eq=False)
class Taught:
    """A learner, and how well it does on examples that it did not learn from."""

    learner: Learner
    material: Material
    network: str
    history: History
    test: Samples  # what it was tested on
    confusion: np.ndarray  # [true class, predicted class]: how many test examples
    notes: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.confusion) / max(self.confusion.sum(), 1))

    @property
    def tested(self) -> int:
        return int(self.confusion.sum())

    def to_json(self) -> dict:
        return {
            "material": str(self.material), "kind": self.material.kind, "network": self.network,
            "classes": list(self.learner.names), "accuracy": self.accuracy, "tested": self.tested,
            "confusion": self.confusion.tolist(), "notes": list(self.notes), "training": str(self.history),
        }  # fmt: skip

    def __str__(self) -> str:
        counts = f"{int(np.trace(self.confusion)):,} of {self.tested:,}"
        lines = [
            f"learned   {self.material}",
            f"network   {self.network}",
            f"training  {self.history}",
            f"test      {self.accuracy:.1%}   {counts} examples that were not learned from",
            "",
            confusion_text(self.confusion, self.learner.names),
        ]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


def teach(path, *, board: str | Board = "host", sram: int | None = None, flash: int | None = None,
          backbone: str | None = None, share: float = 0.2, seed: int = 0, go_on: Learner | None = None,
          keep: Callable[[Learner], object] | None = None, progress: Report | None = None) -> Taught:  # fmt: skip
    """A learner that knows the examples of a folder or table, tested on a fifth of them.

    board, sram, flash    the network is chosen to fit them
    backbone              a network for photos, by name; None: the most accurate one that fits
    share                 of the examples that are kept for the test
    go_on                 a learner that was taught before: it learns on
    keep                  is called with the learner if Ctrl-C interrupts its training
    """
    material = look(path, share=share, seed=seed)
    with bar(progress) as report:
        if go_on is not None:
            learner, network, samples, notes = go_on, go_on.graphs["predict"].name, _samples(material, go_on), ()
        elif material.kind == PHOTOS:
            learner, network, samples, notes = _from_backbone(material, board, sram, flash, backbone, seed, report)
        else:
            return _from_scratch(material, board, sram, flash, seed, report)
        with kept_at_interrupt(learner, keep):
            history = learner.fit(samples.take(~material.test), seed=seed, progress=report)
    return _tested(learner, material, network, history, samples.take(material.test), (*material.notes, *notes))


@contextmanager
def kept_at_interrupt(learner: Learner, keep: Callable[[Learner], object] | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if keep:
            keep(learner)
        raise


# photos -----------------------------------------------------------------------------------------


def _from_backbone(material: Material, board, sram, flash, wanted, seed, report):
    """The first network that is here and fits; why others were passed over."""
    passed: list[str] = []
    limits = limits_of(board, sram, flash)
    for backbone in backbones(wanted):
        report(f"trying {backbone.name}", 0, 1)
        graph = backbone.make()
        if limits.flash is not None and _weights(graph) > limits.flash:
            passed.append(f"{backbone.name}: {_weights(graph):,} weights are more than the flash")
            continue
        samples = _photos(material, graph, report)
        try:
            learner = pipeline.compile(graph, classes=material.names, data=samples.take(~material.test), board=board,
                                       sram=sram, flash=flash, head_after=backbone.head_after, seed=seed)  # fmt: skip
        except BudgetError as e:
            passed.append(f"{backbone.name}: {e.what.splitlines()[0]}")
            continue
        return learner, backbone.name, samples, tuple(f"passed over {p}" for p in passed)
    why = "\n  ".join(passed)
    raise BudgetError(f"no network for photos fits:\n  {why}", hint="a larger board, or more --sram and --flash")


def _weights(graph: Graph) -> int:
    return sum(array.size for array in graph.constants.values())


def _photos(material: Material, graph: Graph, report: Report) -> Samples:
    value, found = graph.inputs[0], []
    for k, file in enumerate(material.files):
        report("reading photos", k, len(material))
        found.append(read_image(file, value)[0])
    x = np.stack(found).round().astype(np.uint8) if value.dtype == "u8" else np.stack(found) / np.float32(255)
    return Samples((x,), material.labels, material.names, str(material.path))


# tables and recordings --------------------------------------------------------------------------


def _from_scratch(material: Material, board, sram, flash, seed: int, report: Report) -> Taught:
    """A small float network learns everything; then the same network in int8, for the board."""
    x, which = _numbers(material)
    labels, test = material.labels[which], material.test[which]
    make = for_table if material.kind == TABLE else for_windows
    samples = Samples((x,), labels, material.names, str(material.path))
    training = samples.take(~test)
    graph = make(training.inputs[0], len(material.names), seed)
    school = pipeline.compile(graph, classes=material.names, precision="float", scheme="full", data=training,
                              head_init="uniform", seed=seed)  # fmt: skip
    history = school.fit(training, seed=seed, progress=report)
    learner = pipeline.compile(learned_model(school), data=training, board=board, sram=sram, flash=flash, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)  # it has learned already: there may be nothing to gain
        learner.fit(training, seed=seed, progress=report)  # what int8 has cost, as far as the head can make up for it
    made = _tested(learner, material, f"a new network for {material.kind}", history, samples.take(test), material.notes)
    before = school.evaluate(samples.take(test))["accuracy"]
    if before - made.accuracy <= WORST_LOSS:
        return made
    note = f"int8 costs {100 * (before - made.accuracy):.1f} points of accuracy ({before:.1%} in float)"
    return replace(made, notes=(*made.notes, note))


def _samples(material: Material, learner: Learner) -> Samples:
    """Everything of the material, in the form that this learner takes; labels are matched by name."""
    if material.kind == PHOTOS:
        return _photos(material, learner.graphs["predict"], lambda *_: None)
    if material.kind == TABLE:
        return Samples(_numbers(material)[:1], material.labels, material.names, str(material.path))
    raise DataError("recordings cannot be learned on with yet", hint="teach all recordings again, old and new")


def _numbers(material: Material) -> tuple[np.ndarray, np.ndarray]:
    """The inputs, and which example each belongs to."""
    if material.kind == TABLE:
        assert material.rows is not None
        return material.rows, np.arange(len(material))
    found = [read_table(f).numbers().astype(np.float32) for f in material.files]
    widths = {r.shape[1] for r in found}
    if len(widths) > 1:
        odd = next(f for f, r in zip(material.files, found) if r.shape[1] != found[0].shape[1])
        raise DataError(f"has another number of columns than {material.files[0].name}", where=str(odd))
    length = min(WINDOW, *(len(r) for r in found))
    if length < 8:
        short = material.files[int(np.argmin([len(r) for r in found]))]
        raise DataError("is too short to learn from", where=str(short), hint="at least 8 lines, one per reading")
    cut = [windows(r, length) for r in found]
    return np.concatenate(cut)[:, None], np.repeat(np.arange(len(cut)), [len(c) for c in cut])


def windows(recording: np.ndarray, length: int) -> np.ndarray:
    """[count, length, channels], each half a window after the one before."""
    step = max(length // 2, 1)
    return np.stack([recording[k : k + length] for k in range(0, len(recording) - length + 1, step)])


# the test ---------------------------------------------------------------------------------------


def _tested(learner: Learner, material: Material, network: str, history: History, test: Samples,
            notes: Iterable[str]) -> Taught:  # fmt: skip
    known = learner.samples(test, part="test")  # labels in the learner's own order
    assert known.labels is not None
    guesses = np.asarray(learner.predict(known)).reshape(len(known), -1).argmax(1)
    confusion = np.zeros((learner.classes, learner.classes), np.int64)
    np.add.at(confusion, (known.labels, guesses), 1)
    return Taught(learner, material, network, history, known, confusion, tuple(notes))


def confusion_text(confusion: np.ndarray, names: tuple[str, ...]) -> str:
    """Rows are the true classes. With many classes, only the most frequent confusions."""
    if len(names) <= SHOWN:
        heads = ("", *(name[:14] for name in names), "right")
        rows = [
            (name, *map(int, row), _share(row[k], row.sum())) for k, (name, row) in enumerate(zip(names, confusion))
        ]
        return table(heads, rows)
    wrong = confusion * (1 - np.eye(len(names), dtype=np.int64))
    worst = np.dstack(np.unravel_index(np.argsort(-wrong, axis=None)[:SHOWN], wrong.shape))[0]
    rows = [(names[a], names[b], int(wrong[a, b])) for a, b in worst if wrong[a, b]]
    return table(("taken for something else", "as", "times"), rows)


def _share(right: int, total: int) -> str:
    return f"{100 * right / total:.0f} %" if total else "-"
