"""The classes of a learner: given by the user, else those of the data, else the model's own.

Names decide if there are any. As many names as the model has unnamed outputs may be names for these, in their order, or
other classes: labelled samples tell (learner/own_head.py). Plain numbers are the model's own, unless that is unlikely:
four classes of a thousand, or more classes than it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from insitu.data import Samples
from insitu.data.arguments import optional
from insitu.data.labels import is_number, numbered_classes
from insitu.errors import DataError
from insitu.graph import Graph
from insitu.graph.classes import checked, fitting, listed
from insitu.terminal.wording import either, number_of, option

MOST = 65_536  # classes of a head that follows from class numbers


@dataclass(frozen=True)
class Classes:
    """The number of classes of a new head, or None to keep the model's own classifier; their names; and a note."""

    count: int | None
    names: tuple[str, ...] = ()
    note: str = ""
    perhaps: str = ""  # "as given", "in any order", "by number": these may be the model's own outputs


def choose_classes(graph: Graph, given: int | Sequence[str] | None, samples: Samples | None,
                   own: bool = False) -> Classes:  # fmt: skip
    """The classes for this model and these samples; `given` is a number or the names. `own` keeps the model's head."""
    found = samples.names if samples is not None and samples.labels is not None else ()
    if own:
        return _own(graph, given, found)
    if given is None:
        return _of_data(graph, samples, found)
    given = getattr(given, "tolist", lambda: given)()  # of an array, such as np.unique(y)
    if isinstance(given, Set | Mapping) or (isinstance(given, Sequence) and any(isinstance(n, int) for n in given)):
        hint = f"{option(classes=len(given))}, or the names as text in a list, in the order of their numbers"
        raise DataError(f"classes must be a number or a list of names, not {given!r:.80}", hint=hint)
    if isinstance(given, str):
        raise DataError(
            f"classes must be a number or a list of names, not {given!r}",
            hint=either(shell=f"--classes {given},...", python=f"classes=[{given!r}, ...]"),
        )
    if isinstance(given, Sequence):
        return _of_names(graph, checked(given), found)
    count = optional(given, "classes", 1)
    assert count is not None
    if len(found) > count:
        raise DataError(f"the data has {len(found)} classes: {listed(found, 10)}", hint=option(classes=len(found)))
    return _of_number(graph, count, fitting(found, count), numbered_classes(samples))


def _of_number(graph: Graph, count: int, names: tuple[str, ...], labelled: bool) -> Classes:
    """A new head; as many classes as the model has may be its own, if labelled samples say so."""
    if count != _width(graph):
        return Classes(count, names)
    if labelled:
        return Classes(count, names, perhaps="by number")
    return Classes(count, names, f"a new head of {count} classes ({option(head_init='own')} keeps the model's own)")


def _own(graph: Graph, given: int | Sequence[str] | None, found: tuple[str, ...]) -> Classes:
    """The model's own classifier, with names for its outputs if there are as many."""
    width = _width(graph)
    names = checked(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
    wanted = given if isinstance(given, int) else len(names) or width
    if wanted != width:
        raise DataError(f"the model's own classifier has {width} classes, not {wanted}", hint=option(head_init="zero"))
    known = names or graph.classes or (found if len(found) == width else ())
    if names and set(found) - set(names):
        raise DataError(
            f"the data has classes that are not given: {listed(found, 10)}", hint=f"given: {listed(names, 10)}"
        )
    return Classes(None, known)


def _of_names(graph: Graph, names: tuple[str, ...], found: tuple[str, ...]) -> Classes:
    if not names or not all(names):
        raise DataError("classes must have at least one name, and no empty one")
    strange = [name for name in found if name not in names]
    if strange:
        raise DataError(
            f"the data has the class {strange[0]!r}, which is not given", hint=f"given: {listed(names, 10)}"
        )
    if names == graph.classes:
        return Classes(None, names)
    own = not any(graph.classes) and len(names) == _width(graph)
    return Classes(len(names), names, perhaps="as given" if own else "")


def _width(graph: Graph) -> int:
    return (graph.outputs[0].shape or (1,))[-1]


def _of_data(graph: Graph, samples: Samples | None, found: tuple[str, ...]) -> Classes:
    own = graph.classes
    width = _width(graph)
    if samples is None or samples.labels is None or samples.labels.dtype.kind != "i" or width < 2:
        return Classes(None, own)
    if found:
        if set(found) <= set(own) or (not own and all(_is_number_below(name, width) for name in found)):
            return Classes(None, own or tuple(map(str, range(width))))
        why = "the model knows other ones" if own else f"the model does not name its own {width:,}"
        note = f"a new head for the {number_of(len(found), 'class', 'classes')} of the data ({why})"
        return Classes(len(found), found, note, perhaps="in any order" if not own and len(found) == width else "")
    count = int(samples.labels.max()) + 1
    rarely = _unused(samples.labels, count)
    if count > MOST:
        raise DataError(f"labels go up to {count - 1:,}, which is too far for class numbers", hint=rarely)
    if count > width or 2 * count <= width:
        outputs = f"{count} class{'es' * (count != 1)}"
        words = f"labels up to {count - 1}: a new head with {outputs} (the model's own has {width:,}"
        kept = f"; {option(head_init='own')} keeps them)" if count < width else ")"
        return Classes(count, (), f"{words}{kept}{rarely and f'; {rarely}'}")
    return Classes(None, own)


def _unused(labels: np.ndarray, count: int) -> str:
    """What to say if the labels leave out 0, or most of the numbers up to the last one: they may be names."""
    used = np.unique(labels)
    if used[0] <= 0 and 2 * len(used) > count:
        return ""
    first = ",".join(map(str, used[:10])) + ",..." * (len(used) > 10)
    how = either(shell=f"--classes {first}", python="y.astype(str)")
    return f"only {len(used)} of these numbers occur: {how} takes them for names, and makes a head of {len(used)}"


def _is_number_below(name: str, width: int) -> bool:
    return is_number(name) and int(name) < width
