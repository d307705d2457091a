"""The rates of deploy/estimate.py for what stands in front of a network: sound, motion, camera formats.

    python -m bench.front_rates         a table of estimates and exact counts, then the rates

Programs with fronts of several sizes are linked and counted on emulated cores, one with the DSP extension and one
without. Half of each kind's fronts make the rates; all are in the table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import insitu
from bench.rates import by_layer, fit
from insitu.deploy import deploy, limits_of
from insitu.deploy.cost import count
from insitu.deploy.estimate import DSP, FRONTS, PLAIN, Rate, Work, instructions, kind_of
from insitu.terminal.table import table

BOARDS = {"DSP": "nrf52840", "PLAIN": "rp2040"}
Front = insitu.Audio | insitu.Motion | insitu.Transform
SOUNDS = (
    insitu.Audio(),
    insitu.Audio(coefficients=None, window_ms=25, hop_ms=10, bands=32, high=7600.0, seconds=0.5),
    insitu.Audio(coefficients=None, scale="pcen"),
    insitu.Audio(rate=8000, seconds=0.6, bands=20, high=3800.0, coefficients=8),
    insitu.Audio(window_ms=60, hop_ms=30, bands=64, high=7600.0, coefficients=13),
    insitu.Audio(coefficients=None, scale="pcen", window_ms=25, hop_ms=10, bands=32, high=7600.0, seconds=0.4),
    insitu.Audio(coefficients=None, rate=8000, scale="pcen", seconds=0.5, bands=16, high=3000.0),
)
MOTIONS = tuple(
    (insitu.Motion(highpass=0.5, taps=taps, mean=(0.1,) * channels, std=(2.0,) * channels), times, channels)
    for taps, times, channels in ((25, 64, 3), (25, 100, 6), (9, 50, 3), (51, 40, 1))
)
CAMERAS = tuple(
    (insitu.Transform(0.5, 0.25, format=name), size)
    for name, size in (("rgb565", 24), ("yuyv", 32), ("nv12", 32), ("i420", 24), ("bgr", 16), ("rgb", 40), ("uyvy", 20))
)  # fmt: skip


def small(channels: int) -> nn.Module:
    torch.manual_seed(0)
    first = nn.Conv2d(channels, 4, 3, 2, padding=1)
    return nn.Sequential(first, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)).eval()


def fronts() -> Iterator[tuple[str, Front, nn.Module, tuple[int, ...]]]:
    for audio in SOUNDS:
        scale = "mfcc" if audio.coefficients else audio.scale
        name = f"sound {audio.rate // 1000} kHz {audio.window}/{audio.hop}, {scale} {audio.features}"
        yield name, audio, small(1), (1, 1, audio.frames, audio.features)
    for motion, times, channels in MOTIONS:
        yield f"motion {times}x{channels}, {motion.taps} taps", motion, small(1), (1, 1, times, channels)
    for camera, size in CAMERAS:
        yield f"camera {camera.format} {size}x{size}", camera, small(3), (1, 3, size, size)


def some(front: Front, example: tuple[int, ...]) -> np.ndarray:
    """Samples to calibrate with."""
    rng = np.random.default_rng(0)
    if isinstance(front, insitu.Audio):
        return rng.integers(-9000, 9000, (8, *front.input.shape[1:])).astype(np.int16)
    if isinstance(front, insitu.Motion):
        times, channels = example[2:]
        return rng.normal(size=(8, times + front.taps - 1, channels)).astype(np.float32)
    rows, width = example[2:]
    shapes = {"rgb": (rows, width, 3), "bgr": (rows, width, 3), "nv12": (rows * 3 // 2, width, 1)}
    shape = {**shapes, "i420": shapes["nv12"]}.get(front.format, (rows, width, 2))
    return rng.integers(0, 256, (8, *shape)).astype(np.uint8)


@dataclass(frozen=True)
class Counted:
    label: str
    work: dict[str, list[Work]]  # of each layer
    found: dict[str, int]  # its instructions


def counted(board: str) -> list[Counted]:
    """A prediction with every front, as it is planned by default and with the least memory."""
    made = []
    for label, front, net, example in fronts():
        exported = torch.export.export(net, (torch.zeros(example),))
        learner = insitu.compile(exported, transform=front, data=some(front, example), scheme="head", classes=3)
        for prefer, words in (("balance", ""), ("memory", ", row by row")):
            deployed = deploy(learner.graphs, limits_of(board, None, None, prefer))
            work = by_layer(deployed.program, "predict")
            assert deployed.firmware is not None  # these boards have an emulator
            made.append(Counted(label + words, work, count(deployed.firmware)["predict"]))
    return made


def of_fronts(each: Counted) -> Iterator[tuple[str, list[Work], int]]:
    for layer, real in each.found.items():
        works = each.work.get(layer, [])
        if works and kind_of(works[0].kernel) in FRONTS:
            yield kind_of(works[0].kernel), works, real


def is_fitted(i: int) -> bool:
    return i % 4 < 2  # a front makes two programs


def fitted(all_counted: list[Counted]) -> dict[str, Rate]:
    """From every second front, as it is and with the least memory."""
    halves = []
    for i, each in enumerate(all_counted):
        if is_fitted(i):
            named = {str(k): found for k, found in enumerate(of_fronts(each))}
            work = {k: works for k, (_, works, _) in named.items()}
            halves.append((work, {k: real for k, (_, _, real) in named.items()}))
    return fit(halves)


def main() -> int:
    for name, old in (("DSP", DSP), ("PLAIN", PLAIN)):
        found = counted(BOARDS[name])
        new = fitted(found)
        lines = []
        for i, each in enumerate(found):
            for kind, works, real in of_fronts(each):
                guesses = (instructions(works, old), instructions(works, {**old, **new}))
                lines.append((kind, each.label, "yes" if is_fitted(i) else "", real, *map(round, guesses)))
        print(table(("kernel", "front", "fitted", "counted", "estimate", "with these rates"), sorted(lines)))
        print(f"{name} = {{")
        for kind, rate in new.items():
            print(f'    "{kind}": Rate({", ".join(f"{value:g}" for value in vars(rate).values())}),')
        print("}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
