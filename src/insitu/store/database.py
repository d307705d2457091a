"""The file under a store: sqlite3 with a write-ahead log, transactions, and errors that say what to do.

Deleted content is overwritten (secure_delete). The file never grows beyond its quota: sqlite itself refuses a page
more. Nothing here knows what a record is (records.py).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from insitu.errors import DataError

PATIENCE = 20.0  # seconds to wait for another process
FORMAT = 2  # 1 had no seals: records.py adds them
LOG_PAGES = (32, 1000)  # that the log holds before they go to the file: a quarter of the quota, within these

SCHEMA = """
create table records (slot integer primary key, id integer, label integer, guard integer, worth integer, uses integer,
                      mark integer, time integer, raw_mark integer, seal integer);
create table latents (slot integer primary key, latent blob, raw blob);
create table classes (label integer primary key, labelled integer, trainees integer, guards integer, level integer,
                      steps integer, seen integer, mean blob, seal integer);
create table facts (name text primary key, value blob, seal integer) without rowid;
"""


class Database:
    """One connection. Threads may not share it; processes may share the file."""

    def __init__(self, path: Path | None, page: int, quota: int):
        self.where: str = str(path) if path else "store"
        with self.telling():
            self.link: sqlite3.Connection = sqlite3.connect(
                path or ":memory:", PATIENCE, isolation_level=None, check_same_thread=False
            )
            self.link.execute(f"pragma page_size = {page}")
            for word in ("journal_mode = wal", "synchronous = normal", "secure_delete = on", "temp_store = memory"):
                self.link.execute(f"pragma {word}")
            self._make()
            self.page: int = self.number("pragma page_size")
            self.link.execute(f"pragma max_page_count = {max(quota // self.page, 1)}")
            log = min(max(quota // (4 * self.page), LOG_PAGES[0]), LOG_PAGES[1])
            self.link.execute(f"pragma wal_autocheckpoint = {log}")
            self.link.execute(f"pragma journal_size_limit = {log * self.page}")
        self._version, self._depth = -1, 0

    def _make(self) -> None:
        """The tables, if there are none; two processes may try at once."""
        if self.one("pragma user_version") == 0:
            self.link.execute("begin immediate")
            if self.one("pragma user_version") == 0:
                for statement in filter(str.strip, SCHEMA.split(";")):
                    self.link.execute(statement)
                self.link.execute(f"pragma user_version = {FORMAT}")
            self.link.execute("commit")
        found = self.number("pragma user_version")
        if not 1 <= found <= FORMAT:
            raise DataError(f"has format {found}, but this insitu reads up to {FORMAT}", where=self.where)

    def one(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        row = self.link.execute(statement, values).fetchone()
        return None if row is None else row[0]

    def number(self, statement: str) -> int:
        return int(self.one(statement) or 0)

    def many(self, statement: str, rows: list[Any]) -> None:
        if rows:
            self.link.executemany(statement, rows)

    @property
    def inside(self) -> bool:
        """Is a transaction running?"""
        return self._depth > 0

    def changed_elsewhere(self) -> bool:
        """Has another connection written since this was last asked? True at first."""
        found = self.one("pragma data_version")
        changed, self._version = found != self._version, found
        return changed

    def distrust(self) -> None:
        """What was read from the file counts as old: the next change reads it again."""
        self._version = -1

    @contextmanager
    def transaction(self, durable: bool = False) -> Iterator[bool]:
        """All changes inside happen, or none. Yields whether another process has changed the file meanwhile.

        A durable one is on the disk when it ends; any other may be lost, as a whole, if the power fails.
        """
        if self._depth:
            yield False
            return
        with self.telling():
            self.link.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
            self.link.execute("begin immediate")
            self._depth += 1
            try:
                yield self.changed_elsewhere()
                self.link.execute("commit")
            except BaseException:
                if self.link.in_transaction:
                    self.link.execute("rollback")
                self.distrust()
                raise
            finally:
                self._depth -= 1

    @contextmanager
    def telling(self) -> Iterator[None]:
        """sqlite's errors as ours."""
        try:
            yield
        except sqlite3.Error as e:
            raise told(e, self.where) from e
        except UnicodeDecodeError as e:  # sqlite's own message quotes what is damaged
            raise told(sqlite3.DatabaseError("malformed: a text"), self.where) from e

    def settle(self, vacuum: bool = False) -> None:
        """Bring everything from the log to the file, and empty the log; with `vacuum`, write the file anew."""
        with self.telling():
            self.link.execute("pragma wal_checkpoint(truncate)")
            if vacuum:
                self.link.execute("vacuum")
                self.link.execute("pragma wal_checkpoint(truncate)")

    def close(self) -> None:
        self.link.close()


COMPLAINTS = {
    "disk is full": ("there is no room left, on the disk or in the quota", "free some space, or a larger quota"),
    "disk I/O error": ("the disk refuses", "is it full, damaged, or are files limited in size (ulimit -f)?"),
    "readonly": ("cannot be written: it is read-only", "another folder, or mount it writable"),
    "locked": ("another process is using it", f"wait; it was tried for {PATIENCE:.0f} seconds"),
    "not a database": ("is no store, or is damaged", "move it away; a new one begins empty"),
    "malformed": ("is damaged", "sqlite3's .recover may save records; a new one begins empty"),
    "unable to open": ("cannot be opened", "a folder that exists and can be written"),
}


def told(error: sqlite3.Error, where: str) -> DataError:
    words = str(error)
    what, hint = next((v for k, v in COMPLAINTS.items() if k in words), (f"failed: {words}", ""))
    return DataError(what, where=where, hint=hint)
