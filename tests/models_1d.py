"""Networks for sound, motion and other sequences, small and in plain torch: the published families of 1-D CNNs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .models import randomise


def conv(i: int, o: int, kernel: int, stride: int = 1, dilation: int = 1, groups: int = 1) -> nn.Sequential:
    pad = kernel // 2 * dilation
    layer = nn.Conv1d(i, o, kernel, stride, pad, dilation, groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm1d(o), nn.ReLU())


class Pooled(nn.Module):
    """Layers, the mean over time, a classifier."""

    def __init__(self, channels: int, *layers: nn.Module):
        super().__init__()
        self.features, self.pool, self.fc = nn.Sequential(*layers), nn.AdaptiveAvgPool1d(1), nn.Linear(channels, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.pool(self.features(x)).flatten(1))


class Tcn(nn.Module):
    """A block of a temporal convolutional network: two causal, dilated convolutions and a skip."""

    def __init__(self, i: int, o: int, dilation: int):
        super().__init__()
        self.pad = nn.ConstantPad1d((2 * dilation, 0), 0.0)
        self.conv1, self.conv2 = nn.Conv1d(i, o, 3, dilation=dilation), nn.Conv1d(o, o, 3, dilation=dilation)
        self.down = nn.Conv1d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.conv1(self.pad(x)))
        return torch.relu(self.down(x) + torch.relu(self.conv2(self.pad(y))))


class Inception(nn.Module):
    """InceptionTime's block: a bottleneck, three widths of kernel side by side, a pooled branch."""

    def __init__(self, i: int, o: int):
        super().__init__()
        self.bottleneck = nn.Conv1d(i, o, 1, bias=False)
        self.wide = nn.ModuleList(nn.Conv1d(o, o, k, padding=k // 2, bias=False) for k in (9, 5, 3))
        self.pool, self.after = nn.MaxPool1d(3, 1, 1), nn.Conv1d(i, o, 1, bias=False)
        self.norm = nn.BatchNorm1d(4 * o)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bottleneck(x)
        return torch.relu(self.norm(torch.cat([*(c(y) for c in self.wide), self.after(self.pool(x))], 1)))


class Matchbox(nn.Module):
    """MatchboxNet's block: time-channel separable convolutions and a residual."""

    def __init__(self, i: int, o: int, kernel: int):
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(i, i, kernel, padding=kernel // 2, groups=i), conv(i, o, 1))
        self.second = nn.Sequential(nn.Conv1d(o, o, kernel, padding=kernel // 2, groups=o), nn.Conv1d(o, o, 1))
        self.skip = nn.Conv1d(i, o, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(self.first(x)) + self.skip(x))


class HarCnn(nn.Module):
    """Human activity recognition: convolutions and pools, flattened into two linear layers."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(3, 8, 5), nn.Conv1d(8, 12, 5)
        self.pool, self.fc1, self.fc2 = nn.MaxPool1d(2), nn.Linear(12 * 5, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class TwoHeads(nn.Module):
    """Four numbers, and two from an early exit."""

    def __init__(self):
        super().__init__()
        self.first, self.exit, self.second = conv(3, 6, 5, 2), nn.Linear(6, 2), conv(6, 8, 3, 2)
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.first(x)
        early = self.exit(x.mean(2))
        return self.fc(self.second(x).mean(2)), early


MAKERS = {
    "m5": (lambda: Pooled(16, conv(1, 8, 19, 4), nn.MaxPool1d(4), conv(8, 8, 3), conv(8, 16, 3)), (1, 1, 128)),
    "tcn": (lambda: Pooled(8, Tcn(3, 6, 1), Tcn(6, 6, 2), Tcn(6, 8, 4)), (1, 3, 24)),
    "inception_time": (lambda: Pooled(12, Inception(2, 3), Inception(12, 3)), (1, 2, 20)),
    "matchbox": (lambda: Pooled(10, conv(6, 8, 5, 2), Matchbox(8, 8, 5), Matchbox(8, 10, 7)), (1, 6, 26)),
    "har_cnn": (HarCnn, (1, 3, 34)),
    "two_heads": (TwoHeads, (1, 3, 22)),
}


def sequence_net(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """(module, example inputs) of a family, the same each time."""
    make, shape = MAKERS[name]
    return randomise(make(), 1), (torch.randn(shape, generator=torch.Generator().manual_seed(7)),)
