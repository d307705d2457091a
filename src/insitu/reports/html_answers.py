"""The first screen of the page: does it fit, how accurate is it, how fast, and what to do next."""

from __future__ import annotations

import re
from html import escape

from insitu.reports.html_charts import figure, stretch
from insitu.reports.html_data import Memory, RunReport, Score
from insitu.terminal.table import size


def answers(report: RunReport) -> str:
    parts = (fit(report), accuracy(report), speed(report), advice(report))
    note = f'<p class="soft fine">{escape(report.estimate.assumption)}</p>' if report.estimate else ""
    return f'<div class="answers">{"".join(parts)}</div>{note}'


def answer(question: str, value: str, *under: str, kind: str = "") -> str:
    lines = "".join(f'<div class="under">{line}</div>' for line in under if line)
    return (
        f'<div class="card answer {kind}"><h2 class="what">{escape(question)}</h2>'
        f'<div class="value">{value}</div>{lines}</div>'
    )


# fit --------------------------------------------------------------------------------------------


def fit(report: RunReport) -> str:
    sram, flash = memory_line("SRAM", report.sram, "sram-bytes"), memory_line("flash", report.flash, "flash-bytes")
    if report.fits is None:
        return answer(
            "Does it fit?", escape(report.room or "No board was given"), sram, flash, escape(report.sram.note)
        )
    value, kind = ("Yes", "good") if report.fits else ("No", "bad")
    return answer("Does it fit?", value, sram, flash, kind=kind)


def memory_line(what: str, found: Memory, name: str) -> str:
    """`SRAM 27.1 KB of 262.1 KB`, and how much of a bar that fills."""
    used = figure(found.bytes, size(found.bytes), name)
    if not found.limit_bytes:
        return f"<b>{used}</b> {escape(what)}"
    share = 100 * found.bytes / found.limit_bytes
    colour = "--a" if share <= 100 else "--bad"
    bar = f'<div class="meter" aria-hidden="true">{stretch(min(100, share), colour)}</div>'
    return f"<b>{used}</b> of {size(found.limit_bytes)} {escape(what)}, {share:.0f} %{bar}"


# accuracy ---------------------------------------------------------------------------------------


def accuracy(report: RunReport) -> str:
    question = "How accurate is it?"
    if not report.scores or report.scores[0].after is None:
        return answer(question, "Not measured", "No labelled samples were given to test on.")
    first, *rest = report.scores
    others = [f"{escape(s.name)}: {span(s, f'score-{i}')}" for i, s in enumerate(rest, 1)]
    about = f"{change(first)}{explained(first)}{counted(first)}"
    return answer(question, span(first, "score-0"), about, *others, kind="first")


def counted(score: Score) -> str:
    """`450 test samples`"""
    if not score.samples:
        return escape(score.name)
    if score.name.endswith("samples"):
        return f"{score.samples:,} {escape(score.name)}"
    return f"{escape(score.name)}, {score.samples:,} samples"


def span(score: Score, name: str) -> str:
    """Before and after, or only one of them. A squared error is shown as its root, in the unit of the targets."""
    text = "{:.1%}".format if score.measure == "accuracy" else lambda v: f"{v**0.5:.4g}"
    known = [(v, n) for v, n in ((score.before, "before"), (score.after, "after")) if v is not None]
    arrow = '<span aria-label="became"> &rarr; </span>'
    word = "" if score.measure == "accuracy" else "usual error "
    return word + arrow.join(figure(v, text(v), f"{name}-{n}") for v, n in known)


def explained(score: Score) -> str:
    return "" if score.explained is None else f"explains {score.explained:.1%} of the variance, "


def change(score: Score) -> str:
    """`+6.8 points, `; for an error, by how much it fell."""
    if score.before is None or score.after is None:
        return ""
    if score.measure == "accuracy":
        gain, words = score.after - score.before, f"{100 * (score.after - score.before):+.1f} points"
    else:
        gain = score.before - score.after
        words = f"{100 * ((score.after / score.before) ** 0.5 - 1):+.0f} %" if score.before else ""
    return f'<span class="{"gain" if gain > 0 else "loss" if gain < 0 else ""}">{words}</span>, ' if words else ""


# speed ------------------------------------------------------------------------------------------


def speed(report: RunReport) -> str:
    if report.estimate and report.step_instructions is not None:
        return answer("How fast is it?", step_time(report.estimate.step_ms, "step-ms"), *board_lines(report))
    counted = instructions(report)
    if counted:
        return answer("How fast is it?", counted[0], *counted[1:])
    if report.speed is None:
        return answer("How fast is it?", "Not measured", work(report))
    if report.speed.step_ms is None:
        return answer("How fast is it?", f"{milliseconds(report.speed.predict_ms)} per prediction", work(report))
    value = step_time(report.speed.step_ms, "host-step-ms")
    return answer("How fast is it?", value, f"{milliseconds(report.speed.predict_ms)} per prediction",
                  "measured on this machine", work(report))  # fmt: skip


def step_time(ms: float, name: str) -> str:
    return f"{figure(ms, milliseconds(ms), name)} <small>per training step</small>"


def milliseconds(ms: float) -> str:
    """Three digits, and never an exponent."""
    if ms >= 9_999.5:
        return f"{ms / 1000:,.1f} s"
    return f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.3g} ms" if ms >= 0.001 else f"{ms:.6f} ms"


def board_lines(report: RunReport) -> list[str]:
    e = report.estimate
    assert e is not None
    energy = ""
    if e.step_mj is not None:
        steps = f"; {e.step_mj * len(report.losses) / 1000:,.2f} J for all {len(report.losses):,} steps"
        own = report.losses and not report.in_float  # the steps of this program
        energy = f"{figure(e.step_mj, f'{e.step_mj:.2f} mJ', 'step-mj')} per step{steps if own else ''}"
    return ["estimated from counted instructions", *instructions(report), energy]


def instructions(report: RunReport) -> list[str]:
    parts = (
        (report.step_instructions, "step-instructions", "instructions per step"),
        (report.predict_instructions, "predict-instructions", "per prediction"),
    )
    return [f"{figure(n, millions(n), name)} {words}" for n, name, words in parts if n is not None]


def millions(count: int) -> str:
    return f"{count / 1e6:,.2f} M" if count >= 100_000 else f"{count:,}"


def work(report: RunReport) -> str:
    total = sum(c.total for c in report.costs)
    return f"{total:,} {escape(report.unit)} per training step" if total else ""


# next -------------------------------------------------------------------------------------------


def advice(report: RunReport) -> str:
    items = "".join(f"<li>{unbroken(words)}</li>" for words in (*report.notes, *report.next))
    list_ = f"<ol>{items}</ol>" if items else '<div class="under">Nothing: it can be used as it is.</div>'
    return f'<div class="card answer next"><h2 class="what">What to do next?</h2>{list_}</div>'


FLAG = re.compile(r"(?<!\S)--?[a-z][a-z-]*")


def unbroken(words: str) -> str:
    """The words, in which no line ends within an option such as --split."""
    return FLAG.sub(lambda found: f'<span class="whole">{found[0]}</span>', escape(words))
