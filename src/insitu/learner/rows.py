"""The rows of a learner's head: which classes use them, and how a class comes into use or leaves.

A head with room (compile(..., max_classes=N)) has rows that no class uses yet: the next class takes one, and nothing is
compiled again. Its row comes into use with its first samples, made from their mean (training/newcomer.py). growing.py
makes programs with more rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from insitu.data import Samples
from insitu.data.arguments import whole
from insitu.devices.host import HostDevice
from insitu.devices.living import living
from insitu.errors import DataError, GraphError
from insitu.graph.classes import checked, listed, unknown, word
from insitu.learner.seen import class_means, seen_in
from insitu.terminal.warned import warn
from insitu.terminal.wording import either, option
from insitu.training.head import HEAD, UNUSED, in_use, mean_row
from insitu.training.newcomer import row_from_mean

if TYPE_CHECKING:
    from insitu.learner.history import History
    from insitu.learner.learner import Learner


def head_rows(learner: Learner) -> tuple[np.ndarray, np.ndarray] | None:
    """Weights and biases of the head; None if it is not a float one with biases."""
    state = learner.device.state()
    weight, bias = state.get(f"{HEAD}.weight"), state.get(f"{HEAD}.bias")
    return None if weight is None or bias is None or weight.dtype != np.float32 else (weight, bias)


def rows_in_use(learner: Learner) -> np.ndarray:
    """For each class: does it take part yet?"""
    found = head_rows(learner)
    return np.ones(learner.classes, bool) if found is None else in_use(found[1])


def untouched_rows(learner: Learner, all_of_them: bool = False) -> list[int]:
    """Classes with a name whose row is as it was added, in a head that has learned others: they were added, and not yet
    learned. Of a head that has learned nothing none, or `all_of_them`."""
    found = head_rows(learner)
    if found is None or not found[0].any():
        return np.flatnonzero(rows_in_use(learner)).tolist() if found and all_of_them else []
    return [k for k in range(len(found[0])) if _as_added(found[0], k) and k < len(learner.names) and learner.names[k]]


def _as_added(weight: np.ndarray, row: int) -> bool:
    """Is this row zeros, or the mean of those before it, as add_class makes it?"""
    near = 1e-6 * float(np.abs(weight).max())
    return not weight[row].any() or (row > 1 and np.allclose(weight[row], mean_row(weight[:row])[0], 1e-6, near))


def free_row(learner: Learner) -> int | None:
    """The first row without a class; None if there is none."""
    names = learner.names or ("",) * learner.classes
    rows = (k for k, used in enumerate(rows_in_use(learner)) if not used and not names[k])
    return next(rows, None) if learner.classes > 1 else None


def with_name(learner: Learner, row: int, name: str) -> tuple[str, ...]:
    names = list(learner.names or ("",) * learner.classes)
    names[row] = name
    return checked(names)


def set_row(learner: Learner, row: int, weight: np.ndarray, bias: float | np.float32) -> None:
    """Give a class these weights; whatever is stored beside them begins anew."""
    set_rows(learner, [row], np.asarray(weight)[None], np.asarray(bias)[None])


def set_rows(learner: Learner, rows: list[int], weights: np.ndarray, biases: np.ndarray) -> None:
    """The same for several classes."""
    state, changed = learner.device.state(), {}
    for part, values in (("weight", weights), ("bias", biases)):
        for name in (f"{HEAD}.{part}", *(f"{HEAD}.{part}.{beside}" for beside in ("momentum", "m", "v", "sum"))):
            if name in state:
                changed[name] = state[name].copy()
                changed[name][rows] = values if name == f"{HEAD}.{part}" else 0
    learner.device.load_arrays(changed)


def forget_class(learner: Learner, name: str | int) -> int:
    """Take a class out of use; returns its number. Its row and name are free for another."""
    row = class_number(learner, name)
    if head_rows(learner) is None:
        raise GraphError("only a float head can forget a class", hint=f"compile with {option(head='float')}")
    if rows_in_use(learner).sum() < 2 and rows_in_use(learner)[row]:
        raise DataError("the last class cannot be forgotten", where=str(name))
    set_row(learner, row, np.zeros(1, np.float32), UNUSED)
    if any(learner.names):
        names = list(learner.names)
        names[row] = ""
        learner.rename(tuple(names))
    return row


def class_number(learner: Learner, name: str | int) -> int:
    """The number of a class, from its name or number."""
    if isinstance(name, str) and name in learner.names and name:
        return learner.names.index(name)
    if isinstance(name, str) and not (name.isdigit() and int(name) < learner.classes and not any(learner.names)):
        raise unknown(name, [n for n in learner.names if n] or [str(k) for k in range(learner.classes)])
    number = whole(int(name) if isinstance(name, str) else _plain(name), "the class")
    if number >= learner.classes:
        raise DataError(f"there is no class {number}", hint=f"0 to {learner.classes - 1}")
    return number


def _plain(number: object) -> object:
    """A number as Python has it."""
    return number.item() if isinstance(number, np.ndarray | np.generic) and np.ndim(number) == 0 else number


def ready(learner: Learner, data: Samples) -> None:
    """Bring classes into use whose first samples are these: each row is made from the mean of its samples."""
    if data.labels is None or data.labels.dtype.kind not in "iu":
        return
    used = rows_in_use(learner)
    new = [] if used.all() else [int(k) for k in np.unique(data.labels) if not used[k]]
    if not new:
        return
    if not isinstance(learner.device, HostDevice):
        raise _unused(learner, new[0])
    means, old = seen_in(learner, data).means, class_means(learner).means
    for k in new:
        weight, bias = head_rows(learner) or (np.zeros(0), np.zeros(0))
        known = [j for j in sorted(old) if used[j]]
        row = row_from_mean(means[k], [old[j] for j in known], [(weight[j], bias[j]) for j in known])
        set_row(learner, k, *row)


def warn_of_newcomer(learner: Learner, data: Samples) -> None:
    """Samples of one class alone, which the last fit did not know, pull the whole head their way."""
    labels = data.labels
    if labels is None or labels.dtype.kind not in "iu" or len(np.unique(labels)) != 1:
        return
    old, new = _fitted(learner), int(labels.reshape(-1)[0])
    if old and new not in old:
        what = f"all samples belong to {word(learner.names, new)}, a new class: nothing in them holds the other classes"
        how = "fit(x, y) with samples of all classes, or keep() and observe(), which remember the others"
        warn(f"{what}, which may be forgotten. Better: {how}")


def unseen(learner: Learner, data: Samples) -> list[int]:
    """The classes that the learner knows, of the last fit or as its model's own, and that have no sample here."""
    labels = data.labels
    if labels is None or labels.dtype.kind not in "iu":
        return []
    given = set(np.unique(labels).tolist())
    if len(given) >= learner.classes:
        return []
    return sorted((_fitted(learner) or _own(learner)) - given)


def _own(learner: Learner) -> set[int]:
    """The classes of a head that came with the model; a new one has no biases yet."""
    found = head_rows(learner)
    if found is None or not found[1][in_use(found[1])].any():
        return set()
    return set(np.flatnonzero(in_use(found[1])).tolist()) - set(untouched_rows(learner))


def warn_of_forgotten(learner: Learner, classes: list[int], history: History) -> None:
    """Whoever trains on some classes unlearns the others: every step makes them less likely."""
    if not classes or history.restored:
        return
    names = listed([word(learner.names, k) for k in classes], 6)
    which, them = (f"class {names}", "it") if len(classes) == 1 else (f"the classes {names}", "them")
    others = either(shell="", python=", or keep() and observe(), which remember the others")
    what = f"no sample is of {which}: what the learner knew of {them} may be forgotten"
    history.notes.append(f"{what}. Better: some samples of every class{others}")
    warn(history.notes[-1])


def _fitted(learner: Learner) -> set[int]:
    """The classes of the last fit. Their means are not needed here: they would cost a prediction of many samples."""
    labels = None if learner.lately is None else learner.lately.labels
    return set(learner.seen.means) if labels is None else set(np.unique(labels).tolist())


def _unused(learner: Learner, row: int) -> DataError:
    """The error for samples of a class that a board does not have in use: it would not learn, but diverge."""
    alive = living(learner.device) is not None
    how = "let it observe samples of that class first" if alive else "learn it on the host, then on(...) the board"
    what = f"the class {word(learner.names, row)} is not in use on this board"
    return DataError(what, hint=f"add_class(NAME) if it was forgotten, then {how}")


def few_of_each(data: Samples, each: int = 64, most_bytes: int = 16 << 20) -> Samples | None:
    """Some samples of every class, spread over all; None if labels are no class numbers."""
    labels = data.labels
    if labels is None or labels.dtype.kind not in "iu" or labels.ndim != 1:
        return None
    classes = np.unique(labels)
    each = max(min(each, most_bytes // max(sum(x[:1].nbytes for x in data.inputs) * len(classes), 1)), 1)
    rows = [np.flatnonzero(labels == k) for k in classes]
    chosen = np.sort(np.concatenate([r[np.linspace(0, len(r) - 1, min(each, len(r))).astype(int)] for r in rows]))
    return data.take(chosen)
