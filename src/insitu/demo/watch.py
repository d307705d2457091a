"""Smartwatch motion as the demo uses it: windows of exercises, by wearer, and which of them a watch may learn from.

The data comes with the package seglearn: ten people, seven shoulder exercises, each done once with each arm, six
channels (three of acceleration, three of rotation) at 50 Hz. Nothing here is random. networks/ has one network per
wearer, trained without that wearer (scripts/train_watch.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from insitu.errors import DataError, needs

NETWORKS = Path(__file__).parent / "networks"
WEARER = 5  # the wearer the demo shows
WEARERS = tuple(range(1, 11))
EXERCISES = (
    "pendulum", "abduction", "elevation", "internal rotation", "external rotation", "trapezius", "row",
)  # fmt: skip
WINDOW, STEP = 128, 64  # 2.56 s, one every 1.28 s
LEARNED = 4  # windows at the start of each recording that a wearer labels; the rest is for the test

# the typical magnitude of each channel over all recordings (g, rad/s), rounded: the same for all wearers and networks
CENTRE = np.array([0, 0.4, -0.15, 0, 0, 0], np.float32)
SPREAD = np.array([0.9, 0.5, 0.5, 1.0, 2.5, 1.0], np.float32)


@dataclass(frozen=True, eq=False)
class Windows:
    """Labelled windows, in the order in which they were recorded."""

    x: np.ndarray  # float32[N, 1, 128, 6]
    y: np.ndarray  # int64[N], the exercise
    arm: np.ndarray  # int64[N], 0 left, 1 right

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Wearer:
    """One person: the windows the watch may learn from, and those it is tested on."""

    number: int
    learn: Windows  # the first four windows of each of the 14 recordings
    test: Windows  # the windows after those, none of which shares a reading with them


def wearer(number: int) -> Wearer:
    if number not in WEARERS:
        raise DataError(f"there is no wearer {number}", hint=f"{WEARERS[0]} to {WEARERS[-1]}")
    found = recordings()[number]
    return Wearer(number, joined([r.part(0, LEARNED) for r in found]), joined([r.part(LEARNED + 1) for r in found]))


def network(number: int) -> Path:
    """The network that was trained on everybody except this wearer."""
    return NETWORKS / f"wearer-{number:02d}.onnx"


def others(number: int) -> Windows:
    """Every window of everybody else."""
    return joined([r.part(0) for n in WEARERS if n != number for r in recordings()[n]])


def joined(parts: list[Windows]) -> Windows:
    return Windows(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("x", "y", "arm")))


@dataclass(frozen=True, eq=False)
class Recording:
    """One exercise, done several times with one arm."""

    x: np.ndarray  # float32[readings, 6]
    exercise: int
    arm: int

    def part(self, first: int, end: int | None = None, late: int = 0) -> Windows:
        """Windows number first to end - 1; so many readings later than usual."""
        starts = range(late, len(self.x) - WINDOW + 1, STEP)[first:end]
        x = np.stack([self.x[s : s + WINDOW] for s in starts])[:, None]
        return Windows(x, np.full(len(x), self.exercise), np.full(len(x), self.arm))


@cache
def recordings() -> dict[int, tuple[Recording, ...]]:
    """By wearer: 14 recordings, ordered by exercise and arm."""
    data = _load()
    found = {n: [] for n in WEARERS}
    for x, y, arm, subject in zip(data["X"], data["y"], data["side"], data["subject"]):
        scaled = (np.asarray(x, np.float32) - CENTRE) / SPREAD
        found[int(subject)].append(Recording(scaled, int(y), int(arm)))
    return {n: tuple(sorted(r, key=lambda r: (r.exercise, r.arm))) for n, r in found.items()}


def _load() -> dict:
    try:
        from seglearn.datasets import load_watch
    except ImportError as e:
        raise needs(e.name or "seglearn", "demo", "the smartwatch data of the demo") from None
    return load_watch()
