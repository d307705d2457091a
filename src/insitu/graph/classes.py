"""The names of classes: which are legal, and which number a name has.

A graph has as many as its first output has scores, or none. The name of a class without a name is "".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from insitu.errors import DataError

MOST_BYTES = 200  # of a name, in UTF-8


def checked(names: Iterable[object]) -> tuple[str, ...]:
    """The names, if each fits in a table, in a C string and on a line."""
    found = tuple(map(_legal, names))
    twice = next((name for i, name in enumerate(found) if name and name in found[:i]), None)
    if twice is not None:
        raise DataError(f"two classes have the name {twice!r}", hint="give every class its own name")
    return found


def _legal(name: object) -> str:
    if isinstance(name, str) and len(name.encode(errors="replace")) <= MOST_BYTES and name.isprintable():
        return name
    shown = repr(name) if len(repr(name)) <= MOST_BYTES else f"{repr(name)[:60]}..."
    raise DataError(f"the name of a class must be printable text of at most {MOST_BYTES} bytes: {shown}")


def fitting(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    """The names of `count` classes: further ones have no name yet. A longer list gives no names."""
    if not any(names) or len(names) > count:
        return ()
    return (*names, *[""] * (count - len(names)))


def named(given: Sequence[str], known: tuple[str, ...], count: int) -> tuple[str, ...]:
    """The names of `count` classes after these were seen: a new name goes to the first class without one.

    A name for which there is no class left is a DataError that lists the known names.
    """
    if not any(known) and len(given) > count:
        raise DataError(
            f"the labels name {len(given)} classes, but the model has {count}",
            hint=f"insitu.compile(..., classes={len(given)})",
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
    shown = ", ".join(n for n in known[:20] if n) + (", ..." if len(known) > 20 else "")
    return DataError(f"there is no class named {name!r}", hint=f"known: {shown}; learner.add_class({name!r}) adds one")


def word(names: Sequence[str], number: int) -> str:
    """The name of a class, or its number."""
    return (names[number] if number < len(names) else "") or str(number)
