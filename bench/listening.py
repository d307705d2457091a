"""Logarithms or PCEN in front of the network that `insitu teach` makes for sounds: which is right more often?

    python -m bench.listening                a table: mean (least to most) over three seeds; about 20 minutes
    python -m bench.listening --only made    one of the sets: speech7, espeak, made

Three sets, learned quietly and tested quietly and in noise. speech7: 26 clips each of seven words, 420 of other
speakers for the test. espeak: eight words by voices of espeak-ng, others for the test; nothing about this network or
its features was chosen on them. made: steady tones, beeps, sirens, sweeps and noises of numpy; PCEN takes away what is
steady, so this is where it could lose. The network, its training and int8 are those of teach/teach.py.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.photos import folder
from insitu import pipeline
from insitu.data.sound import sound_samples
from insitu.demo.words import hummed
from insitu.learner.learned import learned_model
from insitu.teach.scratch import LISTENING, for_sounds
from insitu.teach.teach import SCHOOLS, SOUNDS
from insitu.terminal.table import table

SCALES = {"logarithms": "log", "PCEN": "pcen"}
BELOW = (None, 10.0, 0.0)  # dB: how far the hum is below the sounds; None: none
SPOKEN = ("apple", "kitchen", "window", "silver", "thunder", "follow", "seven", "lemon")
VOICES = ("en-gb", "en-us", "en-gb-scotland", "en-gb-x-rp", "en-029", "en-gb-x-gbcwmd")
VARIANTS = ("", "+m1", "+m3", "+m5", "+f1", "+f2", "+f4", "+croak")
LEARNED, TESTED = 26, 12  # of each class, for the sets that are made here
RATE = 16000


@dataclass(frozen=True, eq=False)
class Sounds:
    """int16[N, 50, 320, 1], and the class of each."""

    x: np.ndarray
    y: np.ndarray

    def in_noise(self, below: float | None) -> Sounds:
        if below is None:
            return self
        return Sounds(hummed(self.x.reshape(len(self.x), -1), 2, below).reshape(self.x.shape), self.y)


def speech7() -> tuple[Sounds, Sounds]:
    with np.load(folder("data") / "speech7.npz") as d:
        known, test = ((d[f"x_{p}"].reshape(-1, 50, 320, 1), d[f"y_{p}"].astype(np.int64)) for p in ("train", "test"))
    few = np.concatenate([np.flatnonzero(known[1] == c)[:LEARNED] for c in np.unique(known[1])])
    return Sounds(known[0][few], known[1][few]), Sounds(*test)


# espeak -------------------------------------------------------------------------------------------


def espeak() -> tuple[Sounds, Sounds]:
    """The last third of the voices is for the test alone."""
    voices = [a + b for b in VARIANTS for a in VOICES]
    np.random.default_rng(0).shuffle(voices)
    learned, tested = voices[: 2 * len(voices) // 3], voices[2 * len(voices) // 3 :]
    with tempfile.TemporaryDirectory() as folder:
        return _spoken(learned, LEARNED, 0, Path(folder)), _spoken(tested, TESTED, 1, Path(folder))


def _spoken(voices: list[str], each: int, seed: int, folder: Path) -> Sounds:
    rng, found, graph = np.random.default_rng(seed), [], LISTENING.graph()
    for word in SPOKEN:
        for k in range(each):
            speed, pitch = (str(int(n)) for n in (rng.integers(130, 200), rng.integers(30, 70)))
            command = ["espeak-ng", "-v", voices[k % len(voices)], "-s", speed, "-p", pitch, "-w", "said.wav", word]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
            found.append(_somewhere(sound_samples(folder / "said.wav", graph)[0], rng))
    return Sounds(np.stack(found), np.repeat(np.arange(len(SPOKEN)), each))


def _somewhere(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Another loudness and beginning; a faint noise, as every microphone has."""
    moved = np.roll(sound.reshape(-1).astype(np.float32), rng.integers(0, RATE // 5)) * rng.uniform(0.1, 0.8)
    return np.rint(moved + 20 * rng.standard_normal(len(moved))).astype(np.int16).reshape(sound.shape)


# made ---------------------------------------------------------------------------------------------


def tone(low: float, high: float) -> Callable:
    """A steady tone from this range, with two overtones."""
    return lambda t, rng: sum(np.sin(2 * np.pi * k * rng.uniform(low, high) * t) / k for k in (1, 2, 3))


def beeps(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.sin(2 * np.pi * rng.uniform(600, 1200) * t) * (np.sin(2 * np.pi * rng.uniform(3, 6) * t) > 0)


def sweep(sign: int) -> Callable:
    def run(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        first, last = sorted((rng.uniform(300, 600), rng.uniform(1200, 2400)))[::sign]
        return np.sin(2 * np.pi * np.cumsum(first + (last - first) * t) / RATE)

    return run


def siren(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.sin(2 * np.pi * np.cumsum(900 + 300 * np.sin(2 * np.pi * rng.uniform(2, 4) * t)) / RATE)


def knocks(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    since = t % rng.uniform(0.15, 0.4)
    return np.exp(-60 * since) * rng.standard_normal(len(t))


def hiss(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.diff(rng.standard_normal(len(t) + 1)) * rng.uniform(0.5, 1)


MADE = (tone(180, 260), tone(500, 700), beeps, sweep(1), sweep(-1), siren, knocks, hiss)


def made() -> tuple[Sounds, Sounds]:
    return _made(LEARNED, 0), _made(TESTED, 1)


def _made(each: int, seed: int) -> Sounds:
    rng, t = np.random.default_rng(seed), np.arange(RATE) / RATE
    rows = []
    for make in MADE:
        for _ in range(each):
            sound = make(t, rng)
            loud = rng.uniform(1000, 12000) / np.abs(sound).max()
            rows.append(sound * loud + 20 * rng.standard_normal(RATE))
    x = np.rint(np.stack(rows)).astype(np.int16).reshape(-1, 50, 320, 1)
    return Sounds(x, np.repeat(np.arange(len(MADE)), each))


# both scales --------------------------------------------------------------------------------------


def taught(known: Sounds, scale: str, seed: int):
    """An int8 learner, as teach makes it."""
    way, names = SCHOOLS[SOUNDS], [str(k) for k in range(int(known.y.max()) + 1)]
    graph = for_sounds(known.x, len(names), seed, replace(LISTENING, scale=scale))
    data = (known.x, known.y)
    school = pipeline.compile(graph, classes=names, precision="float", scheme="full", data=data, head_init="uniform",
                              seed=seed, **way.options(len(known.y)))  # fmt: skip
    school.fit(*data, seed=seed, **way.course(len(known.y)))
    learner = pipeline.compile(learned_model(school), data=data, scheme="head", seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.fit(*data, seed=seed)
    return learner


def rows(name: str, parts: tuple[Sounds, Sounds], seeds: int) -> list[tuple[str, ...]]:
    found = []
    for title, scale in SCALES.items():
        learners = [taught(parts[0], scale, seed) for seed in range(seeds)]
        cells = []
        for below in BELOW:
            test = parts[1].in_noise(below)
            right = [100 * learner.evaluate(test.x, test.y)["accuracy"] for learner in learners]
            cells.append(f"{np.mean(right):.1f} ({min(right):.1f} to {max(right):.1f})")
        found.append((name, title, *cells))
        print(*found[-1], file=sys.stderr, flush=True)
    return found


SETS = {"speech7": speech7, "espeak": espeak, "made": made}


def main() -> int:
    parser = argparse.ArgumentParser(description="logarithms or PCEN for the sounds of insitu teach")
    parser.add_argument("--only", choices=SETS)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    heads = ["quiet" if b is None else f"hum {b:.0f} dB below" for b in BELOW]
    lines = [r for name in ([given.only] if given.only else SETS) for r in rows(name, SETS[name](), given.seeds)]
    print(table(("right, %", "bands", *heads), lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
