"""The plot of bench.found: accuracy on the test photos against SRAM, one line per recipe, one point per scheme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 340, 48, 90, 34, 44
COLOURS = ("#8a8a8a", "#1f77b4", "#1b7f3b", "#c2571a")
KB = 1000


@dataclass(frozen=True)
class Dot:
    """A scheme with one recipe."""

    scheme: str
    recipe: str
    sram: int
    right: float  # in %


def plot(dots: Sequence[Dot], floats: dict[str, float]) -> str:
    """SVG. `floats`: what float training of everything reaches, by recipe; it has no place on the axis."""
    values = [*(d.right for d in dots), *floats.values()]
    low, high = int(min(values)) - 1, int(max(values)) + 1
    most = max(d.sram for d in dots)

    def x(sram: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * sram / most

    def y(right: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - right) / (high - low)

    recipes = list(dict.fromkeys([*(d.recipe for d in dots), *floats]))
    colours = dict(zip(recipes, COLOURS))
    body = [*_axes(x, y, low, high, most)]
    for i, recipe in enumerate(recipes):
        some = sorted((d for d in dots if d.recipe == recipe), key=lambda d: d.sram)
        body += _line(some, colours[recipe], x, y)
        body += _level(floats.get(recipe), colours[recipe], y)
        body.append(f'<text x="{LEFT + 8 + 190 * i}" y="{HEIGHT - 6}" fill="{colours[recipe]}">{words(recipe)}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'font-size="11" role="img" aria-label="accuracy against SRAM">'
            f'<rect width="100%" height="100%" fill="white"/>{"".join(body)}</svg>\n')  # fmt: skip


def words(recipe: str) -> str:
    """`16, smooth` -> `16 epochs, smoothed labels`"""
    epochs, _, more = recipe.partition(", ")
    return ", ".join(filter(None, [f"{epochs} epochs", more.replace("smooth", "smoothed labels")]))


def _axes(x, y, low: int, high: int, most: int) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="18" font-size="13">right on 6,149 test photos, in %, against SRAM in KB</text>'
    for value in range(low, high + 1):
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#e8e8e8"/>'
        yield f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>'
    for kb in range(50, most // KB + 1, 50):
        yield f'<text x="{x(kb * KB):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{kb}</text>'


def _line(dots: Sequence[Dot], colour: str, x, y) -> Iterator[str]:
    points = " ".join(f"{x(d.sram):.1f},{y(d.right):.1f}" for d in dots)
    yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    for i, d in enumerate(dots):  # the first line is named below, others above, to the left and right in turn
        at, left = (x(d.sram), y(d.right)), i % 2 == 0
        side = f'text-anchor="{"end" if left else "start"}"' if colour != COLOURS[0] else ""
        place = f'x="{at[0] + 4:.1f}" y="{at[1] + (-7 if side else 14):.1f}" {side}'
        yield f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3.5" fill="{colour}"/>'
        yield f'<text {place} fill="{colour}">{d.scheme}</text>'


def _level(right: float | None, colour: str, y) -> Iterator[str]:
    """A dashed line for float."""
    if right is not None:
        ends = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(right):.1f}" y2="{y(right):.1f}"'
        yield f'<line {ends} stroke="{colour}" stroke-dasharray="4 4"/>'
        yield f'<text x="{WIDTH - RIGHT + 4}" y="{y(right) + 4:.1f}" fill="{colour}">float, all layers</text>'
