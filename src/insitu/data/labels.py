"""The label of each sample as a class number: from numbers, one-hot rows, or names, and matched by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.data.streams import array
from insitu.errors import DataError
from insitu.graph.classes import checked, compiled_for, unknown
from insitu.terminal.wording import either, option

if TYPE_CHECKING:
    from insitu.data.samples import Samples


MANY = 20  # different labels of few samples; more of them are rather quantities
FEW = 4  # samples of a class: with fewer, on average, labels are rather quantities


def label_array(labels: Any) -> np.ndarray:
    """An array of labels or targets; a missing one (None, or NaN among names) is an error."""
    found = array(labels)
    mixed = isinstance(labels, list | tuple) and found.dtype.kind == "U"  # numpy made text of everything
    words = labels if mixed else found.flat if found.dtype.kind == "O" else ()
    lacking = next((i for i, word in enumerate(words) if is_nothing(word)), None)
    if lacking is not None:
        raise DataError("has no label", where=f"labels, sample {lacking}", hint="give it one, or leave it out")
    return found


def is_nothing(word: object) -> bool:
    """Does it stand for a missing value: None, NaN, or what pandas has for that?"""
    return word is None or type(word).__name__ in ("NAType", "NaTType") or (isinstance(word, float) and word != word)


def numbered(labels: np.ndarray, where: str = "labels") -> tuple[np.ndarray, tuple[str, ...]]:
    """(class numbers, names): names are numbered in alphabetical order; numbers have no names."""
    labels = _decoded(labels, where)
    if not is_text(labels):
        return class_numbers(labels, where), ()
    words = labels.reshape(-1)
    blank = next((i for i, word in enumerate(words) if not str(word).strip()), None)
    if blank is not None:
        raise DataError("has an empty label", where=f"{where}, sample {blank}")
    names, numbers = np.unique(words.astype(str), return_inverse=True)
    return numbers.astype(np.int64), checked(names.tolist())


def _decoded(labels: np.ndarray, where: str) -> np.ndarray:
    try:
        return np.char.decode(labels, "utf-8") if labels.dtype.kind == "S" else labels
    except UnicodeDecodeError as e:
        raise DataError("a label is not text in UTF-8", where=where) from e


def is_text(labels: np.ndarray) -> bool:
    return labels.dtype.kind == "U" or (labels.dtype.kind == "O" and all(isinstance(w, str) for w in labels.flat))


def class_numbers(array: np.ndarray, where: str) -> np.ndarray:
    """Class numbers; one-hot rows are accepted."""
    if array.ndim == 2 and array.shape[1] > 1:
        if not (np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all()):
            raise DataError(
                f"the labels have {array.shape[1]} columns, but are not one-hot",
                where=where,
                hint=f"class numbers; for quantities {option(loss='mse')}; for shares of classes "
                f"{option(loss='soft_cross_entropy')}",
            )
        array = array.argmax(axis=1)
    array = array.reshape(-1)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError("a label is not finite", where=where)
    if array.dtype.kind not in "iub" and not (array.dtype.kind == "f" and np.all(array == np.round(array))):
        learns = either(shell="--loss mse", python='compile(..., recipe=insitu.Recipe(loss="mse"))')
        hint = f"{learns} learns quantities; for classes give integers or names"
        raise DataError(f"the labels are {array.dtype}, not class numbers or names", where=where, hint=hint)
    return array.astype(np.int64)


def by_name(samples: Samples, names: tuple[str, ...]) -> Samples:
    """The samples with the labels that a model with these class names gives them.

    Samples without names are matched by number; so are names that are numbers, if the model has no names. A name that
    the model does not know is a DataError.
    """
    if samples.labels is None or not samples.names or samples.names == names or samples.labels.dtype.kind == "f":
        return samples
    if not any(names):
        if all(map(is_number, samples.names)):
            return replace(samples, labels=np.array([int(n) for n in samples.names])[samples.labels], names=())
        what = f"the labels are names, such as {samples.names[0]!r}, but the model does not name its classes"
        hint = either(shell="--classes NAME,NAME,... in the order of its outputs, or labels that are class numbers",
                      python="class numbers, or load(..., classes=[...])")  # fmt: skip
        raise DataError(what, hint=hint)
    used = set(samples.labels.tolist())
    places = np.zeros(len(samples.names), np.int64)
    for number, name in enumerate(samples.names):
        if name in names:
            places[number] = names.index(name)
        elif number in used:
            raise unknown(name, names)
    return replace(samples, labels=places[samples.labels], names=names)


def by_number(samples: Samples, names: tuple[str, ...]) -> Samples:
    """Samples labelled with numbers, for a model whose class names are all numbers: 7 is the class named 7.

    Otherwise a number is a class's position.
    """
    own = tuple(map(str, range(len(names))))
    if samples.names or samples.labels is None or not names or names == own or not all(map(is_number, names)):
        return samples
    used = np.unique(class_numbers(np.asarray(samples.labels), "labels")).tolist()
    strange = next((n for n in used if str(n) not in names), None)
    if strange is not None:
        raise unknown(str(strange), names)
    place = {int(name): k for k, name in enumerate(names)}
    labels = np.array([place[n] for n in class_numbers(np.asarray(samples.labels), "labels").tolist()], np.int64)
    return replace(samples, labels=labels, names=names)


def matched(samples: Samples, names: tuple[str, ...]) -> Samples:
    """The samples with the labels that a model with these class names gives them, by name or by number."""
    return by_name(by_number(samples, names), names)


def numbered_classes(samples: Samples | None) -> bool:
    """Do these samples have labels that are classes, and not targets or shares of classes?"""
    return samples is not None and samples.labels is not None and samples.labels.dtype.kind != "f"


def is_number(name: str) -> bool:
    """Is this name just a class number?"""
    return name.isascii() and name.isdigit() and len(name) < 10 and str(int(name)) == name


def check_labels(samples: Samples, classes: int) -> Samples:
    """The samples with labels as the C takes them; raises if a label is not one of the model's classes."""
    y = samples.labels
    if y is None:
        raise DataError("the samples have no labels", hint=_labelled())
    y = class_numbers(y, "labels")
    if y.size and (y.min() < 0 or y.max() >= classes):
        what = f"labels are {y.min()}..{y.max()}, but the model has classes 0..{classes - 1}"
        raise DataError(what, hint=_way_out(y, classes))
    return replace(samples, labels=np.ascontiguousarray(y, np.int32))


def _labelled() -> str:
    """How samples get labels."""
    python = "fit(x, y), or a folder with one subfolder per class"
    return either(shell="a folder with one subfolder per class; a label column; y beside x in an .npz", python=python)


def _way_out(y: np.ndarray, classes: int) -> str:
    """What to do about labels that are no class numbers: if they are few enough, they may be names."""
    more = compiled_for(y.max() + 1) if y.min() >= 0 else "class numbers start at 0"
    different = len(np.unique(y))
    if classes == 1 and different == 2:
        return f"{more}; or, for one output that says how likely 1 is: {option(loss='binary_cross_entropy')}"
    if different > max(MANY, len(y) // FEW):
        return f"to learn quantities: {option(loss='mse')}; for classes: {more}"
    if different > classes:
        return more
    names = either(shell="y.astype(str) in the .npz", python="fit(x, y.astype(str))")
    return f"{more}; or, to take them for names: {names}"
