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


def joined(files: Mapping[str, str]) -> dict[str, str]:
    """The headers, and one source that contains all others; the same files if they cannot be joined."""
    sources = {name: files[name] for name in sorted(files) if name.endswith(".c")}
    if len(sources) < 2 or sum(map(len, sources.values())) > SMALL or _clash(sources):
        return dict(files)
    headers = {name: text for name, text in files.items() if name not in sources}
    return {**headers, JOINED: "\n".join(map(ended, sources.values()))}


def can_join(sources: Mapping[str, str]) -> bool:
    """Do these hand-written files mean the same as one file? Not if one sets a macro for a header that others share."""
    return not _clash(sources) and not any(0 <= s.find("\n#define") < s.rfind("\n#include") for s in sources.values())


def ended(source: str) -> str:
    """A file whose macros end with it."""
    return "\n".join([source, *(f"#undef {name}" for name in MACRO.findall(source)), ""])


def _clash(sources: Mapping[str, str]) -> bool:
    names = [name for text in sources.values() for name in set(PRIVATE.findall(text))]
    return len(names) > len(set(names))
