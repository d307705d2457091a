"""One self-contained HTML page about a training run: a RunReport in, text out. The page fetches nothing."""

from __future__ import annotations

from html import escape
from pathlib import Path

from insitu.errors import DataError
from insitu.reports import html_charts as charts
from insitu.reports.html_data import RunReport, Score
from insitu.reports.html_style import CSS, SCRIPT
from insitu.terminal.table import size

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
<main>
{body}
</main>
<script>{script}</script>
</body>
</html>
"""


def write_page(report: RunReport, path: str | Path) -> Path:
    path = Path(path)
    try:
        path.write_text(page(report), encoding="utf-8")
    except OSError as e:
        raise DataError(f"cannot be written: {e.strerror or e}", where=str(path)) from e
    return path


def page(report: RunReport) -> str:
    made = (part(report) for part in (heading, tiles, learning, memory, arena, lowering, costs, facts))
    return PAGE.format(title=escape(report.title), css=CSS, script=SCRIPT, body="\n".join(p for p in made if p))


def section(title: str, words: str, *content: str) -> str:
    said = f'<p class="soft">{escape(words)}</p>' if words else ""
    return f"<section><h2>{escape(title)}</h2>{said}{''.join(content)}</section>"


def card(content: str) -> str:
    return f'<div class="card">{content}</div>'


# parts ------------------------------------------------------------------------------------------


def heading(report: RunReport) -> str:
    return (
        f"<header><h1>{escape(report.title)}</h1><p>{escape(report.summary)}</p>"
        f'<p class="soft">Ran on: {escape(report.device)}</p></header>'
    )


def tiles(report: RunReport) -> str:
    first, *rest = report.scores
    scores = [score_tile(first, "first", "score-0"), *(score_tile(s, "", f"score-{i}") for i, s in enumerate(rest, 1))]
    made = [memory_tile("SRAM", report.sram, "sram-bytes"), memory_tile("flash", report.flash, "flash-bytes")]
    if report.step_instructions is not None:
        made.append(instruction_tile(report))
    if report.estimate:
        made += estimate_tiles(report)
    note = (
        f'<p class="soft" style="margin-top:.8rem">{escape(report.estimate.assumption)}</p>' if report.estimate else ""
    )
    return f'<div class="scores">{"".join(scores)}</div><div class="tiles">{"".join(made)}</div>{note}'


def tile(what: str, value: str, under: str, kind: str = "") -> str:
    return (
        f'<div class="card tile {kind}"><div class="what">{escape(what)}</div><div class="value">{value}</div>'
        f'<div class="under">{under}</div></div>'
    )


def score_tile(score: Score, kind: str, name: str) -> str:
    before = charts.figure(score.before, f"{score.before:.1%}", f"{name}-before")
    after = charts.figure(score.after, f"{score.after:.1%}", f"{name}-after")
    gain = 100 * (score.after - score.before)
    change = f'<span class="{"gain" if gain > 0 else ""}">{gain:+.1f} points</span>'
    arrow = '<span aria-label="became"> &rarr; </span>'
    return tile(score.name, before + arrow + after, f"{change}, {score.samples:,} samples", kind)


def memory_tile(what: str, found, name: str) -> str:
    limit = f"of {size(found.limit_bytes)}" if found.limit_bytes else "no limit given"
    return tile(what, charts.figure(found.bytes, size(found.bytes), name), limit)


def instruction_tile(report: RunReport) -> str:
    count = report.step_instructions
    assert count is not None
    value = charts.figure(count, f"{count / 1e6:.2f} M", "step-instructions")
    predict = report.predict_instructions
    under = (
        ""
        if predict is None
        else charts.figure(predict, f"{predict / 1e6:.2f} M", "predict-instructions") + " to predict"
    )
    return tile("instructions per training step", value, under)


def estimate_tiles(report: RunReport) -> list[str]:
    e = report.estimate
    assert e is not None
    made = [
        tile(
            "time per step, estimated",
            charts.figure(e.step_ms, f"{e.step_ms:.1f} ms", "step-ms"),
            "one instruction per cycle",
        )
    ]
    if e.step_mj is not None:
        whole = e.step_mj * len(report.losses)
        value = charts.figure(e.step_mj, f"{e.step_mj:.2f} mJ", "step-mj")
        made.append(
            tile("energy per step, estimated", value, f"{whole / 1000:.2g} J for all {len(report.losses):,} steps")
        )
    return made


def learning(report: RunReport) -> str:
    parts = []
    if report.losses:
        parts.append(card(charts.loss_curve(report.losses, report.steps_an_epoch)))
    if report.confusion:
        each = (card(charts.confusion_table(report.confusion, w, f"confusion-{w}")) for w in ("before", "after"))
        parts.append(f'<div class="two" style="margin-top:1rem">{"".join(each)}</div>')
    words = "The loss during training, and the confusion matrix on samples it was never trained on."
    return section("What it learned", words, *parts) if parts else ""


def memory(report: RunReport) -> str:
    each = (
        card(f"<h3>{name}</h3>{charts.memory_bar(found, name)}")
        for name, found in (("SRAM", report.sram), ("Flash", report.flash))
    )
    return section("Where the memory goes", "", f'<div class="two">{"".join(each)}</div>')


def arena(report: RunReport) -> str:
    found = report.arena
    words = (
        f"All values of one training step share an arena of {found.arena_bytes:,} bytes, laid out at compile time. "
        f"With this order of steps, no arena can be smaller than {found.lower_bound_bytes:,} bytes."
    )
    told = '<div id="told" class="soft" aria-live="polite">Point at a block to see what it is.</div>'
    picture = charts.arena_picture(found, *phases(found.steps))
    return section("The arena over one training step", words, card(picture + told + charts.peak_table(found)))


def lowering(report: RunReport) -> str:
    """What a smaller arena cost, if the peak was lowered."""
    found = report.lowering
    if found is None:
        return ""
    words = (
        f"The planner lowered the peak: {found.summary}. The same program without these changes was counted on the "
        f"same core; it learns the same bytes. {found.note}"
    )
    content = charts.lowering_tiles(found) + card(charts.lowering_table(found))
    return section("What a smaller arena costs", words.strip(), content)


def phases(steps: tuple[str, ...]) -> tuple[int | None, int | None]:
    """The first step of the backward pass and the first update, recognised by the names that autodiff gives."""
    backward = next((i for i, s in enumerate(steps) if ".grad" in s), None)
    update = next((i for i, s in enumerate(steps) if s.endswith(".new.0") or s.endswith(".new")), None)
    return backward, update


def costs(report: RunReport) -> str:
    if not report.costs:
        return ""
    total = sum(c.total for c in report.costs)
    words = f"{total:,} {report.unit} in one training step, by layer."
    if report.unit != "instructions":
        words += " No instructions were counted on this device."
    return section("Where the work goes", words, card(charts.cost_bars(report.costs, report.unit)))


def facts(report: RunReport) -> str:
    if not report.facts:
        return ""
    rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in report.facts)
    return section("How to reproduce this", "", f"<dl>{rows}</dl>")
