"""A federated run as text: the rounds, the bytes, the scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from insitu.terminal.table import size, table


def told(about: Mapping[str, Any]) -> str:
    """A run as text: the rounds, the bytes, the scores."""
    parts = (rounds(about), "", *scores(about), *traffic(about), *privacy(about), *counted(about), *dropped(about))
    return "\n".join(parts)


def rounds(about: Mapping[str, Any]) -> str:
    head = ("round", "replies", "loss", "sent to devices", "received")
    losses = ["hidden" if about.get("secure") is not None else f"{r['loss']:.4f}" for r in about["rounds"]]
    rows = [(str(r["round"]), str(r["replies"]), loss, size(r["down"]), size(r["up"]))
            for r, loss in zip(about["rounds"], losses)]  # fmt: skip
    return table(head, rows)


def scores(about: Mapping[str, Any]) -> list[str]:
    """A line for each stage: before, with the fleet's model, with what each device keeps, and alone for comparison."""
    found = {int(n): list(s.values()) for n, s in about["devices"].items() if s}
    when = dict.fromkeys(found, "with the fleet's model") | {0: f"on {tested_on(about)}"}
    lines = [_line(about, "before" if n == 0 else "fleet", found[n], when[n]) for n in sorted(found)]
    lines += [f"{'undone':<9}{words}"] if (words := undone(about)) else []
    if own := list(about.get("own", {}).values()):
        lines.append(_line(about, "own", own, "once each device went on by itself", which_kept(about)))
    if alone := list(about.get("alone", {}).values()):
        lines.append(_line(about, "alone", alone, "if each had learned without the others"))
    return lines


def undone(about: Mapping[str, Any]) -> str:
    """Which rounds did harm, if the fleet went back to an earlier model."""
    if not (found := about.get("undone")):
        return ""
    rounds, values = len(about["rounds"]), list(found["scores"].values())
    which = f"of round {found['round']}" if found["round"] else "that the fleet began with"
    return f"{mean(about, values)} after round {rounds}: the devices' tests speak for the model {which}"


def kept_by(about: Mapping[str, Any], node: str) -> str:
    """Which model a device keeps; older records only say whether it is its own."""
    kept = about.get("kept", {}).get(node, "")
    return str({True: "own", False: "fleet"}.get(kept, kept))


def which_kept(about: Mapping[str, Any]) -> str:
    """How many devices keep another model than that after their own passes from the fleet's."""
    kept = [kept_by(about, node) for node in about.get("kept", {})]
    back, alone = kept.count("fleet"), kept.count("alone")
    words = [f"{back} keep the fleet's model"] if back else []
    words += [f"{alone} what they learn without it"] if alone else []
    return f"; of {len(kept)}, {' and '.join(words)}" if words else ""


def tested_on(about: Mapping[str, Any]) -> str:
    """Which samples the scores are about."""
    seen, devices = len(about.get("seen", ())), max((len(s) for s in about["devices"].values()), default=0)
    count = f" ({about['tests']:,} samples in all)" if about.get("tests") else ""
    if not seen:
        return f"the devices' own tests{count}"
    if seen == devices:
        return f"samples that the devices learned from{count}: they have no tests"
    words = f"{seen} of {devices} have none and are tested on samples that they learned from"
    return f"the devices' own tests{count}; {words}"


def _line(about: Mapping[str, Any], name: str, values: list[float], when: str, more: str = "") -> str:
    return f"{name:<9}{mean(about, values)} {when}, the worst {worst(about, values)}{more}"


def is_share(about: Mapping[str, Any]) -> bool:
    """Are the scores shares of samples that are right? Otherwise they are errors."""
    return about.get("measure", "accuracy") == "accuracy"


def shown(about: Mapping[str, Any], value: float) -> str:
    return bare(about, value) if is_share(about) else f"error {bare(about, value)}"


def bare(about: Mapping[str, Any], value: float) -> str:
    """A score without a word about what it is."""
    return f"{value:.1%}" if is_share(about) else f"{value:.4g}"


def mean(about: Mapping[str, Any], values: Iterable[float]) -> str:
    values = list(values)
    return shown(about, sum(values) / len(values))


def worst(about: Mapping[str, Any], values: Iterable[float]) -> str:
    chosen: Callable[[Iterable[float]], float] = min if is_share(about) else max
    return shown(about, chosen(values))


def sent_each(about: Mapping[str, Any]) -> float:
    """The mean bytes of a reply that was averaged. Records that do not say who sent what count dropped ones as well."""
    replies = sum(r["replies"] for r in about["rounds"])
    sent = [(r.get("each", {}), str(w["node"])) for r in about["rounds"] for w in r.get("who", [])]
    known = [each[node][1] for each, node in sent if node in each]
    return sum(known if len(known) == replies else (r["up"] for r in about["rounds"])) / max(1, replies)


def traffic(about: Mapping[str, Any]) -> list[str]:
    up = sent_each(about)
    if not up:
        return []
    share = about["float_bytes"] / up
    tests = f"; evaluations sent {size(about['tested_bytes'])} in all" if about.get("tested_bytes") else ""
    return [f"{'bytes':<9}{size(round(up))} from each device and round, {share:.0f} times fewer than float32{tests}"]


def privacy(about: Mapping[str, Any]) -> list[str]:
    if "privacy" not in about:
        return []
    p = about["privacy"]
    spent = f"epsilon {p['epsilon']:.2f} at delta {p['delta']:g} after {p['rounds']} rounds"
    return [f"{'privacy':<9}{spent}, {p['kind']} noise"]


def counted(about: Mapping[str, Any]) -> list[str]:
    """Devices that count for less than they say, in the first round in which they do."""
    found: dict[int, str] = {}
    for r in about["rounds"]:
        for w in r.get("who", []):
            if "claimed" in w:
                words = f"device {w['node']} says {w['claimed']:,} samples, counts for {w['samples']:,}"
                found.setdefault(w["node"], f"{'weight':<9}round {r['round']}, {words}")
    return list(found.values())


def dropped(about: Mapping[str, Any]) -> list[str]:
    return [f"{'dropped':<9}round {d['round']}, device {d['node']}: {d['why']}" for d in about["dropped"]]
