"""What every published scheme needs: the planner's arena, its two lower bounds and the trained parameters.

    python -m bench.schemes            prints the table and writes it into docs/schemes.md, as its last section

Exact bytes, no timing. Models are found as the tests find them (INSITU_TEST_FILES, or `shared` beside the checkout).
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from insitu.importers import load
from insitu.planner import plan
from insitu.schemes.layers import layers
from insitu.schemes.published import PUBLISHED
from insitu.schemes.scheme import read_scheme
from insitu.training.head import HEAD, replace_head
from insitu.training.train import train_graphs

ROOT = Path(__file__).parent.parent
CLASSES = 10
# the published engine's figure for mcunet-5fps/49kb, the only scheme whose arena is known
PUBLISHED_ARENA = {"mcunet-5fps/49kb": 189_800}

PAGE = ROOT / "docs" / "schemes.md"
TITLE = "## The published schemes, planned"


@dataclass(frozen=True)
class Row:
    scheme: str
    arena_bytes: int
    lower_bound_bytes: int  # live bytes of the chosen order
    best_bound_bytes: int  # the lowest over the orders tried
    state_bytes: int
    trained_weights: int
    trained_biases: int
    peak: str

    @property
    def gap(self) -> float:
        return self.arena_bytes / self.best_bound_bytes - 1


def measure(scheme: str, models: Path) -> Row:
    """Compile the training step of one scheme, down to the plan."""
    graph = replace_head(load(models / f"{scheme.partition('/')[0]}.pkl"), CLASSES)
    chosen = read_scheme(scheme, [layer for layer in layers(graph) if layer.name != HEAD])
    step = train_graphs(graph, chosen)["train_step"]
    made = plan(step)
    sizes = {name: array.size for name, array in step.state.items()}
    biases = sum(n for name, n in sizes.items() if name.endswith(".bias") and not name.startswith(HEAD))
    weights = sum(
        n for name, n in sizes.items() if name.endswith((".weight", ".trained")) and not name.startswith(HEAD)
    )
    state = sum(array.nbytes for array in step.state.values())
    peak = step.nodes and made.graph.nodes[made.peak_step].name
    return Row(
        scheme, made.arena_bytes, made.lower_bound_bytes, made.best_bound_bytes, state, weights, biases, str(peak)
    )


def table(rows: list[Row]) -> str:
    lines = [
        "| scheme | arena | bound, this order | bound, best order | gap | state | weights | biases | peak at |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r.scheme} | {r.arena_bytes:,} | {r.lower_bound_bytes:,} | {r.best_bound_bytes:,} | {r.gap:.2%} "
            f"| {r.state_bytes:,} | {r.trained_weights:,} | {r.trained_biases:,} | {r.peak} |"
        )
    return "\n".join(lines)


def section(rows: list[Row]) -> str:
    known = ", ".join(f"{name} {size:,} B" for name, size in PUBLISHED_ARENA.items())
    return f"""{TITLE}

Made by `python -m bench.schemes`. One training step at batch 1 with {CLASSES} classes, the whole input in memory,
without streaming, in bytes. *Arena* is everything alive during a step, including kernel scratch; *state* is what
persists: trained weights with their residual byte, biases, the head and counters. *Bound* is the largest sum of bytes
alive at one step: no placement in that order can need less. Published engine, arena: {known}.

{table(rows)}
"""


def find_models() -> Path:
    return Path(os.environ.get("INSITU_TEST_FILES", ROOT.parent / "shared")) / "models"


def main() -> int:
    models = find_models()
    if not models.is_dir():
        print(f"no models at {models}: set INSITU_TEST_FILES to a folder with `models`", file=sys.stderr)
        return 1
    rows = [measure(scheme, models) for scheme in PUBLISHED]
    print(json.dumps([asdict(r) for r in rows], indent=1) if "--json" in sys.argv else table(rows))
    PAGE.write_text(PAGE.read_text().partition(TITLE)[0] + section(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
