"""MobileNetV2 in torch, with the layers of torchvision's, at any width. Weights are random: only speed is measured."""

from __future__ import annotations

import torch
from torch import nn

# expansion, channels, repeats, stride of the first
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def rounded(channels: float) -> int:
    """The nearest multiple of eight, at most a tenth below."""
    found = max(8, int(channels + 4) // 8 * 8)
    return found if found >= 0.9 * channels else found + 8


def conv(i: int, o: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    padding = (kernel - 1) // 2
    return [nn.Conv2d(i, o, kernel, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(o)]


class Block(nn.Module):
    """Expand, filter each channel, project; with a skip if the shape stays the same."""

    def __init__(self, i: int, o: int, stride: int, expansion: int):
        super().__init__()
        wide = i * expansion
        self.skip = stride == 1 and i == o
        self.conv = nn.Sequential(
            *([*conv(i, wide, 1), nn.ReLU6(inplace=True)] if expansion != 1 else []),
            *conv(wide, wide, 3, stride, wide),
            nn.ReLU6(inplace=True),
            *conv(wide, o, 1),
        )

    def forward(self, x):
        return x + self.conv(x) if self.skip else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, classes: int = 10, width: float = 0.35, last: int = 1280):
        super().__init__()
        here = rounded(32 * width)
        parts: list[nn.Module] = [nn.Sequential(*conv(3, here, 3, 2), nn.ReLU6(inplace=True))]
        for expansion, channels, repeats, stride in STAGES:
            for k in range(repeats):
                out = rounded(channels * width)
                parts.append(Block(here, out, stride if k == 0 else 1, expansion))
                here = out
        last = rounded(last * max(1.0, width))
        parts.append(nn.Sequential(*conv(here, last, 1), nn.ReLU6(inplace=True)))
        self.features = nn.Sequential(*parts)
        self.classifier = nn.Linear(last, classes)

    def forward(self, x):
        return self.classifier(torch.mean(self.features(x), (2, 3)))
