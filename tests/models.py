"""The model families that every stage is tested with: small, written here in plain torch, random but fixed.

They are not trained. Weights and batch-norm statistics are random, so that folding or importing a wrong number shows in
the outputs.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from insitu.graph import Graph
from insitu.importers import load


def conv_bn(i: int, o: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU):
    layers = [nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([act()] if act else []))


class InvertedResidual(nn.Module):
    """MobileNetV2's block: expand, depthwise, project, and a skip if the shapes allow it."""

    def __init__(self, i: int, o: int, stride: int, expand: int):
        super().__init__()
        hidden = i * expand
        layers = [conv_bn(i, hidden, 1, act=nn.ReLU6)] if expand != 1 else []
        layers += [conv_bn(hidden, hidden, 3, stride, groups=hidden, act=nn.ReLU6), conv_bn(hidden, o, 1, act=None)]
        self.conv = nn.Sequential(*layers)
        self.skip = stride == 1 and i == o

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.skip else self.conv(x)


class MobileNetV2(nn.Module):
    """The first three of its five blocks have everything: one that does not expand, a stride, and two skips."""

    def __init__(self, classes: int = 5, depth: int = 5):
        super().__init__()
        blocks = [(8, 8, 1, 1), (8, 12, 2, 3), (12, 12, 1, 3), (12, 16, 2, 3), (16, 16, 1, 3)][:depth]
        self.features = nn.Sequential(
            conv_bn(3, 8, 3, 2, act=nn.ReLU6),
            *(InvertedResidual(*b) for b in blocks),
            conv_bn(blocks[-1][1], 32, 1, act=nn.ReLU6),
        )
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(32, classes))

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        x = nn.functional.adaptive_avg_pool2d(x, (1, 1))
        return self.classifier(torch.flatten(x, 1))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, squeezed: int):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
        self.activation, self.scale_activation = nn.ReLU(), nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x)))))
        return scale * x


class BneckV3(nn.Module):
    """MobileNetV3's block: expand, depthwise, squeeze-excite, project."""

    def __init__(self, i: int, hidden: int, o: int, kernel: int, stride: int, squeeze: bool, act: type[nn.Module]):
        super().__init__()
        layers = [conv_bn(i, hidden, 1, act=act), conv_bn(hidden, hidden, kernel, stride, hidden, act)]
        layers += [SqueezeExcite(hidden, 4)] if squeeze else []
        self.block = nn.Sequential(*layers, conv_bn(hidden, o, 1, act=None))
        self.skip = stride == 1 and i == o

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x) + x if self.skip else self.block(x)


class MobileNetV3(nn.Module):
    def __init__(self, classes: int = 5):
        super().__init__()
        self.features = nn.Sequential(
            conv_bn(3, 8, 3, 2, act=nn.Hardswish),
            BneckV3(8, 16, 8, 3, 1, True, nn.ReLU),
            BneckV3(8, 20, 12, 5, 2, True, nn.Hardswish),
            BneckV3(12, 24, 12, 5, 1, False, nn.Hardswish),
            conv_bn(12, 24, 1, act=nn.Hardswish),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        head = [nn.Linear(24, 32), nn.Hardswish(inplace=True), nn.Dropout(0.2, inplace=True), nn.Linear(32, classes)]
        self.classifier = nn.Sequential(*head)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class BasicBlock(nn.Module):
    def __init__(self, i: int, o: int, stride: int):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = conv_bn(i, o, 1, stride, act=None) if stride != 1 or i != o else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet(nn.Module):
    """ResNet-8 (three stages of one block) and ResNet-18 (four of two, after a pooled stem)."""

    def __init__(self, widths: tuple[int, ...], depth: int, pooled_stem: bool, classes: int = 5):
        super().__init__()
        first = widths[0]
        if pooled_stem:
            self.stem = nn.Sequential(conv_bn(3, first, 7, 2), nn.MaxPool2d(3, 2, 1))
        else:
            self.stem = conv_bn(3, first, 3, 1)
        blocks, i = [], first
        for stage, o in enumerate(widths):
            for n in range(depth):
                blocks.append(BasicBlock(i, o, 2 if stage and n == 0 else 1))
                i = o
        self.layers = nn.Sequential(*blocks)
        self.fc = nn.Linear(i, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(self.stem(x))
        return self.fc(x.mean((2, 3)))


class DsCnn(nn.Module):
    """Keyword spotting on a spectrogram: a stem with unequal sides, then depthwise-separable blocks."""

    def __init__(self, classes: int = 6):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 12, (10, 4), (2, 2), (5, 1)), nn.BatchNorm2d(12), nn.ReLU())
        blocks = [nn.Sequential(conv_bn(12, 12, 3, groups=12), conv_bn(12, 12, 1)) for _ in range(2)]
        self.blocks = nn.Sequential(*blocks)
        self.dropout = nn.Dropout(0.4)
        self.pool = nn.AvgPool2d((12, 5))
        self.fc = nn.Linear(12, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.dropout(self.blocks(self.stem(x))))
        return nn.functional.softmax(self.fc(x.flatten(1)), dim=1)


class Cnn1d(nn.Module):
    """Motion windows: three strided 1-D convolutions."""

    def __init__(self, channels: int = 6, classes: int = 7):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(channels, 8, 5, 2, 2), nn.BatchNorm1d(8)
        self.conv2, self.bn2 = nn.Conv1d(8, 12, 5, 2, 2, bias=False), nn.BatchNorm1d(12)
        self.conv3 = nn.Conv1d(12, 16, 3, 2, 1)
        self.act, self.pool = nn.ReLU(), nn.MaxPool1d(2)
        self.fc = nn.Linear(16 * 2, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.bn1(self.conv1(x)))
        x = self.act(self.bn2(self.conv2(x)))
        x = self.pool(self.act(self.conv3(x)))
        return self.fc(torch.flatten(x, 1))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(10, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.1), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 4)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Autoencoder(nn.Module):
    """Convolutional: halves twice, doubles twice (a transposed convolution, then nearest + convolution)."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(conv_bn(1, 6, 3, 2), conv_bn(6, 8, 3, 2))
        self.up1 = nn.Sequential(nn.ConvTranspose2d(8, 6, 3, 2, 1, output_padding=1), nn.ReLU())
        self.up2 = nn.Upsample(scale_factor=2, mode="nearest")
        self.out = nn.Conv2d(6, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.out(self.up2(self.up1(self.encoder(x)))))


class FlatCnn(nn.Module):
    """LeNet-like: the flattened image, in channel-first order, goes into a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 6, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc1, self.fc2 = nn.Linear(6 * 3 * 2, 10), nn.Linear(10, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.conv1(x)))
        x = torch.relu(self.conv2(x))
        x = torch.relu(self.fc1(x.view(x.shape[0], -1)))
        return nn.functional.log_softmax(self.fc2(x), dim=-1)


def randomise(module: nn.Module, seed: int = 0) -> nn.Module:
    """Fixed random weights of a reasonable size, uneven batch-norm statistics, eval mode."""
    generator = torch.Generator().manual_seed(seed)

    def draw(t: Tensor, low: float, high: float) -> None:
        t.copy_(torch.rand(t.shape, generator=generator) * (high - low) + low)

    with torch.no_grad():
        for layer in module.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                draw(layer.weight, 0.5, 1.5)
                draw(layer.bias, -0.3, 0.3)
                draw(layer.running_mean, -0.3, 0.3)  # type: ignore[arg-type]
                draw(layer.running_var, 0.5, 1.5)  # type: ignore[arg-type]
            elif isinstance(layer, nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
                bound = (3.0 / (layer.weight[0].numel())) ** 0.5
                draw(layer.weight, -bound, bound)
                if layer.bias is not None:
                    draw(layer.bias, -0.2, 0.2)
    return module.eval()


def families() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    """Name -> (module, example inputs)."""
    makers = {
        "mobilenet_v2": (MobileNetV2, (), (1, 3, 32, 32)),
        "mobilenet_v3": (MobileNetV3, (), (1, 3, 32, 32)),
        "resnet8": (ResNet, ((6, 8, 12), 1, False), (1, 3, 16, 16)),
        "resnet18": (ResNet, ((4, 6, 8, 12), 2, True), (1, 3, 32, 32)),
        "ds_cnn": (DsCnn, (), (1, 1, 25, 10)),
        "cnn1d": (Cnn1d, (), (1, 6, 32)),
        "mlp": (Mlp, (), (1, 10)),
        "autoencoder": (Autoencoder, (), (1, 1, 12, 8)),
        "flat_cnn": (FlatCnn, (), (1, 1, 8, 7)),
    }
    found = {}
    for seed, (name, (make, args, shape)) in enumerate(makers.items()):
        example = torch.randn(shape, generator=torch.Generator().manual_seed(100 + seed))
        found[name] = (randomise(make(*args), seed), (example,))
    return found


class DenseCnn(nn.Module):
    """Like DenseNet: each layer sees all layers before it, and batch norm comes first."""

    def __init__(self):
        super().__init__()
        self.stem = conv_bn(3, 8)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8 + 4 * i) for i in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(8 + 4 * i, 4, 3, padding=1, bias=False) for i in range(3))
        self.down = nn.Sequential(nn.BatchNorm2d(20), nn.ReLU(), nn.Conv2d(20, 10, 1, bias=False), nn.AvgPool2d(2, 2))
        self.fc = nn.Linear(10, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for norm, conv in zip(self.norms, self.convs):
            x = torch.cat([x, conv(torch.relu(norm(x)))], 1)
        return self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(torch.relu(self.down(x)), (1, 1)), 1))


class ShuffleCnn(nn.Module):
    """Like ShuffleNet: half of the channels pass through, then channels of both halves alternate."""

    def __init__(self):
        super().__init__()
        self.stem = conv_bn(3, 8, stride=2)
        self.branch = nn.Sequential(conv_bn(4, 4, 1), conv_bn(4, 4, 3, groups=4, act=None), conv_bn(4, 4, 1))
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        kept, changed = self.stem(x).chunk(2, dim=1)
        x = torch.cat((kept, self.branch(changed)), 1)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)
        return self.fc(x.mean([2, 3]))


class LinearSqueeze(nn.Module):
    """Squeeze-excite with linear layers and views, flattened at the end."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = conv_bn(3, 8), conv_bn(8, 4)
        self.gate = nn.Sequential(nn.Linear(8, 2), nn.ReLU(), nn.Linear(2, 8), nn.Sigmoid())
        self.fc = nn.Linear(4 * 6 * 5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        n, c = x.shape[:2]
        gate = self.gate(nn.functional.adaptive_avg_pool2d(x, 1).view(n, c)).view(n, c, 1, 1)
        return self.fc(self.out(x * gate.expand_as(x)).reshape(n, -1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.deep = conv_bn(1, 4), conv_bn(4, 8, act=nn.SiLU)
        self.up, self.join, self.out = nn.ConvTranspose2d(8, 4, 2, 2), conv_bn(8, 4), nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.down(x)
        deep = self.deep(nn.functional.max_pool2d(wide, 2))
        return self.out(self.join(torch.cat([self.up(deep), wide], 1)))


def others() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    """More networks, for importers only: other ways to wire layers and to move channels."""
    makers = {
        "dense_cnn": (DenseCnn, (1, 3, 8, 8)),
        "shuffle_cnn": (ShuffleCnn, (2, 3, 8, 8)),
        "linear_squeeze": (LinearSqueeze, (2, 3, 6, 5)),
        "unet": (UNet, (1, 1, 8, 6)),
    }
    found = {}
    for seed, (name, (make, shape)) in enumerate(makers.items()):
        example = torch.randn(shape, generator=torch.Generator().manual_seed(200 + seed))
        found[name] = (randomise(make(), seed), (example,))
    return found


@cache
def imported(name: str) -> Graph:
    """The graph of a family, read once per process: most of the time goes into torch's export."""
    module, example = families()[name]
    return load(module, example)
