"""The gradient certificate of a model: a short table, and the same as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from insitu.proof.findings import Row
from insitu.terminal.table import table

HEADERS = ("check", "comparison", "compared", "worst", "allowed", "holds")


@dataclass(frozen=True)
class Certificate:
    model: str
    scheme: str
    precision: str
    rows: tuple[Row, ...]
    about: str = ""  # the program, if it is a board's

    @property
    def ok(self) -> bool:
        return all(r.ok for r in self.rows) and len(self.empty) < len(self.rows)

    @property
    def empty(self) -> tuple[str, ...]:
        """The checks that had nothing to compare: they say nothing about this model."""
        return tuple(r.check for r in self.rows if r.ok and not r.count)

    @property
    def broken(self) -> tuple[str, ...]:
        """The checks that do not hold."""
        return tuple(r.check for r in self.rows if not r.ok)

    def __repr__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        rows = [(r.check, r.compared, r.count, number(r.worst), number(r.allowed), holds(r)) for r in self.rows]
        parts = [f"{self.model}, {self.precision}, scheme {self.scheme}", *([self.about] if self.about else []), ""]
        parts += [table(HEADERS, rows), ""]
        parts += [f"{r.check}: {r.note or r.where}" for r in self.rows if not r.ok]
        parts.append(self._verdict())
        return "\n".join(parts)

    def _verdict(self) -> str:
        if self.broken:
            return f"does not hold: {', '.join(self.broken)}"
        if not self.ok:
            return "nothing was compared"
        held = len(self.rows) - len(self.empty)
        rest = f"; nothing to compare for {', '.join(self.empty)}" if self.empty else ""
        return f"everything holds: {held} check{'s' * (held != 1)}{rest}"

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "scheme": self.scheme,
            "precision": self.precision,
            **({"about": self.about} if self.about else {}),
            "ok": self.ok,
            "checks": [{**asdict(r), "compared_nothing": r.check in self.empty} for r in self.rows],
        }


def holds(row: Row) -> str:
    return "NO" if not row.ok else "yes" if row.count else "nothing to compare"


def number(x: float | None) -> str:
    return "-" if x is None else "0" if x == 0 else f"{x:.1e}" if isfinite(x) else str(x)
