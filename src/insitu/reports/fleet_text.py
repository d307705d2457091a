"""A federated run as text: the rounds, the bytes, the scores."""

from __future__ import annotations

from insitu.terminal.table import size, table


def told(about: dict) -> str:
    """A run as text: the rounds, the bytes, the scores."""
    head = ("round", "replies", "loss", "sent to devices", "received")
    losses = ["hidden" if about.get("secure") is not None else f"{r['loss']:.4f}" for r in about["rounds"]]
    rows = [(str(r["round"]), str(r["replies"]), loss, size(r["down"]), size(r["up"]))
            for r, loss in zip(about["rounds"], losses)]  # fmt: skip
    lines = [table(head, rows), ""]
    scored = [(int(n), list(s.values())) for n, s in about["devices"].items() if s]
    for number, scores in sorted(scored):
        when = "before" if number == 0 else "after"
        lines.append(f"{when:<9}{sum(scores) / len(scores):.1%} on the devices' own tests, the worst {min(scores):.1%}")
    if own := list(about.get("own", {}).values()):
        lines.append(
            f"{'own':<9}{sum(own) / len(own):.1%} once each device went on by itself, the worst {min(own):.1%}"
        )
    up = sum(r["up"] for r in about["rounds"]) / max(1, sum(r["replies"] for r in about["rounds"]))
    if up:
        share = about["float_bytes"] / up
        lines.append(f"{'bytes':<9}{size(round(up))} from each device and round, {share:.0f} times fewer than float32")
    if "privacy" in about:
        p = about["privacy"]
        lines.append(f"{'privacy':<9}epsilon {p['epsilon']:.2f} at delta {p['delta']:g} after {p['rounds']} rounds, "
                     f"{p['kind']} noise")  # fmt: skip
    lines += [f"{'dropped':<9}round {d['round']}, device {d['node']}: {d['why']}" for d in about["dropped"]]
    return "\n".join(lines)
