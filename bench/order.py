"""Does the summed gain of a scheme order schemes as their accuracy does? Random schemes of mcunet-5fps, Flowers-102.

    python -m bench.order                    20 schemes; bench/order.json, the rank correlations
    python -m bench.order --measure          gains from short trainings on the photos that are learned (240 s), too

Every scheme trains some of the last biases, and random shares of weights from the middle on. It is trained
on half of the training photos and tested on views of the other half, as found.py chooses rates. The gains come from the
structure alone (schemes/ladder.py), or from the photos (learner/contributions.py); test photos are not used.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from bench import photos
from bench.photos import ROOT
from bench.transfer import MODEL, Run, as_input, checkpoint, halves, remember, train
from insitu import pipeline
from insitu.data.samples import Samples
from insitu.schemes.contribution import SHARES, Contribution, read_contribution
from insitu.schemes.cost import Bytes, state_bytes
from insitu.schemes.ladder import kind, ladder
from insitu.schemes.layers import Layer
from insitu.schemes.update import Scheme, Update

FILE = ROOT / "bench" / "order.json"
EPOCHS, RATE, OFTEN = 4, 0.2, 0.4


def drawn(layers: list[Layer], seed: int) -> Scheme:
    """Some of the last biases, and shares of some weights."""
    rng, updates = np.random.default_rng(seed), []
    late = layers[len(layers) // 2 :]
    first = len(late) - int(rng.integers(0, len(late) + 1))
    often = OFTEN * rng.random()
    for at, layer in enumerate(late):
        share = SHARES[rng.integers(len(SHARES))] if kind(layer) and rng.random() < often else 0
        if share or at >= first:
            updates.append(Update(layer.name, at >= first, share or Update.share))
    return Scheme(f"random:{seed}", tuple(updates))


def network() -> tuple[list[Layer], pipeline.Parts]:
    parts = pipeline.compile(checkpoint(), classes=102, scheme="full").parts
    assert parts is not None
    return pipeline.trainable(parts.forward), parts


def measured(parts: pipeline.Parts, layers: list[Layer], known: dict, file: Path) -> Contribution:
    """What the photos of the learned half say."""
    if "table" not in known:
        train_photos, _ = photos.read("flowers")
        learned, _ = halves(train_photos.labels)
        pixels = np.stack([np.asarray(train_photos.image(int(i))) for i in learned])
        found = pipeline.measured(parts, Samples((as_input(pixels),), train_photos.labels[learned]))
        known["table"] = found.to_json()
        file.write_text(json.dumps(known, indent=1) + "\n")
    return read_contribution(known["table"], layers)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemes", type=int, default=20)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--file", type=Path, default=FILE)
    options = parser.parse_args(argv)
    known = json.loads(options.file.read_text()) if options.file.is_file() else {"runs": {}}
    layers, parts = network()
    kept, schemes = remember("flowers", 0, 1), [drawn(layers, seed) for seed in range(options.schemes)]
    for scheme in schemes:
        if scheme.name not in known["runs"]:
            run = Run("flowers", str(scheme), rate=RATE, epochs=EPOCHS, grad="s16", choosing=True)
            known["runs"][scheme.name] = train(run, kept)["held"]
            print(scheme.name, known["runs"][scheme.name], file=sys.stderr, flush=True)
            options.file.write_text(json.dumps(known, indent=1) + "\n")
    reached = [known["runs"][s.name] for s in schemes]
    tables = {"ladder": ladder(layers), **({"measured": measured(parts, layers, known, options.file)}
                                           if options.measure or "table" in known else {})}  # fmt: skip
    scores = {name: [table.of(s) for s in schemes] for name, table in tables.items()}
    scores["bytes of state"] = [float(state_bytes(s, layers, Bytes())) for s in schemes]
    for name, each in scores.items():
        print(f"{name:<15} rank correlation {spearmanr(each, reached).statistic:.2f}")
    print(f"accuracy {min(reached):.1f} to {max(reached):.1f} %, {len(reached)} schemes, {MODEL}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
