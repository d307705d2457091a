"""One self-contained HTML page about a learner: a RunReport in, text out. The page fetches nothing.

Its first screen answers four questions (html_answers.py): does it fit, how accurate, how fast, what next.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from insitu.files import write_whole
from insitu.reports import html_charts as charts
from insitu.reports.html_answers import answers
from insitu.reports.html_data import RunReport
from insitu.reports.html_style import CSS, SCRIPT

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
    """Write the page; the file appears complete or not at all."""
    return write_whole(path, page(report).encode())


def page(report: RunReport) -> str:
    parts = (heading, answers, story, learning, classes, memory, arena, lowering, costs, facts)
    made = (part(report) for part in parts)
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


def story(report: RunReport) -> str:
    """What happened, in order."""
    rows = "".join(f"<tr><th>{escape(when)}</th><td>{escape(what)}</td></tr>" for when, what in report.story)
    return section("What happened", "", card(f'<table class="story">{rows}</table>')) if rows else ""


def learning(report: RunReport) -> str:
    """Curves over steps and epochs."""
    curves = [charts.loss_curve(report.losses, report.steps_an_epoch)] if report.losses else []
    measured = charts.epoch_curves(report.epochs)
    if not curves and not measured:
        return ""
    words = "The loss of every training step" + (", and what was measured in each epoch." if measured else ".")
    cards = "".join(map(card, filter(None, [*curves, measured])))
    return section("What it learned", words, f'<div class="stack">{cards}</div>')


def classes(report: RunReport) -> str:
    """Results by class or output; the matrix only if it is small enough to be read."""
    measure = report.scores[0].measure if report.scores else "accuracy"
    parts = [card(charts.group_table(report.groups, measure))] if report.groups else []
    parts += [card(charts.mistake_table(report.mistakes))] if report.mistakes else []
    if report.confusion:
        shown = [which for which in ("before", "after") if getattr(report.confusion, which)]
        parts += [card(charts.confusion_table(report.confusion, w, f"confusion-{w}")) for w in shown]
    name = (report.confusion and report.confusion.on) or (report.scores[0].name if report.scores else "")
    words = f"Measured on: {name}." if name else ""
    title = "Which classes it knows" if measure == "accuracy" else "Which outputs are right"
    return section(title, words, f'<div class="two">{"".join(parts)}</div>') if parts else ""


def memory(report: RunReport) -> str:
    each = (
        card(f"<h3>{name}</h3>{charts.memory_bar(found, name)}")
        for name, found in (("SRAM", report.sram), ("Flash", report.flash))
    )
    return section("Where the memory goes", "", f'<div class="two">{"".join(each)}</div>')


def arena(report: RunReport) -> str:
    found = report.arena
    if found is None:
        return ""
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
        f"The planner lowered the peak: {found['summary']}. The same program without these changes was counted on the "
        f"same core; it learns the same bytes. {found['note']}"
    )
    advice = f'<p class="advice">{escape(found["advice"])}</p>' if found.get("advice") else ""
    content = charts.lowering_tiles(found) + advice + card(charts.lowering_table(found))
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
