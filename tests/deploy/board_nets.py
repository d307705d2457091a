"""Random image networks like those that are deployed: gates, branches, splits, broadcasts and odd sizes, in torch."""

import torch
from torch import Tensor, nn

from ..training.random_nets import Draw, Skip, activated, plain, separable

CLASSES = 3


class SqueezeExcite(nn.Module):
    """Multiplies the map by one number per channel, computed from the whole map."""

    def __init__(self, draw: Draw, c: int):
        super().__init__()
        squeezed = 1 + draw.below(c)
        self.fc1, self.fc2 = nn.Conv2d(c, squeezed, 1), nn.Conv2d(squeezed, c, 1)
        self.act, self.gate = draw.one_of((nn.ReLU, nn.SiLU))(), draw.one_of((nn.Sigmoid, nn.Hardsigmoid))()
        self.first = bool(draw.below(2))

    def forward(self, x: Tensor) -> Tensor:
        scale = self.gate(self.fc2(self.act(self.fc1(nn.functional.adaptive_avg_pool2d(x, 1)))))
        return scale * x if self.first else x * scale


class SmallGated(nn.Module):
    """One gate between a wide 1x1 layer and a strided depthwise one, written out: no draw makes exactly this."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 16, 1), nn.ReLU6(), nn.Conv2d(16, 8, 3, padding=1))
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.Sigmoid()
        )
        self.down = nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1, groups=8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        return self.fc(self.down(x * self.gate(x)))


class SpatialGate(nn.Module):
    """Multiplies the map by one number per pixel, computed from all channels."""

    def __init__(self, draw: Draw, c: int):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.conv(x.mean(1, keepdim=True)))


class Profile(nn.Module):
    """Adds the mean over one axis of the image to all of it."""

    def __init__(self, draw: Draw, c: int):
        super().__init__()
        self.axis, self.conv = draw.one_of((2, 3)), nn.Conv2d(c, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x.mean(self.axis, keepdim=True))


class Scaled(nn.Module):
    """A learned factor and term per channel."""

    def __init__(self, draw: Draw, c: int):
        super().__init__()
        self.scale, self.term = nn.Parameter(torch.rand(c, 1, 1) + 0.5), nn.Parameter(torch.randn(1, c, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.term


class Fork(nn.Module):
    """Two unequal groups of channels, one of them processed, joined again and sometimes shuffled."""

    def __init__(self, draw: Draw, c: int):
        super().__init__()
        self.left = 1 + draw.below(c - 1)
        self.body = draw.one_of((plain, separable))(draw, c - self.left)
        self.shuffled = c % 2 == 0 and bool(draw.below(2))

    def forward(self, x: Tensor) -> Tensor:
        left, right = torch.split(x, [self.left, x.shape[1] - self.left], 1)
        x = torch.cat([self.body(right), left], 1)
        if self.shuffled:
            n, c, h, w = x.shape
            x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        return x


class Dense(nn.Module):
    """Grows by concatenation, then a 1x1 convolution reduces it again."""

    def __init__(self, draw: Draw, c: int):
        super().__init__()
        self.more = 1 + draw.below(5)
        kernel, dilation = draw.one_of(((3, 1), (3, 2), (1, 1)))
        self.grow = nn.Conv2d(c, self.more, kernel, padding=kernel // 2 * dilation, dilation=dilation)
        self.back = nn.Conv2d(c + self.more, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.back(torch.cat([x, torch.relu(self.grow(x))], 1))


class Pyramid(nn.Module):
    """Halved and doubled again, added to the original map: odd sizes are cut."""

    def __init__(self, draw: Draw, c: int):
        super().__init__()
        self.conv, self.up = nn.Conv2d(c, c, 3, padding=1), nn.Upsample(scale_factor=2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(torch.relu(self.conv(nn.functional.max_pool2d(x, 2, ceil_mode=True))))
        return x + y[:, :, : x.shape[2], : x.shape[3]]


def halving(draw: Draw, c: int) -> nn.Module:
    kernel = draw.one_of((2, 3, 5))
    return activated(draw, nn.Conv2d(c, c, kernel, 2, kernel // 2, groups=draw.one_of((1, c))))


BLOCKS = (
    plain, separable, halving, SqueezeExcite, SqueezeExcite, SpatialGate, Profile, Scaled, Fork, Dense, Pyramid,
    lambda draw, c: Skip(nn.Sequential(separable(draw, c), SqueezeExcite(draw, c))),
    lambda draw, c: nn.MaxPool2d(3, draw.one_of((1, 2)), 1),
    lambda draw, c: nn.AvgPool2d(2, 1),
)  # fmt: skip


class BoardNet(nn.Module):
    """A stem, two to five blocks, a pooled or flattened classifier."""

    def __init__(self, draw: Draw, channels: int, size: tuple[int, int], last: bool):
        super().__init__()
        self.last = last  # is the image channels last, as a camera gives it?
        c, kernel = 2 + draw.below(14), draw.odd()
        stem = nn.Conv2d(channels, c, kernel, draw.one_of((1, 2)), padding=kernel // 2)
        self.body = nn.Sequential(
            activated(draw, stem), *(draw.one_of(BLOCKS)(draw, c) for _ in range(2 + draw.below(4)))
        )
        self.flat = not draw.below(4)
        with torch.no_grad():
            shape = self.body(torch.zeros(2, channels, *size)).shape
        self.fc = nn.Linear(shape[1] * shape[2] * shape[3] if self.flat else c, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x.permute(0, 3, 1, 2) if self.last else x)
        return self.fc(x.flatten(1) if self.flat else x.mean((2, 3)))


def board_net(seed: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """(module in eval mode, an example), the same for the same seed."""
    draw = Draw(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        channels, size = draw.one_of((1, 3)), (7 + draw.below(26), 7 + draw.below(26))
        last = bool(draw.below(2))
        module = BoardNet(draw, channels, size, last)
    shape = (1, *size, channels) if last else (1, channels, *size)
    return module.eval(), (torch.randn(shape, generator=draw.generator),)
