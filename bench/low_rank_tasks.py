"""Three networks of dense layers and the tasks that low_rank.py gives to `fit(x, y)`: nothing was chosen on them.

keras          scikit-learn's digits, Dense 128 and 64; then pale digits, upside down
wine           13 columns, 128 and 64 units; then the columns mixed by a rotation
transformer    two blocks of width 48 over 12 tokens: which of two motifs comes first; then tokens of another mixture
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

TOKENS, WIDTH = 12, 16
MOTIFS = ((0, 1), (1, 0), (2, 3), (3, 2))


@dataclass(frozen=True)
class Task:
    """A trained network, and the samples of another task: the first `learned` may be learned, the others are tested."""

    model: Any
    x: np.ndarray
    y: np.ndarray
    learned: int

    @property
    def example(self) -> Any:
        return torch.from_numpy(self.x[:1]) if isinstance(self.model, nn.Module) else None


def keras_net() -> Task:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras
    from sklearn.datasets import load_digits

    keras.utils.set_random_seed(0)
    x, y = _mixed(*load_digits(return_X_y=True))
    x = (x / 16).astype(np.float32)
    dense = keras.layers.Dense
    net = keras.Sequential([keras.Input((64,)), dense(128, activation="relu"), dense(64, activation="relu"), dense(10)])
    net.compile("adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    net.fit(x[:900], y[:900], epochs=15, verbose=0)
    pale = 0.7 * x[900:].reshape(-1, 8, 8)[:, ::-1].reshape(-1, 64) + 0.2
    return Task(keras.Model(net.inputs, net.outputs), np.clip(pale, 0, 1).astype(np.float32), y[900:], 200)


def wine_net() -> Task:
    from sklearn.datasets import load_wine

    x, y = load_wine(return_X_y=True)
    x, y = _mixed((x - x.mean(0)) / x.std(0), y)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 3))
    _train(net, x[:60].astype(np.float32), y[:60], epochs=300, batch=60, rate=3e-3)
    return Task(net.eval(), (x[60:] @ _rotation(13, 0)).astype(np.float32), y[60:], 59)


def transformer() -> Task:
    torch.manual_seed(0)
    net = Transformer(48)
    _train(net, *_sequences(3000, 0), epochs=12, batch=60, rate=2e-3)
    x, y = _sequences(900, 1)
    return Task(net.eval(), (0.6 * x + 0.48 * (x @ _rotation(WIDTH, 5))).astype(np.float32), y, 200)


TASKS: dict[str, Callable[[], Task]] = {"keras": keras_net, "wine": wine_net, "transformer": transformer}


def _mixed(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(0).permutation(len(x))
    return x[order], y[order]


def _rotation(width: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(width, width)))[0]


def _train(net: nn.Module, x: np.ndarray, y: np.ndarray, epochs: int, batch: int, rate: float) -> None:
    optimizer, xs, ys = torch.optim.Adam(net.parameters(), rate), torch.from_numpy(x), torch.from_numpy(y)
    for start in [i for _ in range(epochs) for i in range(0, len(xs), batch)]:
        optimizer.zero_grad()
        functional.cross_entropy(net(xs[start : start + batch]), ys[start : start + batch]).backward()
        optimizer.step()


def _sequences(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of four kinds at random; somewhere among them, a motif: its class."""
    rng, tokens = np.random.default_rng(seed), np.random.default_rng(7).normal(size=(8, WIDTH))
    y, x = rng.integers(0, len(MOTIFS), count), np.zeros((count, TOKENS, WIDTH))
    for i, label in enumerate(y):
        kinds, places = rng.integers(4, 8, TOKENS), sorted(rng.choice(TOKENS, 2, replace=False))
        kinds[places] = MOTIFS[label]
        x[i] = tokens[kinds] + 0.3 * rng.normal(size=(TOKENS, WIDTH))
    return x.astype(np.float32), y


class Block(nn.Module):
    """Four heads of attention and a wide layer, each behind a norm."""

    def __init__(self, width: int):
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.before(x)
        count, width = h.shape[1:]
        q, k, v = (f(h).reshape(-1, count, 4, width // 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + self.o(mixed.reshape(-1, count, width))
        return x + self.down(torch.relu(self.up(self.between(x))))


class Transformer(nn.Module):
    """Tokens with a learned place, two blocks, and the mean of all tokens."""

    def __init__(self, width: int):
        super().__init__()
        self.first, self.place = nn.Linear(WIDTH, width), nn.Parameter(0.3 * torch.randn(1, TOKENS, width))
        self.blocks, self.head = nn.Sequential(Block(width), Block(width)), nn.Linear(width, len(MOTIFS))

    def forward(self, x):
        return self.head(self.blocks(self.first(x) + self.place).mean(1))
