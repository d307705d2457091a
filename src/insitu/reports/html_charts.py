"""The charts of the HTML page: each function takes data and returns markup. Text is HTML, so that it keeps its size on
a phone; only shapes are SVG, stretched to the available width. html.py says what is shown, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import accumulate
from math import isfinite
from typing import Any

from insitu.deploy.lowering import STEPS, millions, share, signed
from insitu.reports.html_data import Confusion, Group, LayerCost, Memory, Mistake
from insitu.reports.memory import Block, MemoryMap
from insitu.terminal.table import size

COLOURS = ("--a", "--b", "--c", "--d", "--e", "--f")
PASSES = (("forward", "--a"), ("backward", "--b"), ("update", "--c"))
KINDS = (("values", "--a"), ("gradients", "--b"), ("weight gradients", "--c"), ("masks", "--e"), ("scratch", "--f"))


WORDS = {  # a column of a history
    "accuracy": "of each sample, just before it was learned from",
    "error": "of each sample, just before it was learned from",
    "validation": "validation samples",
    "tested": "test samples",
}
MOST_POINTS = 800  # of a line
SMALL = 0.001  # share of the largest difference: smaller ones are shown as one sum


def figure(value: float | int, text: str, name: str) -> str:
    """A number as text, with its exact value for programs."""
    return f'<data id="{escape(name)}" value="{value!r}">{escape(text)}</data>'


def svg(width: float, height: float, tall: str, label: str, body: Iterable[str], name: str = "") -> str:
    at = f' id="{name}"' if name else ""
    return (
        f'<svg{at} viewBox="0 0 {width:g} {height:g}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}" style="height:{tall}">{"".join(body)}</svg>'
    )


def axes(picture: str, top: str, bottom: str, left: str, right: str, under: str = "") -> str:
    y = f'<div class="y"><span>{escape(top)}</span><span>{escape(bottom)}</span></div>'
    x = f'<div class="x"><span>{escape(left)}</span><span>{escape(right)}</span></div>'
    return f'<div class="plot">{y}{picture}{under}{x}</div>'


def keys(names: Iterable[tuple[str, str]]) -> str:
    each = (f'<span><i class="key" style="background:var({c})"></i>{escape(n)}</span>' for n, c in names)
    return f'<div class="keys">{"".join(each)}</div>'


def stretch(percent: float, colour: str, title: str = "") -> str:
    """A coloured part of a bar."""
    return f'<i style="width:{percent:.2f}%;background:var({colour})" title="{escape(title)}"></i>'


# loss -------------------------------------------------------------------------------------------


def loss_curve(losses: Sequence[float], steps_an_epoch: int) -> str:
    """A faint line through all steps, and a strong one for the moving mean."""
    known = [v for v in losses if isfinite(v)]
    if not known:
        return '<p class="soft">No loss was finite.</p>'
    window = max(1, min(steps_an_epoch, len(known) // 6))
    sums = [0.0, *accumulate(known)]
    means = [(sums[i] - sums[i - window]) / window for i in range(window, len(known) + 1)]
    top = max(1e-9, 1.25 * max(means), sorted(known)[int(0.97 * (len(known) - 1))])
    each = _line(thinned([(i + 0.5, v) for i, v in enumerate(known)]), top, "--f", 1, 0.45)
    mean = _line(thinned([(i + window - 0.5, v) for i, v in enumerate(means)]), top, "--b", 2.5, 1)
    words = f"loss over {len(known)} training steps, from a mean of {means[0]:.3f} over {window} to {means[-1]:.3f}"
    picture = svg(len(known), 100, "14rem", words, (each, mean))
    legend = keys((("one step", "--f"), (f"mean of the last {window} steps", "--b")))
    lost = len(losses) - len(known)
    note = f'<p class="soft">{lost:,} losses were not finite and are left out.</p>' if lost else ""
    return (
        legend
        + axes(picture, f"{top:.2f}" if top >= 0.1 else f"{top:.2g}", "0", "step 1", f"step {len(losses):,}")
        + note
    )


def thinned(points: list[tuple[float, float]], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """Every n-th point, so that a long training does not make a large page."""
    return points[:: -(-len(points) // most)] if len(points) > most else points


def epoch_curves(named: Mapping[str, Sequence[float]]) -> str:
    """Accuracies (or errors) over the epochs, on one scale."""
    shown = {name: [v for v in values if isfinite(v)] for name, values in named.items() if name != "loss"}
    shown = {name: values for name, values in shown.items() if len(values) > 1}
    if not shown:
        return ""
    share = not any(name == "error" for name in named)
    top = 1.0 if share else 1.05 * max(max(values) for values in shown.values()) or 1.0
    wide = max(map(len, shown.values())) - 1
    lines = [
        _line(thinned([(i * wide / (len(v) - 1), y) for i, y in enumerate(v)]), top, colour, 2.5, 1)
        for v, colour in zip(shown.values(), COLOURS)
    ]
    text = (lambda v: f"{v:.1%}") if share else (lambda v: f"{v:.3g}")
    names = [(f"{WORDS.get(n, n)}: {text(v[0])} to {text(v[-1])}", c) for (n, v), c in zip(shown.items(), COLOURS)]
    picture = svg(wide, 100, "10rem", "; ".join(n for n, _ in names), lines)
    ends = ("100 %", "0") if share else (f"{top:.3g}", "0")
    return keys(names) + axes(picture, *ends, "epoch 1", f"epoch {wide + 1:,}")


def _line(points: list[tuple[float, float]], top: float, colour: str, width: float, opacity: float) -> str:
    path = " ".join(f"{x:.1f},{100 - 100 * min(y, top) / top:.2f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="var({colour})" stroke-width="{width}" opacity="{opacity}" '
        f'vector-effect="non-scaling-stroke" stroke-linejoin="round"/>'
    )


# memory -----------------------------------------------------------------------------------------


def memory_bar(memory: Memory, name: str) -> str:
    """A stacked bar, its table, and its share of the board's memory."""
    pieces = sorted((p for p in memory.pieces if p.bytes), key=lambda p: -p.bytes)
    coloured = [(p, COLOURS[min(i, len(COLOURS) - 1)]) for i, p in enumerate(pieces)]
    total = max(1, memory.bytes)
    bars = "".join(stretch(100 * p.bytes / total, c, f"{p.name}: {p.bytes:,} B") for p, c in coloured)
    label = f"{name}: " + ", ".join(f"{p.name} {p.bytes:,} bytes" for p in pieces)
    rows = "".join(
        f'<tr><td><i class="key" style="background:var({c})"></i>{escape(p.name)}'
        f'{f" <span class=soft>{escape(p.note)}</span>" if p.note else ""}</td><td class="n">{p.bytes:,} B</td></tr>'
        for p, c in coloured
    )
    total_row = f'<tr><td><b>total {escape(name)}</b></td><td class="n"><b>{memory.bytes:,} B</b></td></tr>'
    note = f'<p class="soft">{escape(memory.note)}</p>' if memory.note else ""
    bar = f'<div class="bar" role="img" aria-label="{escape(label)}">{bars}</div>'
    return f"{bar}{_share(memory)}<table><tbody>{rows}{total_row}</tbody></table>{note}"


def _share(memory: Memory) -> str:
    if not memory.limit_bytes:
        return ""
    share = 100 * memory.bytes / memory.limit_bytes
    return (
        f'<div class="meter" aria-hidden="true">{stretch(min(100, share), "--soft")}</div>'
        f'<p class="soft">{share:.1f} % of the {size(memory.limit_bytes)} on the board</p>'
    )


# arena ------------------------------------------------------------------------------------------


def arena_picture(arena: MemoryMap, backward: int | None, update: int | None) -> str:
    """Steps go to the right, addresses go up; one rectangle per block."""
    steps, total = len(arena.steps), max(1, arena.arena_bytes)
    rects = [_rectangle(b, total, i) for i, b in enumerate(arena.blocks)]
    peak = f'<rect class="peak" x="{arena.peak_step}" y="0" width="1" height="{total}"/>'
    words = f"{len(arena.blocks)} values in {total:,} bytes over {steps} steps; the peak is at step {arena.peak_step}"
    picture = svg(max(1, steps), total, "22rem", words, (*rects, peak), "arena-map")
    under = _phases(steps, backward, update)
    shown = {kind(b) for b in arena.blocks}
    legend = keys([(n, c) for n, c in KINDS if n in shown])
    return legend + axes(picture, size(total), "0", "step 0", f"step {steps - 1}", under)


def _rectangle(block: Block, total: int, i: int) -> str:
    colour = dict(KINDS)[kind(block)]
    words = f"{name_of(block)} {block.type}, {block.bytes:,} B at {block.offset:,}, steps {block.first} to {block.last}"
    return (
        f'<rect class="block" x="{block.first}" y="{total - block.offset - block.bytes}" '
        f'width="{block.last - block.first + 1}" height="{block.bytes}" fill="var({colour})" '
        f'opacity="{0.95 if i % 2 else 0.72}" data-tip="{escape(words)}"><title>{escape(words)}</title></rect>'
    )


def kind(block: Block) -> str:
    """The kind of a block of the arena, from the name that autodiff gave it."""
    if is_scratch(block):
        return "scratch"
    if any(v.endswith(".mask") for v in block.values):
        return "masks"
    if any(v.endswith((".weight.grad", ".bias.grad")) for v in block.values):
        return "weight gradients"
    return "gradients" if any(".grad" in v for v in block.values) else "values"


def name_of(block: Block) -> str:
    return "scratch" if is_scratch(block) else block.values[-1]


def is_scratch(block: Block) -> bool:
    """Is this the scratch of a call? Scratch has no name of its own (planner/lifetimes.py)."""
    return block.values[0].startswith("scratch ")


def _phases(steps: int, backward: int | None, update: int | None) -> str:
    """A bar that shows where the forward pass ends and where the updates begin."""
    if not steps or backward is None:
        return ""
    ends = (backward, steps) if update is None else (backward, update, steps)
    starts = (0, *ends)
    spans = zip(("forward", "backward", "backward and updates"), starts, ends)
    wide = steps // 12  # narrower than this, there is no room for the word
    each = (
        f'<span style="flex:{b - a} 1 0" title="{n}">{n if b - a > wide else "&nbsp;"}</span>'
        for n, a, b in spans
        if b > a
    )
    return f'<div class="phases">{"".join(each)}</div>'


def peak_table(arena: MemoryMap, most: int = 8) -> str:
    alive = sorted(arena.alive(arena.peak_step), key=lambda b: -b.bytes)
    rows = [
        f'<tr><td><i class="key" style="background:var({dict(KINDS)[kind(b)]})"></i>{escape(name_of(b))}</td>'
        f'<td>{escape(b.type)}</td><td class="n">{b.bytes:,} B</td></tr>'
        for b in alive[:most]
    ]
    rest = alive[most:]
    if rest:
        rows.append(f'<tr><td>{len(rest)} more</td><td></td><td class="n">{sum(b.bytes for b in rest):,} B</td></tr>')
    caption = (
        f"alive at the peak: step {arena.peak_step}, {escape(arena.steps[arena.peak_step])}" if arena.steps else ""
    )
    return f"<table class=values><caption>{caption}</caption><tbody>{''.join(rows)}</tbody></table>"


# lowering ---------------------------------------------------------------------------------------


def lowering_tiles(found: Mapping[str, Any]) -> str:
    """The arena and the instructions per step and per prediction, without and with a lowered peak."""
    then, now = found["without"], found["lowered"]
    each = [_change("arena", then["arena_bytes"], now["arena_bytes"], size, "arena"),
            _change("total SRAM", then["sram_bytes"], now["sram_bytes"], size, "sram")]  # fmt: skip
    for verb, of in {**STEPS, "predict": "per prediction"}.items():
        key = f"{verb}_instructions"
        if key in now:
            each.append(_change(f"instructions {of}", then[key], now[key], millions, verb.replace("_", "-")))
    return f'<div class="tiles" style="margin-bottom:.8rem">{"".join(each)}</div>'


def _change(what: str, then: int, now: int, text, name: str) -> str:
    before = figure(then, text(then), f"without-{name}")
    after = figure(now, text(now), f"lowered-{name}")
    return (
        f'<div class="card tile"><div class="what">{escape(what)}</div><div class="value">{after}</div>'
        f'<div class="under">without: {before}, {share(then, now)}</div></div>'
    )


def lowering_table(found: Mapping[str, Any], most: int = 8) -> str:
    """The layers with the largest extra cost, and a summary of all layers by kind of change."""
    changes = [(c["layer"], c["by"], c["without"], c["lowered"], c["lowered"] - c["without"]) for c in found["layers"]]
    shown = [c for c in changes[:most] if abs(c[4]) > SMALL * abs(changes[0][4])]
    rows = [_change_row(layer, how, f"{then:,} &rarr; {now:,}", more) for layer, how, then, now, more in shown]
    others = [c[4] for c in changes[len(shown) :]]
    rows += [_change_row(f"{len(others)} more", "", "", sum(others))] if others else []
    kinds = ", ".join(f"{kind} {signed(count)}" for kind, count in found["by_kind"].items())
    step = next((words for verb, words in STEPS.items() if f"{verb}_instructions" in found["lowered"]), "")
    caption = f"extra instructions {step}, by layer; {kinds}"
    return f"<table class=changes><caption>{escape(caption)}</caption><tbody>{''.join(rows)}</tbody></table>"


def _change_row(layer: str, how: str, counts: str, more: int) -> str:
    return (
        f'<tr><td>{escape(layer)}</td><td>{escape(how)}</td><td class="n">{counts}</td>'
        f'<td class="n">{signed(more)}</td></tr>'
    )


# layers -----------------------------------------------------------------------------------------


def cost_bars(costs: Sequence[LayerCost], unit: str, most: int = 40) -> str:
    """A bar per layer, in the order of the network; of many layers, the most expensive ones."""
    longest = max((c.total for c in costs), default=1) or 1
    if len(costs) > most:
        least = sorted((c.total for c in costs), reverse=True)[most - 1]
        shown = [c for c in costs if c.total >= least][:most]
        rest = [c for c in costs if c not in shown]
        parts = (sum(getattr(c, name) for c in rest) for name, _ in PASSES)
        costs = [*shown, LayerCost(f"{len(rest)} more layers", *parts)]
        longest = max(c.total for c in costs)
    rows = "".join(
        f'<span class="name">{escape(c.layer)}</span>'
        f'<div class="bar" role="img" aria-label="{escape(_cost_words(c, unit))}">{_passes(c, longest)}</div>'
        f'<span class="num">{c.total:,}</span>'
        for c in costs
    )
    return keys(PASSES) + f'<div class="rows">{rows}</div>'


def _passes(cost: LayerCost, longest: int) -> str:
    parts = ((getattr(cost, name), name, colour) for name, colour in PASSES)
    return "".join(stretch(100 * n / longest, c, f"{name}: {n:,}") for n, name, c in parts if n)


def _cost_words(cost: LayerCost, unit: str) -> str:
    return f"{cost.layer}: {cost.forward:,} forward, {cost.backward:,} backward, {cost.update:,} update {unit}"


# confusion --------------------------------------------------------------------------------------


def group_table(groups: Sequence[Group], measure: str, most: int = 12) -> str:
    """The worst classes first. A regression has outputs instead."""
    what = "class" if measure == "accuracy" else "output"
    text = (lambda v: "-" if v is None else f"{v:.1%}") if measure == "accuracy" else _number
    before = any(g.before is not None for g in groups)
    rows = "".join(
        f'<tr><td>{escape(g.name)}</td><td class="n">{g.samples:,}</td>'
        f'{f"<td class=n>{text(g.before)}</td>" if before else ""}<td class="n">{text(g.after)}</td></tr>'
        for g in groups[:most]
    )
    rest = len(groups) - most
    caption = f"the {most} worst of {len(groups):,} {what}es" if rest > 0 and what == "class" else f"by {what}"
    heads = (
        what,
        "samples",
        *(["before"] if before else []),
        "after" if before else "accuracy" if measure == "accuracy" else "usual error",
    )
    head = "".join(f'<th scope="col"{" class=n" if i else ""}>{h}</th>' for i, h in enumerate(heads))
    return (
        f'<table class="groups" id="groups"><caption>{caption}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _number(value: float | None) -> str:
    """The root of a squared error, in the unit of the targets."""
    return "-" if value is None else f"{value**0.5:.4g}"


def mistake_table(mistakes: Sequence[Mistake]) -> str:
    rows = "".join(
        f'<tr><td>{escape(m.actual)}</td><td>{escape(m.predicted)}</td><td class="n">{m.count:,}</td></tr>'
        for m in mistakes
    )
    head = '<th scope="col">actual</th><th scope="col">taken for</th><th scope="col" class=n>samples</th>'
    return (
        f'<table class="groups" id="mistakes"><caption>most frequent mistakes</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def confusion_table(found: Confusion, which: str, name: str) -> str:
    counts = getattr(found, which)
    short = shortened(found.labels)
    head = "".join(
        f'<th scope="col"><abbr title="{escape(n)}">{escape(s)}</abbr></th>' for s, n in zip(short, found.labels)
    )
    rows = "".join(_confusion_row(label, i, counts[i]) for i, label in enumerate(found.labels))
    right, total = sum(counts[i][i] for i in range(len(counts))), sum(map(sum, counts))
    caption = f"{which if found.before else 'now'}: {right:,} of {total:,} right"
    corner = '<th class="corner" scope="col">actual \\ predicted</th>'
    return (
        f'<table class="confusion" id="{name}"><caption>{caption}</caption>'
        f"<thead><tr>{corner}{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _confusion_row(label: str, i: int, row: Sequence[int]) -> str:
    total = max(1, sum(row))
    cells = "".join(
        f'<td class="{"zero" if not n else "hit" if i == j else "miss"}" '
        f'style="background:rgba(var(--heat),{0.75 * n / total:.3f})">{n}</td>'
        for j, n in enumerate(row)
    )
    return f'<tr><th scope="row" title="{escape(label)}">{escape(label)}</th>{cells}</tr>'


def shortened(labels: Sequence[str]) -> list[str]:
    """A short heading for each, all different: as long as that takes, and none lacks only its last letter."""
    short = [_short(label) for label in labels]
    for letters in range(4, max(map(len, labels), default=0) + 1):
        twins = {s for s in short if short.count(s) > 1}
        short = [label[:letters] if s in twins else s for s, label in zip(short, labels)]
    return [label if len(label) == len(s) + 1 else s for s, label in zip(short, labels)]


def _short(label: str) -> str:
    """Initials of several words, or the first three letters of one."""
    words = label.split()
    return "".join(w[0] for w in words).upper() if len(words) > 1 else label[:3]
