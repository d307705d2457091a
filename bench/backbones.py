"""How accurate `insitu teach` is with each of its networks for photos: the order of insitu/teach/backbones.py.

    python -m bench.backbones [--classes 20] [--photos 10] [-o backbones.json]

Flowers-102 (`insitu zoo`): some kinds of flowers, a few photos each from the official training part; tested on the
official test part, fifteen photos of each. The classifier alone is trained, with all defaults, by the generated C.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from PIL import Image

import insitu
from bench.photos import Photos, read
from insitu.data.samples import Samples
from insitu.teach.backbones import BACKBONES
from insitu.terminal.table import table


def photos(found: Photos, kinds: range, count: int, value) -> Samples:
    """The first `count` photos of each kind, in the form that an input takes."""
    chosen = [int(i) for kind in kinds for i in np.flatnonzero(found.labels == kind)[:count]]
    height, width = value.shape[1:3]
    x = np.stack([np.asarray(found.image(i).resize((width, height), Image.Resampling.BILINEAR)) for i in chosen])
    return Samples((x,), np.array([kinds.index(int(found.labels[i])) for i in chosen]))


def measure(backbone, data: tuple[Photos, Photos], kinds: range, count: int) -> dict:
    started, graph = time.process_time(), backbone.make()
    training, test = (photos(d, kinds, n, graph.inputs[0]) for d, n in zip(data, (count, 15)))
    learner = insitu.compile(graph, classes=len(kinds), data=training, head_after=backbone.head_after)
    learner.fit(training)
    weights = sum(a.size for a in graph.constants.values())
    accuracy = learner.evaluate(test)["accuracy"]
    return {"network": backbone.name, "accuracy": accuracy, "weights": weights, "cpu_s": time.process_time() - started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--photos", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path, default=Path("bench/backbones.json"))
    arguments = parser.parse_args()
    data = read("flowers")
    kinds = range(0, 5 * arguments.classes, 5)
    rows = [measure(b, data, kinds, arguments.photos) for b in BACKBONES if b.here]
    arguments.output.write_text(json.dumps(rows, indent=1))
    cells = [(r["network"], f"{r['accuracy']:.1%}", f"{r['weights']:,}", f"{r['cpu_s']:.0f}") for r in rows]
    print(table(("network", "accuracy", "weights", "CPU s"), cells))


if __name__ == "__main__":
    main()
