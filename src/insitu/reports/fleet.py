"""One self-contained page about a federated run: what it came to, round by round, device by device."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from insitu.files import write_whole
from insitu.reports.fleet_table import plain_table
from insitu.reports.fleet_text import bare, is_share, kept_by, mean, sent_each, tested_on, undone, which_kept, worst
from insitu.reports.fleet_who import numbered, who
from insitu.reports.html import PAGE, card, section
from insitu.reports.html_answers import answer
from insitu.reports.html_style import CSS, SCRIPT
from insitu.terminal.table import size


def write_fleet_page(about: Mapping[str, Any], path: str | Path) -> Path:
    """Write the page; the file appears complete or not at all."""
    return write_whole(path, fleet_page(about).encode())


def fleet_page(about: Mapping[str, Any]) -> str:
    parts = (heading(about), first(about), rounds(about), devices(about), who(about), tensors(about),
             left_out(about), dropped(about))  # fmt: skip
    return PAGE.format(title="Learning together", css=CSS, script=SCRIPT, body="\n".join(p for p in parts if p))


def heading(about: Mapping[str, Any]) -> str:
    many, count = len(about["rounds"]), max((len(s) for s in about["devices"].values()), default=0)
    masks = " The server saw only sums of their changes." if about.get("secure") is not None else ""
    words = f"{count} devices, {many} rounds, {about['strategy']}. No sample left its device.{masks}"
    return f"<header><h1>Learning together</h1><p>{escape(words)}</p></header>"


def scores(about: Mapping[str, Any]) -> list[tuple[int, list[float]]]:
    """Round -> the devices' scores, in order of rounds."""
    return sorted((int(n), list(s.values())) for n, s in about["devices"].items() if s)


def first(about: Mapping[str, Any]) -> str:
    """The first screen: how accurate, how many bytes, what was dropped."""
    found, tiles = scores(about), []
    if found:
        (_, before), (_, after) = found[0], found[-1]
        change = f"{mean(about, before)} before, {worst(about, after)} on the worst device"
        change += f"; {words}" if (words := undone(about)) else ""
        tiles.append(answer("How accurate is the fleet's model?", mean(about, after), change))
    if own := list(about.get("own", {}).values()):
        alone = list(about.get("alone", {}).values())
        which = which_kept(about) + (f"; without the others {mean(about, alone)}" if alone else "")
        words = f"{worst(about, own)} on the worst device{which}"
        tiles.append(answer("And if each goes on by itself?", mean(about, own), words))
    each, replies = sent_each(about), sum(r["replies"] for r in about["rounds"])
    share = f"{about['float_bytes'] / each:.0f} times fewer than float32" if each else ""
    tiles.append(answer("What does a device send?", f"{size(round(each))} per round", share))
    tiles.append(answer("Was anything dropped?", str(len(about["dropped"])), f"{replies} replies were averaged"))
    if "privacy" in about:
        spent = about["privacy"]
        words = f"at delta {spent['delta']:g} after {spent['rounds']} rounds, {spent['kind']} noise"
        tiles.append(answer("What could be learned about a device?", f"epsilon {spent['epsilon']:.2f}", words))
    return f'<section class="answers">{"".join(tiles)}</section>'


def rounds(about: Mapping[str, Any]) -> str:
    hidden = about.get("secure") is not None
    rows = [(r["round"], r["replies"], "hidden" if hidden else f"{r['loss']:.3f}", size(r["down"]), size(r["up"]))
            for r in about["rounds"]]  # fmt: skip
    shown = plain_table(("round", "replies", "loss", "sent", "received"), rows)
    words = "The loss on each device's own samples while it learned, averaged. Bytes sent to all devices and received."
    if about.get("tested_bytes"):
        words += f" Evaluations, before the first and after the last round, sent {size(about['tested_bytes'])} more."
    return section("Rounds", words, card(shown))


def left_out(about: Mapping[str, Any]) -> str:
    """Boards that a gateway could not reach."""
    rows = [(r["round"], said) for r in about["rounds"] for w in r.get("who", []) for said in w["left_out"]]
    words = "Their gateway answered for the others; a board is tried again in the next round."
    return section("Boards that were left out", words, card(plain_table(("round", "board"), rows))) if rows else ""


def devices(about: Mapping[str, Any]) -> str:
    found = {int(n): s for n, s in about["devices"].items() if s}
    if len(found) < 2:
        return ""
    before, after, names = found[min(found)], found[max(found)], numbered(about)
    more = [name for name in EXPLAINED if about.get(name)]
    rows = [
        (names[node], *_keeps(about, node), bare(about, before[node]) if node in before else "joined later",
         bare(about, after[node]), *(bare(about, about[m][node]) if node in about[m] else "" for m in more))
        for node in sorted(after, key=lambda n: after[n], reverse=not is_share(about))
    ]  # fmt: skip
    head = ("#", *(["keeps"] if about.get("kept") else []), "before", "fleet", *more)
    what = "Accuracy" if is_share(about) else "The error"
    words = f"{what} on {tested_on(about)}. The worst device with the fleet's model is first. "
    words += " ".join(EXPLAINED[m] for m in more)
    return section("Devices", words, card(plain_table(head, rows)))


EXPLAINED = {"own": "Own: the model that it keeps at last.",
             "alone": "Alone: without the others, after as many passes."}  # fmt: skip


def _keeps(about: Mapping[str, Any], node: str) -> list[str]:
    """Which model a device keeps, if that was asked."""
    return [kept_by(about, node)] if about.get("kept") else []


def tensors(about: Mapping[str, Any]) -> str:
    rows = [(name, " x ".join(map(str, shape))) for name, shape in about["tensors"].items()]
    kept = f" These layers stayed on their devices: {', '.join(about['personal'])}." if about["personal"] else ""
    return section(
        "What was exchanged", f"Only what the scheme trains.{kept}", card(plain_table(("tensor", "shape"), rows))
    )


def dropped(about: Mapping[str, Any]) -> str:
    if not about["dropped"]:
        return ""
    names = numbered(about)
    rows = [(d["round"], f"{names[str(d['node'])]} ({d['node']})", d["why"]) for d in about["dropped"]]
    return section("Replies that were dropped", "They did not touch the model.",
                   card(plain_table(("round", "device", "why"), rows)))  # fmt: skip
