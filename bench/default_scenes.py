"""Made-up data of default_domains.py: heartbeats, bearings, radio, radar, icons, birds, gestures, weather and an arm.

Each function gives samples and labels (or targets); `other` says whether they are as a network has not met them.
Random choices depend only on the seed; what makes up a kind is drawn from seeds of its own.
"""

from __future__ import annotations

import numpy as np

Pair = tuple[np.ndarray, np.ndarray]


def paired(found: list, labels: list) -> Pair:
    return np.asarray(found, np.float32), np.asarray(labels, np.int64)


def bump(t: np.ndarray, at: float, wide: float) -> np.ndarray:
    return np.exp(-(((t - at) / wide) ** 2))


# signals ------------------------------------------------------------------------------------------

WAVES = {  # of a beat: (where, how wide, how high) of its P, Q, R, S and T
    0: ((-20, 5, 0.18), (-4, 1.6, -0.2), (0, 2.0, 1.2), (4, 1.8, -0.3), (24, 8, 0.35)),  # usual
    1: ((-20, 5, 0.0), (-5, 4.0, -0.1), (0, 6.0, 1.1), (10, 6.0, -0.5), (28, 9, -0.3)),  # from a ventricle
    2: ((-13, 4, 0.22), (-4, 1.6, -0.2), (0, 2.0, 1.1), (4, 1.8, -0.3), (23, 8, 0.3)),  # an early atrium
    3: ((-20, 5, 0.18), (-4, 1.8, -0.4), (0, 2.0, 0.9), (11, 7.0, 0.35), (24, 9, 0.45)),  # raised after R
    4: ((-20, 5, 0.15), (-4, 1.6, -0.1), (0, 3.0, 0.8), (6, 3.0, 0.5), (26, 9, -0.25)),  # a blocked bundle
}


def beats(each: int, seed: int, other: bool = True) -> Pair:
    """A heartbeat in 96 readings; another lead sees its waves in other sizes, and the baseline wanders."""
    rng, t, found, labels = np.random.default_rng(seed), np.arange(96), [], []
    sizes = np.array([0.7, -1.5, -0.6, 1.6, 0.8]) if other else np.ones(5)
    for kind, waves in WAVES.items():
        for _ in range(each):
            middle, pace = 44 + rng.normal(0, 3), rng.uniform(0.88, 1.14)
            wave = sum(size * high * rng.uniform(0.75, 1.25) * bump(t, middle + pace * at, pace * wide)
                       for size, (at, wide, high) in zip(sizes, waves))  # fmt: skip
            wander = rng.normal(0, 0.25 if other else 0.1) * np.sin(t / rng.uniform(15, 40) + rng.uniform(0, 6))
            found.append(rng.uniform(0.8, 1.25) * wave + wander + rng.normal(0, 0.12, 96))
            labels.append(kind)
    x, y = paired(found, labels)
    return x[:, None], y


def bearings(each: int, seed: int, other: bool = True) -> Pair:
    """Two axes of a machine in 128 readings: sound, or a fault of a ring, the other ring, a ball, or out of balance.

    Another load turns slower, rings at another pitch and is noisier.
    """
    rng, t, found, labels = np.random.default_rng(seed), np.arange(128), [], []
    pitch, fading, noise, slow = (1.15, 7.0, 0.5, 0.8) if other else (0.75, 4.0, 0.35, 1.0)
    rhythms, shares = (0.0, 3.6, 5.4, 2.4, 0.0), ((1, 1), (1, 0.4), (0.5, 1), (0.8, 0.8), (1, 1))
    for kind in range(5):
        for _ in range(each):
            turn = slow * rng.uniform(0.055, 0.07) * t / 2 + rng.uniform(0, 1)  # turns of the shaft
            shaft = (1.1 if kind == 4 else 0.35) * rng.uniform(0.7, 1.3) * np.sin(2 * np.pi * turn)
            hits = np.zeros(128)
            if rhythms[kind]:
                struck = np.diff(np.floor(rhythms[kind] * turn), prepend=np.floor(rhythms[kind] * turn[0]))
                load = 1 + 0.6 * np.sin(2 * np.pi * turn) if kind == 1 else np.ones(128)
                hits = struck * load * rng.uniform(1.0, 2.0)
            ringing = np.convolve(hits, np.exp(-t[:30] / fading) * np.sin(pitch * rng.uniform(0.95, 1.05) * t[:30]))[
                :128
            ]
            axes = [share * ringing + own * shaft for share, own in zip(shares[kind], (1.0, 0.6))]
            found.append(np.stack(axes) + rng.normal(0, noise, (2, 128)))
            labels.append(kind)
    return paired(found, labels)


def modulations(each: int, seed: int, other: bool = True) -> Pair:
    """Six ways to modulate a carrier, as 64 complex readings; another channel echoes, drifts and is noisier."""
    rng, found, labels = np.random.default_rng(seed), [], []
    points = [np.exp(2j * np.pi * np.arange(n) / n) for n in (2, 4, 8)]
    square = np.array([-3, -1, 1, 3]) / np.sqrt(10)
    points.append((square[:, None] + 1j * square).ravel())
    for kind in range(6):
        for _ in range(each):
            if kind < 4:  # phases and squares, four readings per symbol
                wave = np.convolve(np.repeat(rng.choice(points[kind], 18), 4), np.ones(3) / 3, "same")[4:68]
            elif kind == 4:  # two frequencies
                wave = np.exp(1j * np.cumsum(np.repeat(rng.choice([-0.35, 0.35], 16), 4)))
            else:  # loudness
                wave = 0.6 + 0.5 * np.sin(2 * np.pi * rng.uniform(0.02, 0.08) * np.arange(64) + rng.uniform(0, 6))
            wave = wave * np.exp(1j * rng.uniform(-0.2, 0.2))
            if other:
                wave = wave + 0.35j * np.roll(wave, 3)
                wave = wave * np.exp(1j * (0.5 + rng.uniform(0.005, 0.02) * np.arange(64)))
            noise = rng.normal(0, 0.2 if other else 0.12, (2, 64))
            found.append(np.stack([wave.real, wave.imag]) + noise)
            labels.append(kind)
    return paired(found, labels)


def touches(each: int, seed: int) -> Pair:
    """Eight gestures on a touch pad, as 40 places of a finger, each at its own pace, size and angle."""
    rng, found, labels = np.random.default_rng(seed), [], []
    s = np.linspace(0, 1, 40)
    saw = 2 * np.abs((2 * s) % 1 - 0.5)
    paths = [np.exp(2j * np.pi * s), np.exp(-2j * np.pi * s), 2 * s - 1 + 0j, 2 * s - 1 + 1j * saw,
             np.where(s < 0.5, 2 * s, 1 + 1j * (2 * s - 1)), 2 * s - 1 + 0.6j * np.sin(2 * np.pi * s),
             np.sin(2 * np.pi * s) + 0.5j * np.sin(4 * np.pi * s), s * np.exp(4j * np.pi * s)]  # fmt: skip
    for kind, path in enumerate(paths):
        for _ in range(each):
            at = s ** rng.uniform(0.7, 1.4)
            made = np.interp(at, s, path.real) + 1j * np.interp(at, s, path.imag)
            made = rng.uniform(0.6, 1.3) * np.exp(1j * rng.normal(0, 0.35)) * made + complex(*rng.normal(0, 0.3, 2))
            shaken = np.cumsum(rng.normal(0, 0.04, (2, 40)), 1) + rng.normal(0, 0.06, (2, 40))
            found.append(np.stack([made.real, made.imag]) + shaken)
            labels.append(kind)
    return paired(found, labels)


# pictures -----------------------------------------------------------------------------------------


def radar(each: int, seed: int, other: bool = True) -> Pair:
    """Six gestures as 14 speeds over 20 moments; another radar has fewer speeds in view, clutter, and another floor."""
    rng, t, v, found, labels = np.random.default_rng(seed), np.arange(20), np.arange(14)[:, None], [], []
    paths = (lambda u: np.sin(u), lambda u: -np.sin(u), lambda u: np.sin(2 * u), lambda u: np.abs(np.sin(2 * u)),
             lambda u: -np.abs(np.sin(u)), lambda u: np.sign(np.sin(2 * u)) * 0.6)  # fmt: skip
    for kind, path in enumerate(paths):
        for _ in range(each):
            u = np.clip((t - rng.uniform(0, 4)) / rng.uniform(12, 16), 0, 1) * 2 * np.pi
            middle = 6.5 + rng.uniform(3.5, 5.5) * (0.6 if other else 1.0) * path(u)
            power = rng.uniform(1, 3) * np.exp(-((v - middle) ** 2) / (1.6 if other else 0.9))
            power = power + (1.5 * np.exp(-((v - 6.5) ** 2)) if other else 0)
            floor = np.log(0.15 if other else 0.05) * 0.4
            found.append(np.log(power + (0.15 if other else 0.05) * rng.exponential(size=(14, 20))) / 2 - floor)
            labels.append(kind)
    x, y = paired(found, labels)
    return x[:, None], y


def birds(each: int, seed: int) -> Pair:
    """Seven birds as 20 bands over 30 moments: each has notes of its own, sung at any time, with wind."""
    rng, t, band, found, labels = np.random.default_rng(seed), np.arange(30), np.arange(20)[:, None], [], []
    for kind in range(7):
        own = np.random.default_rng((41, kind))
        notes = [(own.uniform(5, 17), own.uniform(-1.2, 1.2), own.uniform(2, 5), own.uniform(1, 3)) for _ in range(3)]
        for _ in range(each):
            power, at, higher = np.zeros((20, 30)), rng.uniform(1, 7), rng.normal(0, 0.7)
            for start, slope, long, rest in notes:
                since = t - at
                sung = (since >= 0) & (since < long)
                power += sung * rng.uniform(0.6, 1.6) * np.exp(-((band - start - higher - slope * since) ** 2))
                at += long + rest * rng.uniform(0.8, 1.3)
            wind = 0.5 * np.exp(-band / 4) * rng.uniform(0.2, 1.5)
            found.append(np.log(power + (0.12 + wind) * rng.exponential(size=(20, 30))) / 2 + 0.8)
            labels.append(kind)
    x, y = paired(found, labels)
    return x[:, None], y


SIDES = {"circle": 24, "triangle": 3, "square": 4, "pentagon": 5}


def corners(kind: int) -> np.ndarray:
    """The corners of an icon around 0: four polygons, a star, a cross, a moon and a bolt."""
    if kind < 4:
        count = tuple(SIDES.values())[kind]
        return np.exp(2j * np.pi * (np.arange(count) / count - 0.25))
    if kind == 4:
        return np.tile([1, 0.42], 5) * np.exp(2j * np.pi * (np.arange(10) / 10 - 0.25))
    if kind == 5:
        arm = np.array([0.3 + 1j, 0.3 + 0.3j, 1 + 0.3j])
        return np.concatenate([arm * (-1j) ** k for k in range(4)])
    if kind == 6:
        outer, inner = (np.exp(1j * np.linspace(a, b, 12)) for a, b in ((0.9, 5.4), (5.0, 1.3)))
        return np.concatenate([outer, 0.75 * inner + 0.35])
    return np.array([0.3 - 1j, -0.7 + 0.2j, -0.05 + 0.2j, -0.35 + 1j, 0.75 - 0.25j, 0.05 - 0.25j])


def icons(each: int, seed: int, other: bool = True) -> Pair:
    """Eight icons of 20 x 20: dark and filled on a light ground, or outlined in any colour on a coarse pattern."""
    from PIL import Image, ImageDraw

    rng, found, labels = np.random.default_rng(seed), [], []
    for kind in range(8):
        for _ in range(each):
            middle = complex(*rng.uniform(34, 46, 2))
            at = rng.uniform(17, 28) * corners(kind) * np.exp(1j * rng.normal(0, 0.2)) + middle
            ground = rng.uniform(0.6, 1.0, (5, 5, 3)) if other else np.ones((5, 5, 3)) * rng.uniform(0.7, 1.0, 3)
            colour = rng.uniform(0, 0.65, 3) if other else rng.uniform(0, 0.3, 3)
            mask = Image.new("L", (80, 80))
            dots = [(float(p.real), float(p.imag)) for p in at]
            if other:
                ImageDraw.Draw(mask).line([*dots, dots[0], dots[1]], fill=255, width=6)
            else:
                ImageDraw.Draw(mask).polygon(dots, fill=255)
            part = np.asarray(mask.resize((20, 20), Image.Resampling.BOX), np.float64)[..., None] / 255
            picture = (1 - part) * np.kron(ground, np.ones((4, 4, 1))) + part * colour
            found.append((2 * picture - 1 + rng.normal(0, 0.08, (20, 20, 3))).transpose(2, 0, 1))
            labels.append(kind)
    return paired(found, labels)


# tables -------------------------------------------------------------------------------------------


def weather(count: int, seed: int, other: bool = True) -> Pair:
    """What nine readings of a station say about the next hour: fair, cloud, fog, rain or storm.

    Elsewhere it is warmer, higher up and windier, and the gauges have other scales.
    """
    rng = np.random.default_rng(seed)
    front, damp, heat, season = rng.normal(size=(4, count))
    wind = np.exp(0.5 * rng.normal(size=count) + 0.5 * front)
    scores = np.stack([0.8 * heat - damp - 0.3 * front, 0.4 * damp + 0.3, 1.4 * damp - 0.9 * heat - 0.9 * wind,
                       damp + 0.9 * front - 0.3, 1.3 * front + 0.7 * wind + 0.6 * heat - 1.6])  # fmt: skip
    y = np.argmax(1.6 * scores + 0.35 * rng.gumbel(size=scores.shape), 0)
    warm, cold = 12 + 8 * season + 5 * heat, 3 * damp - 2 * heat
    x = np.stack([warm, warm - 4 + cold, 1013 - 9 * front, -3 * front + rng.normal(0, 1, count),
                  60 + 17 * damp - 6 * heat, 4 * wind, 6 * wind + rng.gamma(1.0, 1.5, count),
                  400 + 150 * heat - 120 * damp, 10 * np.exp(-damp)])  # fmt: skip
    x = x + 0.15 * x.std(1, keepdims=True) * rng.normal(size=x.shape)
    if other:
        scale = np.array([1.0, 1.1, 1.0, 1.6, 0.8, 1.7, 1.4, 0.6, 1.5])[:, None]
        x = x * scale + np.array([7, 6, -14, 0.5, 2, 1, 0, 60, 2])[:, None]
    usual, spread = [12, 8, 1013, 0, 60, 5, 9, 400, 16], [9.5, 10, 9, 3.2, 18, 4, 5, 190, 15]
    return ((x.T - usual) / spread).astype(np.float32), y.astype(np.int64)


def arm(count: int, seed: int, other: bool = True) -> Pair:
    """Where the hand of a robot is, from the sines and cosines of three joints and the load that bends it.

    After a repair two joints have another zero, and the last link is longer.
    """
    rng = np.random.default_rng(seed)
    angles, load = rng.uniform(-1.3, 1.3, (count, 3)), rng.uniform(0, 1, count)
    zero, length = (np.array([0.0, 0.4, -0.5]), 0.75) if other else (np.zeros(3), 0.5)
    turned = np.cumsum(angles + zero, 1) - 0.15 * load[:, None] * np.arange(1, 4)
    place = (np.array([1.0, 0.8, length]) * np.exp(1j * turned)).sum(1)
    x = np.concatenate([np.sin(angles), np.cos(angles), load[:, None]], 1) + rng.normal(0, 0.02, (count, 7))
    y = np.stack([(place.real - 0.9) / 0.6, place.imag / 1.1], 1) + rng.normal(0, 0.03, (count, 2))
    return (2 * x).astype(np.float32), y.astype(np.float32)
