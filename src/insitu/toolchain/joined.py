"""Several small C files as one: starting a compiler takes longer than compiling them.

Macros end with the file that defines them. Files that are large, or share private names, stay separate.
Nothing here compiles (compiler.py does).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SMALL = 200_000  # characters in total: larger files are compiled side by side
JOINED = "joined.c"
MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)
PRIVATE = re.compile(r"^static [^;(={]*?\b(\w+) *[\[(=;]", re.MULTILINE)
LISTED = re.compile(r"^enum \{([^}]*)\}", re.MULTILINE)
CONSTANT = re.compile(r"(?:^|,)\s*(\w+)")


def joined(files: Mapping[str, str]) -> dict[str, str]:
    """The headers, and one source that contains all others; the same files if they cannot be joined."""
    sources = {name: files[name] for name in sorted(files) if name.endswith(".c")}
    if len(sources) < 2 or sum(map(len, sources.values())) > SMALL or _clash(sources):
        return dict(files)
    headers = {name: text for name, text in files.items() if name not in sources}
    return {**headers, JOINED: "\n".join(map(ended, sources.values()))}


def joinable(sources: Mapping[str, str]) -> list[str]:
    """Those of these hand-written files that mean the same as one file. A file stays separate if it shares a private
    name with one before it, or sets a macro for a header that others share."""
    found, names = [], set()
    for file, text in sources.items():
        own = _own_names(text)
        if names.isdisjoint(own) and not 0 <= text.find("\n#define") < text.rfind("\n#include"):
            found.append(file)
            names |= own
    return found


def ended(source: str) -> str:
    """A file whose macros end with it."""
    return "\n".join([source, *(f"#undef {name}" for name in MACRO.findall(source)), ""])


def _own_names(text: str) -> set[str]:
    """Private functions and data, and constants."""
    constants = (word for listed in LISTED.findall(text) for word in CONSTANT.findall(listed))
    return {*PRIVATE.findall(text), *constants}


def _clash(sources: Mapping[str, str]) -> bool:
    names = [name for text in sources.values() for name in set(PRIVATE.findall(text))]
    return len(names) > len(set(names))
