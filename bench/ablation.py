"""What does each part of the planner bring? Switches one off at a time and plans again: the table of docs/planner.md.

    python -m bench.ablation                               every part, every program (hours): a Markdown table
    python -m bench.ablation --without order               the parts whose name contains this
    python -m bench.ablation --only mcunet                 the programs whose name contains this
    python -m bench.ablation --enough 128000               stop at this many bytes, as for a board with room to spare

A program is the training step of a network of docs/mcu.md, planned for a microcontroller with as few bytes as possible.
Nothing is compiled for a board, run or timed: bench/same.py does that. Results are kept in bench/ablation.json, for
this source, so that a stopped run can be continued.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.mcu import BOARDS, CHECKPOINTS, LAST, TINY, Row, markdown, source
from bench.photos import ROOT
from bench.same import source_sha256
from insitu import compile
from insitu.errors import Error
from insitu.graph import Graph
from insitu.planner.changes import in_place, less_scratch, update_tiles, weight_parts
from insitu.planner.changes.channel_groups import chain
from insitu.planner.changes.table import DEAREST, TRIED
from insitu.planner.order import PREFERENCES
from insitu.planner.place.placer import place
from insitu.planner.spent import spent

FILE = ROOT / "bench" / "ablation.json"
WHOLE = "nothing"  # the row that the others are compared with
NOTHING = 0.005  # less counts as nothing
GRADS = ("s16", "f32")
COLUMNS = (*GRADS, "rows")

Switch = tuple[str, str, Any]  # a module of the planner, a name in it, and what it is instead


# what is switched off ---------------------------------------------------------------------------


def without_tries(*tries) -> tuple[Switch, ...]:
    """The rows of the table of changes without these."""
    return (("lower", "TRIED", tuple(t for t in TRIED if t not in tries)),
            ("lower", "DEAREST", tuple(t for t in DEAREST if t not in tries)))  # fmt: skip


def without_orders(*names: str) -> tuple[Switch, ...]:
    kept = {name: rank for name, rank in PREFERENCES.items() if name not in names}
    return (("order", "PREFERENCES", kept), ("plan", "QUICK", tuple(n for n in ("free first",) if n in kept)))


LEVELS = ("changes.less_scratch", "changes.update_tiles", "changes.stripes.estimate", "changes.channel_groups.calls")

PARTS: dict[str, tuple[Switch, ...]] = {
    WHOLE: (),
    "stripes": (("lower", "cut_up", lambda *_, **__: None),),
    "less scratch": (*without_tries(less_scratch.do_less, less_scratch.do_least),
                     *((module, "LEVELS", 0) for module in LEVELS)),
    "in place": without_tries(in_place.do),
    "weights in parts": without_tries(weight_parts.do_layer, weight_parts.do_any),
    "inputs in part": (("plan", "narrowed", lambda graph: graph),),
    "updates in tiles": without_tries(update_tiles.do),
    "blocks in groups": without_tries(chain.do),
    "undoing": (("lower", "_relaxed", lambda best, *_: best),),
    "a first round without stripes": (("plan", "_without_stripes", lambda graph, *_: graph),),
    "the order that frees first": without_orders("free first"),
    "the three other orders": without_orders("given, readers first", "least net", "least peak"),
    "the search for places": (("plan", "SEARCH_ROUNDS", 0),),
    "stacking in that search": (("plan", "place", partial(place, stack=False)),),
}  # fmt: skip


@contextmanager
def off(part: str) -> Iterator[None]:
    """The planner without this part."""
    with ExitStack() as stack:
        for module, name, value in PARTS[part]:
            stack.enter_context(patch.object(import_module(f"insitu.planner.{module}"), name, value))
        yield


# planning ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planned:
    """What one training step needs; only `why` if it cannot be planned."""

    arena_bytes: int = 0
    macs_again: int = 0
    why: str = ""


def rows() -> list[Row]:
    """Ten networks with s16 gradients; the checkpoints also with f32, and three of them with rows that arrive."""
    named = [tuple(name.split("/")) for name in CHECKPOINTS] + [(name, LAST) for name in TINY]
    whole = [Row(model, scheme, BOARDS[0], "s16") for model, scheme in named]
    checkpoints = whole[: len(CHECKPOINTS)]
    return [
        *whole,
        *(replace(r, grad="f32") for r in checkpoints),
        *(replace(r, by_rows=True) for r in checkpoints[::2]),
    ]


def column(name: str) -> str:
    return "rows" if name.endswith("/rows") else name.rsplit("/", 1)[1]


def planned(graph: Graph, part: str, enough: int) -> Planned:
    make = import_module("insitu.planner.plan").plan
    with off(part):
        try:
            found = make(graph, target="mcu", enough=enough)
        except Error as e:
            return Planned(why=e.what.splitlines()[0])
    return Planned(found.arena_bytes, spent(found)["macs_again"])


def measure(path: Path, parts: list[str], only: str, enough: int) -> dict[str, dict[str, Planned]]:
    """Program -> part that is off -> what it needs; what the file has of this source is not planned again."""
    key = f"{source_sha256()[:16]}/{enough}"
    kept = json.loads(path.read_text()) if path.exists() else {}
    known: dict[str, dict[str, dict]] = kept.setdefault(key, {})
    for row in (r for r in rows() if only in r.name):
        found, missing = known.setdefault(row.name, {}), [p for p in parts if p not in known.get(row.name, {})]
        graph = compile(**source(row)).graphs["train_step"] if missing else None
        for part in missing:
            assert graph is not None
            found[part] = vars(planned(graph, part, enough))
            print(f"{row.name} without {part}: {found[part]}", file=sys.stderr, flush=True)
            path.write_text(json.dumps(kept, indent=1) + "\n")
    return {name: {part: Planned(**each) for part, each in found.items()} for name, found in known.items()}


# the table --------------------------------------------------------------------------------------


def table(found: Mapping[str, Mapping[str, Planned]], parts: list[str]) -> str:
    head = ("without", *(f"arena, {c}" for c in COLUMNS), "recomputed")
    lines = [(part, *(cell(found, part, c) for c in COLUMNS), again(found, part)) for part in parts if part != WHOLE]
    return markdown(head, lines)


def cell(found: Mapping[str, Mapping[str, Planned]], part: str, column_: str) -> str:
    """How the arena changes, in the program that changes most."""
    pairs = {n: (f[WHOLE], f[part]) for n, f in found.items() if column(n) == column_ and part in f}
    if any(b.why for _, b in pairs.values()):
        return "needed"
    grown = {name: b.arena_bytes / a.arena_bytes - 1 for name, (a, b) in pairs.items() if not a.why}
    if not grown:
        return "not measured"
    most = max(grown, key=lambda name: abs(grown[name]))
    if abs(grown[most]) < NOTHING:
        return "nothing" + (f" ({100 * grown[most]:+.2f} %)" if grown[most] else "")
    return f"{100 * grown[most]:+.2g} % ({'/'.join(most.split('/')[:2])})"


def again(found: Mapping[str, Mapping[str, Planned]], part: str) -> str:
    """The multiply-adds that are recomputed more or less than with it, in millions."""
    both = [(f[WHOLE], f[part]) for f in found.values() if part in f]
    changes = [(b.macs_again - a.macs_again) / 1e6 for a, b in both if not b.why]
    least, most = min([0.0, *changes]), max([0.0, *changes])
    words = [f"up to {most:.2g} M more"] * (most >= 0.05) + [f"up to {-least:.2g} M fewer"] * (least <= -0.05)
    return " or ".join(words) or "nothing"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=FILE, metavar="FILE")
    parser.add_argument("--without", default="", metavar="PART", help="parts whose name contains this")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose name contains this")
    parser.add_argument("--enough", type=int, default=0, metavar="BYTES")
    options = parser.parse_args(arguments)
    parts = [WHOLE, *(p for p in PARTS if p != WHOLE and options.without in p)]
    print(table(measure(options.output, parts, options.only, options.enough), parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
