"""Float fine-tuning of a whole network on photos, next to int8 sparse updates of the same one (found.py).

    python -m bench.float_tuning                 rates on halves of the training photos, then the test photos
    python -m bench.float_tuning --scheme last:12

The int8 checkpoint is dequantised (exporters/real.py), gets a head of zeros, and all of its layers learn in float, with
the photos, views, order, epochs, clip and schedule of found.py, one photo per update. Results go into found.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench import photos
from bench.found import FILE, RECIPES, Setting, best_rate, read, write
from bench.photos import SOURCES, TESTS, Photos
from bench.transfer import MODEL, Run, as_input, checkpoint, halves, opened, rates_of, scheme_of
from insitu.devices.device import Updates
from insitu.devices.host import HostDevice
from insitu.exporters.real import real_graph
from insitu.importers.checkpoint.read import read_checkpoint
from insitu.training.head import replace_head
from insitu.training.train import Recipe, train_graphs

RATES = (0.05, 0.1)
PART = 256  # photos that are decoded at once


def device_of(run: Run) -> HostDevice:
    graph = real_graph(read_checkpoint(checkpoint(run.model)))
    graph = replace_head(graph, SOURCES[run.data].classes, after=run.features, init=run.head_init, seed=run.seed)
    recipe = Recipe(clip=run.clip, smoothing=run.smoothing, seed=run.seed)
    return opened(**train_graphs(graph, scheme_of(run.scheme, graph), recipe))


def tuned(run: Run) -> dict:
    """Train; the accuracy on the test photos, or on views of the held-out half."""
    began, device = time.perf_counter(), device_of(run)
    train, tests = photos.read(run.data)
    learned, held = halves(train.labels) if run.choosing else (np.arange(len(train)), None)
    loss = 0.0
    for epoch in range(run.epochs or 0):
        loss = epoch_of(run, device, train, learned, epoch)
    if held is None:
        scores = {k: accuracy(device, tests, range(len(tests)), view) for k, view in TESTS.items()}
    else:
        drawn = lambda image: photos.random_view(image, np.random.default_rng(0))  # noqa: E731
        scores = {"held": accuracy(device, train, held, drawn)}
    return {**scores, "loss": loss, "seconds": round(time.perf_counter() - began, 1)}


def epoch_of(run: Run, device: HostDevice, train: Photos, learned: np.ndarray, epoch: int) -> float:
    order = learned[np.random.default_rng((run.seed, epoch)).permutation(len(learned))]
    rates, losses = rates_of(run, epoch, run.epochs or 0, len(order)), []
    for at in range(0, len(order), PART):
        some = order[at : at + PART]
        views = [photos.random_view(train.image(i), np.random.default_rng((0, int(i), epoch))) for i in some]
        arrays = as_input(np.stack(views)), train.labels[some]
        found = device.train(Updates(arrays, range(len(some)), rates[at : at + PART], 1, threads=1))
        losses.append(found.losses)
    return float(np.concatenate(losses).mean(dtype=np.float64))


def accuracy(device: HostDevice, found: Photos, chosen, view) -> float:
    right = 0
    for at in range(0, len(chosen), PART):
        some = [int(i) for i in chosen[at : at + PART]]
        (logits,) = device.run("predict", as_input(np.stack([view(found.image(i)) for i in some])))
        right += int((logits.argmax(1) == found.labels[some]).sum())
    return round(100 * right / len(chosen), 2)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scheme", default="full")
    parser.add_argument("--recipe", choices=RECIPES, default="8")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--file", type=Path, default=FILE)
    options = parser.parse_args(argv)
    known, first = read(options.file), Setting(MODEL, "flowers", options.recipe, f"float {options.scheme}")
    settings = [replace(first, rate=rate, choosing=True) for rate in options.rates]
    for setting in settings:
        fill(known, setting, options)
    for seed in options.seeds:
        fill(known, replace(first, rate=best_rate(known, first) or 0.0, seed=seed), options)
    return 0


def fill(known: dict, setting: Setting, options) -> None:
    if setting.key not in known["runs"]:
        known["runs"][setting.key] = tuned(replace(setting.run, scheme=options.scheme))
        print(setting.key, known["runs"][setting.key], file=sys.stderr, flush=True)
        write(options.file, known)


if __name__ == "__main__":
    sys.exit(main())
