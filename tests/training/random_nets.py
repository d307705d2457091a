"""Random networks as torch modules: branches, shared weights, odd sizes; made of ops that the importers know."""

import torch
from torch import Tensor, nn

ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.Hardswish, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.LeakyReLU, nn.ELU)


class Draw:
    """Choices from one seed, independent of the order of the parts."""

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)

    def below(self, n: int) -> int:
        return int(torch.randint(n, (1,), generator=self.generator))

    def one_of(self, items):
        return items[self.below(len(items))]

    def odd(self) -> int:
        return self.one_of((1, 3, 5))


def activated(draw: Draw, *layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers, draw.one_of(ACTIVATIONS)())


def plain(draw: Draw, c: int) -> nn.Module:
    kernel = draw.odd()
    return activated(draw, nn.Conv2d(c, c, kernel, padding=kernel // 2, bias=bool(draw.below(2))))


def normed(draw: Draw, c: int) -> nn.Module:
    return activated(draw, nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c))


def separable(draw: Draw, c: int) -> nn.Module:
    kernel = draw.one_of((3, 5))
    depthwise = nn.Conv2d(c, c, kernel, padding=kernel // 2, groups=c)
    return activated(draw, depthwise, nn.BatchNorm2d(c), nn.ReLU6(), nn.Conv2d(c, c, 1))


class Skip(nn.Module):
    def __init__(self, body: nn.Module):
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Twice(nn.Module):
    """The same layer twice: shared weights, whose gradients add up."""

    def __init__(self, body: nn.Module):
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.body(x))


class Branches(nn.Module):
    def __init__(self, draw: Draw, c: int):
        super().__init__()
        self.left, self.right = plain(draw, c), separable(draw, c)
        self.join = nn.Conv2d(2 * c, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.join(torch.cat([self.left(x), self.right(x)], 1))


class Gate(nn.Module):
    """Squeeze and excite."""

    def __init__(self, draw: Draw, c: int):
        super().__init__()
        self.fc = nn.Conv2d(c, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.fc(x.mean((2, 3), keepdim=True)))


class Difference(nn.Module):
    def __init__(self, draw: Draw, c: int):
        super().__init__()
        self.left, self.right = plain(draw, c), plain(draw, c)

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) - self.right(x)


BLOCKS = (
    plain,
    normed,
    separable,
    lambda draw, c: Skip(draw.one_of((plain, normed, separable))(draw, c)),
    lambda draw, c: Skip(nn.Conv2d(c, c, 3, padding=1)),
    lambda draw, c: Twice(plain(draw, c)),
    Branches,
    Gate,
    Difference,
    lambda draw, c: nn.MaxPool2d(2, 1, ceil_mode=False),
    lambda draw, c: nn.AvgPool2d(2, 1),
)


class RandomNet(nn.Module):
    """A strided stem, two or three random blocks, a pooled or flattened head."""

    def __init__(self, draw: Draw, size: tuple[int, int], classes: int):
        super().__init__()
        c = 3 + draw.below(5)
        stem = nn.Conv2d(2, c, 3, stride=draw.one_of((1, 2)), padding=draw.below(2))
        self.stem = activated(draw, stem)
        self.blocks = nn.Sequential(*(draw.one_of(BLOCKS)(draw, c) for _ in range(2 + draw.below(2))))
        self.flat = bool(draw.below(2))
        with torch.no_grad():
            shape = self.blocks(self.stem(torch.zeros(2, 2, *size))).shape
        self.fc = nn.Linear(shape[1] * shape[2] * shape[3] if self.flat else c, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem(x))
        return self.fc(x.flatten(1) if self.flat else x.mean((2, 3)))


def random_net(seed: int) -> tuple[nn.Module, tuple[Tensor, ...], int]:
    """(module in eval mode, an example, classes), the same for the same seed."""
    draw = Draw(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        size, classes = (5 + draw.below(5), 5 + draw.below(5)), 2 + draw.below(4)
        module = RandomNet(draw, size, classes)
        for layer in module.modules():
            if isinstance(layer, nn.BatchNorm2d):
                nn.init.uniform_(layer.weight, 0.5, 1.5)
                nn.init.uniform_(layer.bias, -0.3, 0.3)
    return module.eval(), (torch.randn(1, 2, *size, generator=draw.generator),), classes
