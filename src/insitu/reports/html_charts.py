"""The charts of the HTML page: each function takes data and returns markup. Text is HTML, so that it keeps its size on
a phone; only shapes are SVG, stretched to the available width. html.py says what is shown, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from insitu.deploy.lowering import STEPS, LoweringCost, millions, share, signed
from insitu.reports.html_data import Confusion, LayerCost, Memory
from insitu.reports.memory import Block, MemoryMap
from insitu.terminal.table import size

COLOURS = ("--a", "--b", "--c", "--d", "--e", "--f")
PASSES = (("forward", "--a"), ("backward", "--b"), ("update", "--c"))
KINDS = (("values", "--a"), ("gradients", "--b"), ("weight gradients", "--c"), ("masks", "--e"), ("scratch", "--f"))


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
    window = max(1, min(steps_an_epoch, len(losses) // 6))
    means = [sum(losses[i - window : i]) / window for i in range(window, len(losses) + 1)]
    top = max(1e-9, 1.25 * max(means), sorted(losses)[int(0.97 * (len(losses) - 1))])
    each = _line([(i + 0.5, v) for i, v in enumerate(losses)], top, "--f", 1, 0.45)
    mean = _line([(i + window - 0.5, v) for i, v in enumerate(means)], top, "--b", 2.5, 1)
    words = f"loss over {len(losses)} training steps, from a mean of {means[0]:.3f} over {window} to {means[-1]:.3f}"
    picture = svg(len(losses), 100, "14rem", words, (each, mean))
    legend = keys((("one step", "--f"), (f"mean of the last {window} steps", "--b")))
    return legend + axes(picture, f"{top:.2f}", "0", "step 1", f"step {len(losses):,}")


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


def lowering_tiles(found: LoweringCost) -> str:
    """The arena and the instructions per step and per prediction, without and with a lowered peak."""
    then, now = found.without, found.lowered
    each = [_change("arena", then.arena_bytes, now.arena_bytes, size, "arena"),
            _change("total SRAM", then.sram_bytes, now.sram_bytes, size, "sram")]  # fmt: skip
    for verb, of in ((found.step, STEPS[found.step]), ("predict", "per prediction")):
        counts = then.instructions(verb), now.instructions(verb)
        each.append(_change(f"instructions {of}", *counts, millions, verb.replace("_", "-")))
    return f'<div class="tiles" style="margin-bottom:.8rem">{"".join(each)}</div>'


def _change(what: str, then: int, now: int, text, name: str) -> str:
    before = figure(then, text(then), f"without-{name}")
    after = figure(now, text(now), f"lowered-{name}")
    return (
        f'<div class="card tile"><div class="what">{escape(what)}</div><div class="value">{after}</div>'
        f'<div class="under">without: {before}, {share(then, now)}</div></div>'
    )


def lowering_table(found: LoweringCost, most: int = 8) -> str:
    """The layers with the largest extra cost, and a summary of all layers by kind of change."""
    shown = [c for c in found.changes[:most] if abs(c.more) > SMALL * abs(found.changes[0].more)]
    rows = [_change_row(c.layer, c.how, f"{c.without:,} &rarr; {c.instructions:,}", c.more) for c in shown]
    others = [c.more for c in found.changes[len(shown) :]]
    rows += [_change_row(f"{len(others)} more", "", "", sum(others))] if others else []
    kinds = ", ".join(f"{kind} {signed(count)}" for kind, count in found.by_kind.items())
    caption = f"extra instructions {STEPS[found.step]}, by layer; {kinds}"
    return f"<table class=changes><caption>{escape(caption)}</caption><tbody>{''.join(rows)}</tbody></table>"


def _change_row(layer: str, how: str, counts: str, more: int) -> str:
    return (
        f'<tr><td>{escape(layer)}</td><td>{escape(how)}</td><td class="n">{counts}</td>'
        f'<td class="n">{signed(more)}</td></tr>'
    )


# layers -----------------------------------------------------------------------------------------


def cost_bars(costs: Sequence[LayerCost], unit: str) -> str:
    longest = max((c.total for c in costs), default=1) or 1
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


def confusion_table(found: Confusion, which: str, name: str) -> str:
    counts = getattr(found, which)
    short = [_short(label) for label in found.labels]
    head = "".join(
        f'<th scope="col"><abbr title="{escape(n)}">{escape(s)}</abbr></th>' for s, n in zip(short, found.labels)
    )
    rows = "".join(_confusion_row(label, i, counts[i]) for i, label in enumerate(found.labels))
    right, total = sum(counts[i][i] for i in range(len(counts))), sum(map(sum, counts))
    caption = f"{which}: {right:,} of {total:,} right"
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


def _short(label: str) -> str:
    """Initials of several words, or the first three letters of one."""
    words = label.split()
    return "".join(w[0] for w in words).upper() if len(words) > 1 else label[:3]
