"""The plot of bench.fleet: accuracy by labelled windows, inside and outside the fleet, with a point for each seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 340, 260, 40, 34, 40
COLOURS = {"base": "#8a8a8a", "alone": "#c2571a", "pooled": "#6a51a3", "fleet": "#1f77b4", "fleet + own": "#1b7f3b",
           "own by tests": "#0b3d1c"}  # fmt: skip
PANELS = {"inside": tuple(COLOURS), "outside": ("base", "pooled", "fleet")}
TITLES = {"inside": "wearers in the fleet", "outside": "wearers outside, no labels"}


def plot(rows: list[dict], low: float = 65, high: float = 95) -> str:
    """Rows of bench.fleet with the fewest passes per round, as SVG."""
    some = [r for r in rows if r["epochs"] == min(row["epochs"] for row in rows)]
    body = [panel(some, part, i * WIDTH, low, high) for i, part in enumerate(PANELS)]
    total = WIDTH * len(PANELS)
    keys = [_key(way, 46 + 105 * i) for i, way in enumerate(COLOURS)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {HEIGHT + 24}" font-family="sans-serif" '
            f'font-size="11" role="img" aria-label="accuracy by labelled windows">'
            f'<rect width="100%" height="100%" fill="white"/>{"".join(body + keys)}</svg>\n')  # fmt: skip


def _key(way: str, x: int) -> str:
    line = (
        f'<line x1="{x}" x2="{x + 16}" y1="{HEIGHT + 8}" y2="{HEIGHT + 8}" stroke="{COLOURS[way]}" stroke-width="2.5"/>'
    )
    return f'{line}<text x="{x + 21}" y="{HEIGHT + 12}">{way}</text>'


def panel(rows: list[dict], part: str, x: int, low: float, high: float) -> str:
    windows = sorted({r["windows"] for r in rows})
    places = dict(zip(windows, np.linspace(LEFT + 30, WIDTH - 30, len(windows))))

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    lines = [text for way in PANELS[part] for text in curve(rows, part, way, places, y)]
    return f'<g transform="translate({x} 0)">{"".join([*axes(places, y, low, high, TITLES[part]), *lines])}</g>'


def axes(places: dict, y, low: float, high: float, title: str) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="18" font-size="13">{title}</text>'
    for value in np.arange(low, high + 1, 5):
        yield f'<line x1="{LEFT}" x2="{WIDTH - 12}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#e3e3e3"/>'
        yield f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.0f}</text>'
    for windows, x in places.items():
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{windows}</text>'
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">labelled windows per recording</text>'


def curve(rows: list[dict], part: str, way: str, places: dict, y) -> Iterator[str]:
    """The mean over seeds as a line; each seed's mean as a point."""
    seeds = {w: [float(np.mean(r[part][way])) for r in rows if r["windows"] == w] for w in places}
    points = " ".join(f"{x:.1f},{y(np.mean(seeds[w])):.1f}" for w, x in places.items())
    yield f'<polyline points="{points}" fill="none" stroke="{COLOURS[way]}" stroke-width="2.5"/>'
    for w, x in places.items():
        for value in seeds[w]:
            yield f'<circle cx="{x:.1f}" cy="{y(value):.1f}" r="2" fill="{COLOURS[way]}" fill-opacity="0.55"/>'
