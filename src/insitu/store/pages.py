"""How many records a file of a given size holds: the arithmetic of sqlite's pages, so that a quota holds to the byte.

A record's place in the file is made once and then overwritten, so tables only grow at their end, page after full page.
Rows of numbers vary by a few bytes; they are counted at their largest, and their pages as half full.
"""

from __future__ import annotations

from dataclasses import dataclass

from insitu.errors import DataError

SIZES = (4096, 8192, 16384)
WASTE = 0.15  # of a page: a larger page is taken only if a smaller one wastes more
ROW_HEADER = 32  # bytes around a row's value, at most
ROW = 72  # the most that the numbers of a record take
CLASS_ROW = 96  # of a class, beside its mean
FIXED = 8  # pages: the schema, the roots of four tables, and facts
FEWEST = 5  # records: four to learn from, and a guard


@dataclass(frozen=True)
class Geometry:
    """The pages of a store: records of `record` bytes, at most `classes` classes with means of `mean` bytes."""

    page: int
    record: int
    mean: int
    classes: int
    beside: int = 0  # bytes of one more value

    def bytes(self, count: int) -> int:
        """The largest size of the file with this many records."""
        per_page, beyond = cells(self.record, self.page)
        numbers, leaves = -(-count * 2 * ROW // self.page), -(-count // per_page)
        tables = _grown(numbers, self.page) + _grown(leaves, self.page)
        return self.page * (FIXED + self._beside() + self._classes() + tables + count * beyond + self._twice())

    def _twice(self) -> int:
        """Pages of the longest row: while one is overwritten, the old and the new one are both there."""
        return max(cells(size, self.page)[1] for size in (self.record, self.mean + CLASS_ROW, self.beside))

    def _beside(self) -> int:
        return 1 + cells(self.beside, self.page)[1] if self.beside else 0

    def _classes(self) -> int:
        per_page, beyond = cells(self.mean + CLASS_ROW, self.page)
        leaves = -(-2 * self.classes // per_page)
        return (leaves if leaves > 1 else 0) + self.classes * beyond

    def capacity(self, quota: int) -> int:
        """The most records that a file of `quota` bytes holds."""
        low, high = 0, quota // max(self.record, 1) + 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.bytes(middle) <= quota else (low, middle - 1)
        if low < FEWEST:
            least = self.bytes(FEWEST)
            raise DataError(f"a quota of {quota:,} bytes is too small for {FEWEST} records of {self.record:,} bytes",
                            hint=f"quota={least} or more")  # fmt: skip
        return low


def geometry(record: int, mean: int, classes: int, beside: int = 0) -> Geometry:
    """With the smallest page that wastes little."""
    wastes = {page: _waste(record, page) for page in SIZES}
    page = next((p for p, waste in wastes.items() if waste <= WASTE), min(wastes, key=lambda p: wastes[p]))
    return Geometry(page, record, mean, classes, beside)


def _waste(record: int, page: int) -> float:
    per_page, beyond = cells(record, page)
    return 1 - (record + ROW_HEADER) / (page / per_page + page * beyond)


def cells(size: int, page: int) -> tuple[int, int]:
    """How many rows with a value of this size a leaf page holds, and how many further pages each of them needs.

    As sqlite's file format says: a row that is too long keeps a part in its leaf, the rest goes to pages of its own.
    """
    payload = size + 12
    most = page - 35
    local, beyond = payload, 0
    if payload > most:
        least = (page - 12) * 32 // 255 - 23
        local = least + (payload - least) % (page - 4)
        local = local if local <= most else least
        beyond = -(-(payload - local) // (page - 4))
    return max((page - 8) // (local + ROW_HEADER - 12), 1), beyond


def _grown(leaves: int, page: int) -> int:
    """The pages of a table with so many leaves, beside its root: that is the leaf, if there is one alone. Pages above
    the leaves are counted as half full."""
    level, pages = leaves, leaves
    while level > 1:
        level = -(-level // ((page - 12) // 30))
        pages += level
    return max(pages - 1, 0)
