"""Does PCEN help in noise? One small network over two scales of the same mel bands, taught on quiet words.

    python -m bench.pcen                     a table: mean (least to most) over three seeds, in about two minutes
    INSITU_TEST_FILES=DIR ...                where the words are (bench/photos.py)

Seven words of Speech Commands: 1,400 clips to teach, 420 of other speakers for the test, as recorded and with the hum
of the demo at several distances below the words. The features are those of the generated C. The network (torch, float)
has three separable convolutions and a mean; features are normalised by the mean and spread over the 1,400 clips. PCEN
has its published numbers (Wang et al., 2017); nothing here was chosen by results.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import nn

from bench.photos import folder
from insitu import Audio
from insitu.demo.words import hummed
from insitu.devices.host import open_host
from insitu.terminal.table import table

SCALES = {"logarithms": "log", "PCEN": "pcen"}
BELOW = (None, 10.0, 5.0, 0.0)  # dB: how far the hum is below the words; None: as recorded
SEEDS, EPOCHS, BATCH = 3, 25, 50


def features(scale: str, x: np.ndarray) -> torch.Tensor:
    """[clips, 1, frames, bands]."""
    audio = Audio(coefficients=None, high=7600.0, scale=scale)
    made = open_host(audio.graph()).predict(x.reshape(-1, *audio.input.shape[1:]))
    return torch.tensor(np.asarray(made).transpose(0, 3, 1, 2))


def network(classes: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(1, 32, (5, 5), 2, 2), nn.BatchNorm2d(32), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 32, 1), nn.BatchNorm2d(32), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes))


def taught(x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    net = network(int(y.max()) + 1).train()
    steps = EPOCHS * len(x) // BATCH
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for chosen in (torch.randperm(len(x)) for _ in range(EPOCHS)):
        for part in chosen.split(BATCH):
            loss = nn.functional.cross_entropy(net(x[part]), y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def scores(scale: str) -> list[str]:
    """Accuracy on the test words at each distance, over all seeds."""
    with np.load(folder("data") / "speech7.npz") as d:
        x, test, y, y_test = (d[k] for k in ("x_train", "x_test", "y_train", "y_test"))
    known, labels = features(scale, x), torch.tensor(y, dtype=torch.long)
    mean, std = known.mean((0, 2), keepdim=True), known.std()
    nets = [taught((known - mean) / std, labels, seed) for seed in range(SEEDS)]
    found = []
    for below in BELOW:
        heard = (features(scale, test if below is None else hummed(test, 2, below)) - mean) / std
        with torch.no_grad():
            right = [100 * float((net(heard).argmax(1).numpy() == y_test).mean()) for net in nets]
        found.append(f"{np.mean(right):.1f} ({min(right):.1f} to {max(right):.1f})")
    return found


def main() -> int:
    torch.set_num_threads(1)
    heads = ["as recorded" if b is None else f"hum {b:.0f} dB below" for b in BELOW]
    print(table(("right, of 420, %", *heads), [(name, *scores(scale)) for name, scale in SCALES.items()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
