"""The names of classes (and of columns): which are legal, and which number a name has.

A graph has as many as its first output has scores, or none. The name of a class without a name is "".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from insitu.errors import DataError
from insitu.terminal.wording import either

MOST_BYTES = 200  # of a name, in UTF-8


def checked(names: Iterable[object], what: str = "class") -> tuple[str, ...]:
    """The names, if each fits in a table, in a C string and on a line."""
    found = tuple(_legal(name, what) for name in names)
    seen: set[str] = set()
    for name in filter(None, found):
        if name in seen:
            many = f"{what}es" if what.endswith("s") else f"{what}s"
            raise DataError(f"two {many} have the name {name!r}", hint=f"give every {what} its own name")
        seen.add(name)
    return found


def of_columns(names: Iterable[object]) -> tuple[str, ...]:
    """The names of a table's columns; () unless each has a legal name of its own."""
    try:
        found = checked(names, "column")
    except DataError:
        return ()
    return found if all(found) else ()


def column_words(names: Sequence[str], width: int) -> str:
    """What the last axis of an input holds, for files of others; "" unless each of its numbers has a name."""
    if not names or len(names) != width:
        return ""
    spread = any("=" in name for name in names)
    meaning = "; NAME=WORD is 1 where the column NAME says WORD, else 0" if spread else ""
    return f"in this order: {', '.join(names)}{meaning}"


def _legal(name: object, what: str) -> str:
    if isinstance(name, str) and len(name.encode(errors="replace")) <= MOST_BYTES and name.isprintable():
        return name
    shown = repr(name) if len(repr(name)) <= MOST_BYTES else f"{repr(name)[:60]}..."
    raise DataError(f"the name of a {what} must be printable text of at most {MOST_BYTES} bytes: {shown}")


def fitting(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    """The names of `count` classes: further ones have no name yet. A longer list gives no names."""
    if not any(names) or len(names) > count:
        return ()
    return (*names, *[""] * (count - len(names)))


def compiled_for(count: int) -> str:
    """How to get a model with this many classes."""
    return either(shell=f"--classes {count}", python=f"insitu.compile(..., classes={count})")


def named(given: Sequence[str], known: tuple[str, ...], count: int) -> tuple[str, ...]:
    """The names of `count` classes after these were seen: a new name goes to the first class without one.

    A name for which there is no class left is a DataError that lists the known names.
    """
    if not any(known) and len(given) > count:
        raise DataError(
            f"the labels name {len(given)} classes, but the model has {count}",
            hint=compiled_for(len(given)),
        )
    places = list(known or [""] * count)
    for name in given:
        if name in places:
            continue
        if "" not in places:
            raise unknown(name, places)
        places[places.index("")] = name
    return checked(places)


def unknown(name: str, known: Sequence[str]) -> DataError:
    shown = listed([n for n in known if n], 20)
    more = either(shell="insitu train --add-classes adds new ones", python=f"learner.add_class({name!r}) adds one")
    shown = f"{shown}; {more}" if name else shown
    return DataError(f"there is no class named {name!r}", hint=f"known: {shown}")


def class_words(count: int, names: Sequence[str]) -> str:
    """`3: rest, tap, wave`; `3 of 6: ...` if there is room for more."""
    known = [name for name in names if name]
    shown = f"{len(known)} of {count}" if 0 < len(known) < count else str(count)
    return f"{shown}: {listed(known, 8)}" if known else shown


def listed(names: Sequence[str], most: int) -> str:
    """The first of these names on a line. One with a comma is quoted, or it would look like two."""
    shown = [f'"{name}"' if "," in name else name or "(no name)" for name in names[:most]]
    return ", ".join([*shown, "..."] if len(names) > most else shown)


def word(names: Sequence[str], number: int) -> str:
    """The name of a class, or its number."""
    return (names[number] if number < len(names) else "") or str(number)
