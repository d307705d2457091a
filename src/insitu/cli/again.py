"""The command that goes on with a training that was interrupted: the user's own words, but for what must change."""

from __future__ import annotations

import shlex
from argparse import Action, ArgumentParser
from collections.abc import Collection, Iterator, Sequence

PLACE = ""  # what a positional argument is named here


def again(parser: ArgumentParser, words: Sequence[str], *, model: str, without: Collection[str], more: str = "") -> str:
    """`words` with another model, without the options of these names, and with `more` at the end."""
    kept, positional = [], 0
    for name, part in parts(parser, words):
        if name == PLACE:
            kept += [model] if positional == 0 else part
            positional += 1
        elif name not in without:
            kept += part
    return " ".join([parser.prog, shlex.join(kept), *filter(None, [more])])


def parts(parser: ArgumentParser, words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The words of a command line in groups: an option with its value, or a positional argument."""
    at = 0
    while at < len(words):
        action = _option(parser, words[at].partition("=")[0]) if words[at].startswith("-") else None
        count = 1 if action is None else 1 + _values(action, words[at], words[at + 1 :])
        yield (action.dest if action else PLACE), list(words[at : at + count])
        at += count


def _option(parser: ArgumentParser, word: str) -> Action | None:
    """The option that is meant, also by the beginning of its name."""
    known = parser._option_string_actions
    return known.get(word) or next((known[name] for name in known if name.startswith(word)), None)


def _values(action: Action, word: str, after: Sequence[str]) -> int:
    if "=" in word or action.nargs == 0:
        return 0
    return int(action.nargs is None or (bool(after) and not after[0].startswith("-")))
