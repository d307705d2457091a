"""A front of schemes: the table, the scheme files, a picture, and the command that makes each program again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from insitu.deploy.finding import Point
from insitu.deploy.folder import check_folder
from insitu.deploy.lowering import millions
from insitu.files import write_whole
from insitu.schemes.update import Scheme
from insitu.terminal.table import size, table

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 360, 70, 50
PICTURE, KEPT = "front.svg", "measured.json"  # the picture, and what was measured, to go on from
HEADERS = ("scheme", "SRAM", "flash", "per step", "energy", "score", "trained")


def front_table(points: Sequence[Point]) -> str:
    return table(HEADERS, [_row(p, words) for p, words in zip(points, trained_words([p.scheme for p in points]))])


def score_words(measured: bool) -> str:
    """What the scores of a table mean."""
    if measured:
        return "score: by how much the held-out cost falls below the head's, in hundredths, summed over measured parts"
    return "score: the gain over the head alone that the network's structure lets expect; it orders these rows, no more"


def _row(p: Point, trained: str) -> tuple[str, ...]:
    exact = "" if p.counted else "~"
    steps = "-" if p.step_instructions is None else exact + millions(p.step_instructions)
    about = "" if p.linked else "~"
    energy = "-" if p.step_millijoules is None else f"~{p.step_millijoules:.3g} mJ"
    sizes = (about + size(p.sram_bytes), about + size(p.flash_bytes))
    return p.scheme.name, *sizes, steps, energy, f"{p.score:.2f}", trained


# what a scheme trains, in words -----------------------------------------------------------------


def trained_words(schemes: Sequence[Scheme]) -> list[str]:
    """`the head, 1 bias, 2 weights`; schemes with the same counts also name the parts that not all of them have."""
    counts = [_counted(s) for s in schemes]
    parts = [_parts(s) for s in schemes]
    alike = [[p for p, other in zip(parts, counts) if other == words] for words in counts]
    own = [[name for name in mine if not all(name in p for p in same)] for mine, same in zip(parts, alike)]
    return [f"{words}: {', '.join(names)}" if names else words for words, names in zip(counts, own)]


def _counted(scheme: Scheme) -> str:
    weights = sum(u.share > 0 for u in scheme.updates)
    biases = sum(u.bias for u in scheme.updates)
    found = [_plural(biases, "bias", "biases"), _plural(weights, "weight", "weights")]
    return ", ".join(["the head", *filter(None, found)])


def _plural(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}" if count else ""


def _parts(scheme: Scheme) -> list[str]:
    """`1/4 of features.3`, `features.5`, `features.3 bias`: weights first, since a table may clip its cells."""
    weights = [u.layer if u.share == 1 else f"{u.share} of {u.layer}" for u in scheme.updates if u.share]
    return weights + [f"{u.layer} bias" for u in scheme.updates if u.bias]


def check_found(folder: Path) -> Path:
    """The folder, if it is new or empty, or has what an earlier search found or measured; else a DataError."""
    return check_folder(folder, (PICTURE, KEPT), "search")


def write_front(points: Sequence[Point], folder: Path) -> list[Path]:
    """One scheme file per point, and the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [write_whole(folder / f"{p.scheme.name}.txt", str(p.scheme).encode()) for p in points]
    return [*written, write_whole(folder / PICTURE, picture(points).encode())]


def picture(points: Sequence[Point]) -> str:
    """Score against SRAM, as SVG."""
    most, least = max(p.sram_bytes for p in points), min(p.sram_bytes for p in points)
    top = max(p.score for p in points) or 1.0

    def at(p: Point) -> tuple[float, float]:
        right = (p.sram_bytes - least) / max(1, most - least)
        return LEFT + right * (WIDTH - LEFT - 90), HEIGHT - BOTTOM - p.score / top * (HEIGHT - BOTTOM - 40)

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, points))
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#3b7dd8"/>'
        f'<text x="{x + 7:.1f}" y="{y + 14:.1f}">{p.scheme.name}</text>'
        for p, (x, y) in ((p, at(p)) for p in points)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="score against SRAM"><rect width="{WIDTH}" height="{HEIGHT}" '
        f'fill="#ffffff"/><text x="{LEFT}" y="24" font-weight="bold">score against SRAM</text>'
        f'<polyline points="{line}" fill="none" stroke="#9aa3ad"/>{dots}'
        f'<text x="{LEFT}" y="{HEIGHT - 16}">{size(least)}</text>'
        f'<text x="{WIDTH - 90}" y="{HEIGHT - 16}" text-anchor="end">{size(most)} of SRAM</text></svg>\n'
    )
