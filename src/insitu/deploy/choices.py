"""Memory against speed: what the smallest, the default and the fastest program of the same graphs need, side by side.

The figures of programs that were linked and run are exact, the others are estimates and marked with ~. Nothing is
planned or counted here (tradeoff.py does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from insitu.deploy.lowering import STEPS, millions
from insitu.terminal.table import size, table

NAMES = ("smallest", "default", "fastest")


@dataclass(frozen=True)
class Choice:
    """One of the programs that could be made, and the flags that make it."""

    name: str
    flags: str
    sram_bytes: int
    flash_bytes: int
    instructions: Mapping[str, int] = field(default_factory=dict)  # function -> instructions
    linked: bool = False  # is the memory that of a linked image? Otherwise it is an estimate
    counted: bool = False  # were the instructions counted? Otherwise they are an estimate
    chosen: bool = False  # is it this program?

    def to_json(self) -> dict:
        return {**vars(self), "instructions": dict(self.instructions)}


def as_counted(found: list[dict] | None, layers: Mapping[str, Mapping[str, int]]) -> list[dict]:
    """The same choices with what was counted of the program that ran: verb -> layer -> instructions."""
    totals = {verb: sum(each.values()) for verb, each in layers.items()}
    ran = next((each for each in found or () if each["chosen"]), {"instructions": {}})["instructions"]
    here = {"instructions": {verb: totals.get(verb, count) for verb, count in ran.items()}, "counted": True}
    return [{**each, **here} if each["instructions"] == ran else each for each in found or ()]


def checked_choices(found: object) -> None:
    """Raise a ValueError if `found`, read from a file, is neither None nor a list of choices as JSON."""
    try:
        known = [Choice(**each) for each in found or ()]  # type: ignore[union-attr]
        whole = all(_whole(choice) for choice in known)
        choices_table([choice.to_json() for choice in known])
    except (TypeError, KeyError, AttributeError, ValueError) as e:
        raise ValueError(f"choices are damaged: {e!r}") from e
    if not whole:
        raise ValueError("choices are damaged")


def _whole(choice: Choice) -> bool:
    numbers = (choice.sram_bytes, choice.flash_bytes, *choice.instructions.values())
    words = (choice.name, choice.flags, *choice.instructions)
    return all(type(n) is int and n >= 0 for n in numbers) and all(isinstance(w, str) for w in words)


def choices_table(found: list[dict] | None) -> str:
    """The rows of a report, from choices as JSON; empty if there are none."""
    if not found:
        return ""
    step = next((verb for verb in STEPS if verb in found[0]["instructions"]), "train_step")
    head = ("memory or speed", "SRAM", "flash", STEPS[step], "per prediction", "flags")
    return table(head, [_row(each, step) for each in found])


def _row(each: dict, step: str) -> tuple[str, ...]:
    memory, time = "" if each["linked"] else "~", "" if each["counted"] else "~"
    counts = (each["instructions"].get(verb) for verb in (step, "predict"))
    return (
        f"{each['name']} (this one)" if each["chosen"] else each["name"],
        f"{memory}{size(each['sram_bytes'])}", f"{memory}{size(each['flash_bytes'])}",
        *("-" if count is None else f"{time}{millions(count)}" for count in counts), each["flags"] or "no flag",
    )  # fmt: skip
