"""Who trained what in a federated run: the layers of each scheme, and what each device sent and was sent.

Devices have short numbers here, in place of Flower's long ones. How good their models are is told elsewhere (fleet.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from insitu.reports.fleet_table import plain_table
from insitu.reports.html import card, section
from insitu.terminal.table import size

MOST_LAYERS = 12  # that are named; the tensors are listed further down


def who(about: Mapping[str, Any]) -> str:
    """Nothing in records that do not say it."""
    if not about.get("programs") or not any(r.get("each") for r in about["rounds"]):
        return ""
    words = "Samples of a device, rounds in which its change was averaged, and bytes sent to it and received from it."
    if any("claimed" in w for r in about["rounds"] for w in r.get("who", [])):
        words += " One with far more samples than most counts for fewer."
    if about.get("secure") is not None:
        words += " Numbers of samples stay hidden."
    tables = card(_schemes(about)) + card(_devices(about))
    return section("Who trained what", words, f'<div class="stack">{tables}</div>')


def numbered(about: Mapping[str, Any]) -> dict[str, int]:
    """A short number for each device, in place of Flower's long ones."""
    scored = [node for found in about["devices"].values() for node in found]
    asked = [node for r in about["rounds"] for node in r.get("each", {})]
    replied = [str(w["node"]) for r in about["rounds"] for w in r.get("who", [])]
    dropped = [str(d["node"]) for d in about["dropped"]]
    return {node: i + 1 for i, node in enumerate(sorted({*scored, *asked, *replied, *dropped}))}


def _schemes(about: Mapping[str, Any]) -> str:
    """A line for each scheme: its layers, how many numbers, and how many devices have it."""
    used = list(_program_of(about).values())
    rows = [(_scheme(about, i), _layers(p["tensors"]), _said(sum(p["tensors"].values()), used.count(i)))
            for i, p in enumerate(about["programs"])]  # fmt: skip
    lines = "".join(f"<tr><td>{escape(a)}</td><td>{escape(b)}</td><td class=n>{c}</td></tr>" for a, b, c in rows)
    return f'<table class="values">{lines}</table>'


def _said(numbers: int, devices: int) -> str:
    return f"{numbers:,} numbers, {devices:,} device{'s' if devices != 1 else ''}"


def _scheme(about: Mapping[str, Any], program: int) -> str:
    """With a letter, if there are several."""
    letter = f"{_letter(program)}: " if len(about["programs"]) > 1 else ""
    return f"{letter}{about['programs'][program]['scheme']}"


def _letter(program: int | None) -> str:
    return "" if program is None else chr(ord("A") + program % 26) * (1 + program // 26)


def _layers(tensors: Mapping[str, int]) -> str:
    """The layers of these tensors; of a layer that learns nothing else, its bias."""
    parts: dict[str, set[str]] = {}
    for name in tensors:
        layer, _, part = name.rpartition(".")
        parts.setdefault(layer or part, set()).add(part)
    named = [f"{layer}.bias" if found == {"bias"} else layer for layer, found in parts.items()]
    more = f" and {len(named) - MOST_LAYERS} more" if len(named) > MOST_LAYERS else ""
    return ", ".join(named[:MOST_LAYERS]) + more


def _program_of(about: Mapping[str, Any]) -> dict[str, int]:
    return {str(w["node"]): w.get("program", 0) for r in about["rounds"] for w in r.get("who", [])}


def _devices(about: Mapping[str, Any]) -> str:
    names, programs, several = numbered(about), _program_of(about), len(about["programs"]) > 1
    asked = {node for r in about["rounds"] for node in r.get("each", {})}
    letters = {node: f" {_letter(programs.get(node))}" if several else "" for node in asked}
    rows = [
        (f"{names[node]}{letters[node]}".rstrip(), *_row(about, node)) for node in sorted(asked, key=lambda n: names[n])
    ]
    head = ("#", "samples", "rounds", "to it", "from it")
    return plain_table(head, rows)


def _row(about: Mapping[str, Any], node: str) -> tuple[object, ...]:
    rounds = [r for r in about["rounds"] if node in r.get("each", {})]
    mine = [w for r in rounds for w in r["who"] if str(w["node"]) == node]
    samples = "hidden" if about.get("secure") is not None else _samples(mine)
    down, up = (sum(r["each"][node][way] for r in rounds) for way in (0, 1))
    return samples, f"{len(mine)} of {len(rounds)}", _size(down), _size(up)


def _samples(mine: list[Mapping[str, Any]]) -> str:
    """The number that a device claims, and for how many it counts if these are fewer; nobody knows that of a device
    whose replies were all dropped."""
    if not mine:
        return "-"
    most = max(mine, key=lambda w: w.get("claimed", w["samples"]))
    return f"{most['claimed']:,} (as {most['samples']:,})" if "claimed" in most else f"{most['samples']:,}"


def _size(bytes_: int) -> str:
    """In few characters."""
    return size(bytes_) if bytes_ < 1_000_000 else f"{bytes_ / 1e6:,.1f} MB"
