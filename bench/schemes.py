"""What every published scheme needs: the planner's arena, its two lower bounds and the trained parameters.

    python -m bench.schemes            prints the table and writes docs/schemes.md

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

GUIDE = """# What to train

A scheme says which layers are updated, and how much of each. More of the network learns more, and needs more SRAM: the
state (a trained int8 weight is two bytes, a bias four) and the values that the backward pass keeps. Three ways to
choose:

**`auto:ladder`.** As much as fits: half of the board's SRAM (all of it if only the head fits the half), or
`--sram`. On this machine, arena and state may take 256 KB, or 1.5 times what the head alone needs if that is more.
Small networks are trained in full. `auto`, the default, trains the head alone, or all that fits of an untrained model:
that is quick, and with few samples it is often as good.

**`ladder:N`, by number.** The ladder needs no data. It knows from the structure of a network what usually brings most
per byte, and adds part after part: first biases, from the end to the middle; then an eighth, a quarter, a half and all
of the weights of layers from the middle on that expand channels or are plain convolutions; of pointwise layers that
contract channels later; then layers before the middle; depthwise layers only at the top, in `full`. Every rung contains
the one before it, so `auto:ladder` finds the highest that fits with a handful of plans.

**`insitu search`, exactly.** The scheme with the largest summed gain within a budget, as an integer program (HiGHS,
from scipy: `pip install "insitu[search]"`), for several budgets. The planner says what each really needs, and the
schemes that are kept are linked:

```sh
insitu search mcunet-5fps.pkl --classes 10 --board stm32f746 --sram 200K -o found    # a table, scheme files, a picture
insitu compile mcunet-5fps.pkl --classes 10 --board stm32f746 --prefer memory --scheme found/98kb.txt
```

The scores are expected gains of the same table that the ladder uses: they order schemes of one network and mean nothing
else. `--instructions N` limits a step too. `pipeline.search(..., gains=...)` takes a table of your own
(`schemes/contribution.py`, JSON). Low-rank updates are not offered.

mcunet-5fps on Flowers-102, learned from half of the 2,040 training photos and tested on four random views of each photo
of the other half; 8 epochs at a rate of 0.2 (of 0.05, 0.1 and 0.2 the best for 49kb), a head of zeros, one photo per
update, 16-bit gradients, one seed (seeds differ by about 0.5). SRAM of stm32f746 with 10 classes, everything counted:

| scheme | SRAM | right, in % |
|---|--:|--:|
| `mcunet-5fps/49kb` | 106.2 KB | 80.1 |
| `ladder:22` | 97.7 KB | 80.1 |
| `ladder:28` | 127.5 KB | 79.2 |

So the ladder reaches what the published scheme reaches, in less SRAM; more of it did not bring more at this rate.
`python -m bench.found` measures these and more, with rates chosen for each, and on the test photos.
"""


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


def page(rows: list[Row]) -> str:
    known = ", ".join(f"{name} {size:,} B" for name, size in PUBLISHED_ARENA.items())
    return f"""{GUIDE}
## The published schemes, planned

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
    (ROOT / "docs" / "schemes.md").write_text(page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
