"""The command that goes on with an interrupted training, or compiles what a search found: the user's own words, but for
what must change."""

from __future__ import annotations

import shlex
from argparse import Action, ArgumentParser
from collections.abc import Collection, Iterator, Sequence

PLACE = ""  # what a positional argument is named here


def again(parser: ArgumentParser, words: Sequence[str], *, model: str, without: Collection[str], more: str = "",
          prog: str = "") -> str:  # fmt: skip
    """`words` with another model, without the options of these names, and with `more` at the end; for `prog`, another
    verb that has the other options too."""
    kept, positional = [], 0
    for name, part in parts(parser, words):
        if name == PLACE:
            kept += [model] if positional == 0 else part
            positional += 1
        elif name not in without:
            kept += part
    return " ".join([prog or parser.prog, shlex.join(kept), *filter(None, [more])])


def parts(parser: ArgumentParser, words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The words of a command line in groups: an option with its value, its name in full, or a positional argument."""
    at = 0
    while at < len(words):
        name, equals, value = words[at].partition("=")
        known = _option(parser, name) if words[at].startswith("-") and words[at] != "--" else None
        if known is None:
            yield PLACE, list(words[at : at + 1])
            at += 1
            continue
        full, action = known
        count = 0 if equals or len(full) < len(name) else _values(action, words[at + 1 :])
        yield action.dest, [full + name[len(full) :] + equals + value, *words[at + 1 : at + 1 + count]]
        at += 1 + count


def _option(parser: ArgumentParser, word: str) -> tuple[str, Action] | None:
    """The option that is meant, also by the beginning of its name, or with its value after one letter (-oDIR)."""
    known = parser._option_string_actions
    names = [word, *(name for name in known if name.startswith(word)), word[:2]]
    return next(((name, known[name]) for name in names if name in known), None)


def _values(action: Action, after: Sequence[str]) -> int:
    if action.nargs == 0:
        return 0
    return int(action.nargs is None or (bool(after) and not after[0].startswith("-")))
