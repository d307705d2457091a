"""The cost of a lower peak in instructions: a program as planned, compared with the same one without a lowered peak.

Both have been counted; nothing here plans or runs anything (cost.py does).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from insitu.terminal.table import size, table
from insitu.terminal.wording import option

SHOWN = 5  # layers in the text report
COSTLY = 1.1  # times the instructions of a step: above this, the report says what would undo it
ELSEWHERE = "everything else"  # the same calls at other addresses, with other alignment
STEPS = {"train_step": "per step", "accumulate": "per sample", "learn": "per step"}


@dataclass(frozen=True)
class Counted:
    """Memory and instructions of a program."""

    arena_bytes: int
    sram_bytes: int
    flash_bytes: int
    layers: Mapping[str, Mapping[str, int]]  # verb -> layer -> instructions

    def instructions(self, verb: str) -> int:
        return sum(self.layers[verb].values())

    def to_json(self) -> dict[str, Any]:
        counts = {f"{verb}_instructions": self.instructions(verb) for verb in self.layers}
        return {k: getattr(self, k) for k in ("arena_bytes", "sram_bytes", "flash_bytes")} | counts


@dataclass(frozen=True)
class Change:
    """The instructions of a layer in both programs; 0 if a program has none for it."""

    layer: str
    without: int
    instructions: int
    how: str = ELSEWHERE

    @property
    def more(self) -> int:
        return self.instructions - self.without


@dataclass(frozen=True)
class LoweringCost:
    """Two programs that learn the same bytes."""

    summary: str  # what was changed
    lowered: Counted
    without: Counted
    how: Mapping[str, str] = field(default_factory=dict)  # layer -> what was done to it
    board: str = ""
    board_sram_bytes: int = 0
    allowed_bytes: int = 0  # SRAM that the program may use, if the peak was lowered further than it had to be

    @property
    def step(self) -> str:
        """The name of the function that learns from samples."""
        return next(verb for verb in STEPS if verb in self.lowered.layers)

    @property
    def changes(self) -> list[Change]:
        """Every layer of a step whose instructions differ between the programs; the largest difference first."""
        now, then = self.lowered.layers[self.step], self.without.layers[self.step]
        each = (Change(n, then.get(n, 0), now.get(n, 0), self.how.get(n, ELSEWHERE)) for n in {**now, **then})
        return sorted((c for c in each if c.more), key=lambda c: (-abs(c.more), c.layer))

    @property
    def by_kind(self) -> dict[str, int]:
        """Extra instructions of a step, by kind of change; the sum is the difference of the two programs."""
        found: Counter[str] = Counter()
        for change in self.changes:
            found[change.how] += change.more
        return dict(found.most_common())

    @property
    def price(self) -> str:
        """One line: the memory saved, and what it cost."""
        arena = span(self.without.arena_bytes, self.lowered.arena_bytes, size)
        sram = span(self.without.sram_bytes, self.lowered.sram_bytes, size)
        step = self._words(self.step, f"instructions {STEPS[self.step]}")
        words = f"{arena} of arena, {sram} of SRAM, for {step}"
        return f"{words}, {self._words('predict', 'per prediction')}" if "predict" in self.lowered.layers else words

    @property
    def note(self) -> str:
        """A note if the program without a lowered peak is larger than the board; empty if it would fit."""
        if self.without.sram_bytes <= self.board_sram_bytes:
            return ""
        return (
            f"without this it needs {size(self.without.sram_bytes)} of SRAM and {self.board} has "
            f"{size(self.board_sram_bytes)}: counted on the same core with enough memory"
        )

    @property
    def advice(self) -> str:
        """What preferring speed would give back, if lowering the peak was expensive; empty if it was not."""
        then, now = self.without.instructions(self.step), self.lowered.instructions(self.step)
        if now <= COSTLY * then or self.lowered.sram_bytes >= self.allowed_bytes:
            return ""
        room, faster = f"{size(self.allowed_bytes)} of SRAM", option(prefer="speed")
        if self.without.sram_bytes > self.allowed_bytes:
            return f"{faster} would undo what it can within {room}, of {millions(now - then)} extra instructions"
        saved = f"{millions(then)} instructions {STEPS[self.step]} instead of {millions(now)} ({share(now, then)})"
        return f"{faster} would undo this: {saved}, with {size(self.without.sram_bytes)} of {room}"

    def _words(self, verb: str, of: str) -> str:
        then, now = self.without.instructions(verb), self.lowered.instructions(verb)
        counts = millions(now) if then == now else span(then, now, millions)
        return f"{counts} {of} ({share(then, now)})"

    def to_json(self) -> dict[str, Any]:
        changed = [{"layer": c.layer, "without": c.without, "lowered": c.instructions, "by": c.how}
                   for c in self.changes]  # fmt: skip
        return {
            "summary": self.summary, "price": self.price, "note": self.note, "advice": self.advice,
            "lowered": self.lowered.to_json(), "without": self.without.to_json(), "by_kind": self.by_kind,
            "layers": changed,
        }  # fmt: skip


def lowering_rows(summary: str, found: dict | None, name: str = "lowered by") -> list[tuple[str, str]]:
    """Lines of a report: what was changed and, if it was counted, its price; `found` is a cost as JSON."""
    if not summary or not found:
        return [(name, summary)] if summary else []
    noted = [("", found["note"])] if found["note"] else []
    advice = [("", found["advice"])] if found.get("advice") else []  # a folder written before has none
    kinds = ", ".join(f"{kind} {signed(count)}" for kind, count in found["by_kind"].items())
    price = ("", f"without -> with it: {found['price']}")
    return [(name, summary), price, *noted, ("", f"extra instructions: {kinds}"), *advice]


def checked(found: object) -> None:
    """Raise a ValueError if `found`, read from a file, is neither None nor a cost as JSON."""
    if found is None:
        return
    try:
        words = all(isinstance(found[name], str) for name in ("summary", "price", "note"))  # type: ignore[index]
        lowering_rows("", found), lowering_rows("all", found), lowering_table(found)  # type: ignore[arg-type]
    except (TypeError, KeyError, AttributeError, ValueError) as e:
        raise ValueError(f"lowering is damaged: {e!r}") from e
    if not words:
        raise ValueError("lowering is damaged")


def lowering_table(found: dict | None) -> str:
    """The layers with the largest differences, from a cost as JSON."""
    rows = [
        (c["layer"], c["without"] or None, c["lowered"] or None, signed(c["lowered"] - c["without"]), c["by"])
        for c in (found or {}).get("layers", [])[:SHOWN]
    ]
    return table(("largest changes", "without", "instructions", "extra", "by"), rows) if rows else ""


def signed(count: int) -> str:
    return f"{count:+,}"


def share(then: int, now: int) -> str:
    if then == now:
        return "unchanged"
    return f"{100 * (now / then - 1):+.1f} %" if then else "all of it"


def millions(count: int) -> str:
    return f"{count:,}" if count < 1_000_000 else f"{count / 1e6:,.2f} M"


def span(then: int, now: int, text: Callable[[int], str]) -> str:
    """`168.1 -> 64.2 KB`: the unit once, if both have the same."""
    a, b = text(then), text(now)
    same = " " in a and a.split(" ")[1] == b.partition(" ")[2]
    return f"{a.split(' ')[0] if same else a} -> {b}"
