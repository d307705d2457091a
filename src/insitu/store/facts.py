"""Small pieces of information kept with the records of a store, by name; and whose store it is.

A fact is sealed like a record: with a key it is encrypted, and a damaged one counts as absent. Nothing here knows what
a fact says, but for two: `about` (whose records these are) and `seal` (which key opens them).
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from insitu.errors import DataError
from insitu.store.database import Database, told
from insitu.store.sealing import Seal
from insitu.store.trust import Trust, seal_rows

ABOUT, SEALED = "about", b"insitu store"


class Facts:
    """The facts of one store. Writing belongs into a transaction."""

    def __init__(self, base: Database, seal: Seal, trust: Trust):
        self.base, self.seal, self.trust = base, seal, trust

    def read(self, name: str) -> bytes | None:
        """A fact as it is in the file; None if there is none, or if it is damaged."""
        row = self.base.link.execute("select value, seal from facts where name = ?", (name,)).fetchone()
        return None if row is None or not self.trust.holds((name, row[0]), row[1]) else row[0]

    def write(self, name: str, value: bytes) -> None:
        row = (name, value, self.trust.number((name, value)))
        self.base.link.execute("insert or replace into facts values (?, ?, ?)", row)

    def opened(self, name: str) -> bytes | None:
        found = self.read(name)
        return None if found is None else self.seal.open(found, name)

    def keep(self, name: str, value: bytes) -> None:
        """Write it so that only the key opens it."""
        self.write(name, self.seal.seal(value, name))

    # whose it is ------------------------------------------------------------------------------

    def claim(self, about: dict[str, Any]) -> None:
        """Is this store ours: about this, and sealed with this key? A new one becomes ours."""
        if self.base.one("select name from facts where name = ?", (ABOUT,)) is None:
            seal_rows(self.base, self.trust, self.seal.locked)
            self.belong(about)
            self.write("seal", self.seal.seal(SEALED, "seal"))
            return
        self._compare_key(self.base.one("select value from facts where name = 'seal'"))
        seal_rows(self.base, self.trust, self.seal.locked)
        self._compare(self.read(ABOUT), about)

    def belong(self, about: dict[str, Any]) -> None:
        self.write(ABOUT, json.dumps(about).encode())

    def _compare_key(self, sealed: bytes | None) -> None:
        if sealed == SEALED and self.seal.locked:
            raise DataError("is not encrypted, but a key was given", where=self.base.where, hint="no key")
        if sealed is None or (sealed != SEALED and len(sealed) <= len(SEALED)):
            raise told(sqlite3.DatabaseError("malformed: its seal"), self.base.where)
        if self.seal.open(sealed, "seal") != SEALED:
            what = "the key is wrong" if self.seal.locked else "is encrypted"
            raise DataError(what, where=self.base.where, hint="key=... as it was when the store was made")

    def _compare(self, found: bytes | None, mine: dict[str, Any]) -> None:
        if found is None:
            raise told(sqlite3.DatabaseError("malformed: what it holds"), self.base.where)
        theirs = json.loads(found)
        if theirs != mine:
            other = next(k for k in mine if theirs.get(k) != mine[k])
            raise DataError(f"belongs to another model or has other options ({other}: {theirs.get(other)})",
                            where=self.base.where, hint="another folder for this learner")  # fmt: skip
