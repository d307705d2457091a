"""A plot of bench/mcu.py's rows as SVG: SRAM by class, and instructions of a step, with the published engine."""

from __future__ import annotations

WIDTH, BAR, GAP, LEFT, TOP = 1040, 14, 6, 260, 46
COLOURS = {"arena": "#3b7dd8", "state": "#e08a1e", "stack reserve": "#8f6bc1", "rest": "#9aa3ad"}


def more(row: dict) -> str:
    """The options that differ from the defaults."""
    allowed = f" in {row['allowed'] // 1000} KB" if row["allowed"] else ""
    return " rows" * row["by_rows"] + f" {row['prefer']}" * (row["prefer"] != "balance") + allowed


def plot(rows: list[dict], published: dict) -> str:
    shown = [r for r in rows if r["fits"]]
    bars = [("published engine", {"arena": 189_800, "state": 40_424, "stack reserve": published["stack"],
                                  "rest": published["sram"] - 189_800 - 40_424 - published["stack"]},
             published["train_step"])]  # fmt: skip
    bars += [
        (
            f"{r['model']}/{r['scheme']} {r['board']} {r['grad']}{more(r)}",
            _parts(r),
            r["train_step_instructions"],
        )
        for r in shown
    ]
    height = TOP + len(bars) * (BAR + GAP) + 40
    half = (WIDTH - LEFT) // 2 - 90
    most_bytes = max(sum(parts.values()) for _, parts, _ in bars)
    most_steps = max(steps for _, _, steps in bars)
    body = [_line(i, *bar, half, most_bytes, most_steps) for i, bar in enumerate(bars)]
    legend = "".join(
        f'<rect x="{LEFT + 110 * i}" y="{height - 26}" width="12" height="12" fill="{c}"/>'
        f'<text x="{LEFT + 110 * i + 17}" y="{height - 16}">{name}</text>'
        for i, (name, c) in enumerate(COLOURS.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="SRAM and instructions of a training step">'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
        f'<text x="{LEFT}" y="28" font-weight="bold">SRAM, everything counted</text>'
        f'<text x="{LEFT + half + 90}" y="28" font-weight="bold">instructions of a step</text>'
        f"{''.join(body)}{legend}</svg>\n"
    )


def _parts(r: dict) -> dict[str, int]:
    known = {name: r["sram"].get(name, 0) for name in ("arena", "state", "stack reserve")}
    return {**known, "rest": r["sram_bytes"] - sum(known.values())}


def _line(i: int, name: str, parts: dict[str, int], steps: int, half: int, most_bytes: int, most_steps: int) -> str:
    y, x, found = TOP + i * (BAR + GAP), float(LEFT), []
    for part, count in parts.items():
        width = half * count / most_bytes
        found.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[part]}"/>')
        x += width
    start, wide = LEFT + half + 90, half * steps / most_steps
    return (
        f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{name}</text>{"".join(found)}'
        f'<text x="{x + 5:.1f}" y="{y + 13}">{sum(parts.values()) / 1000:.0f} KB</text>'
        f'<rect x="{start}" y="{y}" width="{wide:.1f}" height="{BAR}" fill="#4c9f70"/>'
        f'<text x="{start + wide + 5:.1f}" y="{y + 13}">{steps / 1e6:.1f} M</text>'
    )
