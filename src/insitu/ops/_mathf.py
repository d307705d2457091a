"""numpy twins of functions in c/numbers/mathf.h: the same float32 operations in the same order, so the same bits."""

from __future__ import annotations

import numpy as np

F = np.float32
ROUND = F(12582912.0)  # 1.5 * 2^23: adding it leaves the nearest integer in the low bits
EXP = tuple(map(F, (1.381459638e-3, 8.368717091e-3, 4.166838809e-2, 1.666652063e-1, 4.999999345e-1)))


def expf(x: np.ndarray) -> np.ndarray:
    """e^x in float32, as `insitu_expf` computes it."""
    x = np.clip(np.asarray(x, F), F(-104.0), F(89.0))
    t = x * F(1.44269504) + ROUND
    n = t.view(np.int32) - ROUND.view(np.int32)
    k = t - ROUND
    r = (x - k * F(0.693359375)) - k * F(-2.12194440e-4)
    p = EXP[0] * r
    for c in EXP[1:-1]:
        p = (p + c) * r
    p = r + r * r * (p + EXP[-1])
    half = n >> 1
    with np.errstate(over="ignore", under="ignore"):
        return (F(1.0) + p) * _pow2(half) * _pow2(n - half)


def _pow2(n: np.ndarray) -> np.ndarray:
    return ((n + 127).astype(np.uint32) << np.uint32(23)).view(F)


def top_two(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two largest softmax probabilities of each row, in float32; the second of a single class is 0.

    The exponentials are added in the order of the classes, each as e^(z - the largest).
    """
    z = np.asarray(logits, F).reshape(len(logits), -1)
    e = expf(z - z.max(1, keepdims=True))
    total = np.add.accumulate(e, 1)[:, -1]
    best = np.sort(e, 1)[:, ::-1][:, :2]
    second = best[:, 1] if best.shape[1] > 1 else np.zeros(len(z), F)
    return best[:, 0] / total, second / total
