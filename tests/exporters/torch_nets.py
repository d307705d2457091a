"""Small torch networks, each with a kind of parameter that must come back into the module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

Shape = tuple[int, ...]
CLASSES = 3


class Gamma(nn.Module):
    """A bare parameter, multiplied in forward; another one is added."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, CLASSES)
        self.gamma, self.beta = nn.Parameter(torch.rand(8) + 0.5), nn.Parameter(torch.rand(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)) * self.gamma + self.beta)


class Headed(nn.Module):
    """Its own layers are called `head`, as the learner's classifier is."""

    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(6, 8), nn.PReLU(8), nn.Linear(8, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


class Computed(nn.Module):
    """What is multiplied is computed from the parameter: no number of the state dict is that factor."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.gamma = nn.Linear(6, 8), nn.Linear(8, CLASSES), nn.Parameter(torch.rand(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)) * (1 + self.gamma))


class Scale(nn.Module):
    """A bare scale per channel of an image, or per step of a sequence."""

    def __init__(self, *shape: int):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(shape) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


def image(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), *layers, nn.GELU(), nn.Flatten(), nn.Linear(6 * 5 * 4, CLASSES))


def sequence(*layers: nn.Module, width: int) -> nn.Module:
    return nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.Linear(width, CLASSES))


NETS = {
    "group_norm": (lambda: image(nn.GroupNorm(2, 6)), (2, 5, 4)),
    "instance_norm": (lambda: image(nn.InstanceNorm2d(6, affine=True)), (2, 5, 4)),
    "prelu": (lambda: image(nn.PReLU(6)), (2, 5, 4)),
    "prelu_of_one": (lambda: image(nn.PReLU()), (2, 5, 4)),
    "scale": (lambda: image(nn.ReLU(), Scale(6, 1, 1)), (2, 5, 4)),
    "gamma": (Gamma, (6,)),
    "named_head": (Headed, (6,)),
    "layer_norm": (lambda: nn.Sequential(nn.Linear(6, 9), nn.LayerNorm(9), nn.GELU(), nn.Linear(9, CLASSES)), (6,)),
    "rms_norm": (lambda: nn.Sequential(nn.Linear(6, 9), nn.RMSNorm(9), nn.GELU(), nn.Linear(9, CLASSES)), (6,)),
    "norm_first": (lambda: image(nn.BatchNorm2d(6), nn.ReLU(), nn.BatchNorm2d(6), nn.ReLU(),
                                 nn.Conv2d(6, 6, 3, padding=1, groups=2)), (2, 5, 4)),
    "grouped": (lambda: image(nn.Conv2d(6, 6, 3, padding=1, groups=3), nn.ReLU(), nn.Conv2d(6, 6, 1)), (2, 5, 4)),
    "transposed": (lambda: nn.Sequential(nn.Conv2d(2, 4, 2, 2), nn.ReLU(), nn.ConvTranspose2d(4, 3, 2, 2), nn.ReLU(),
                                         nn.Flatten(), nn.Linear(3 * 6 * 4, CLASSES)), (2, 6, 4)),
    "conv1d": (lambda: sequence(nn.Conv1d(2, 6, 3), nn.ReLU(), nn.Conv1d(6, 6, 3, groups=6), nn.ReLU(),
                                nn.Conv1d(6, 4, 3, groups=2), width=4 * 4), (2, 10)),
    "transposed1d": (lambda: sequence(nn.Conv1d(2, 4, 2, 2), nn.ReLU(), nn.ConvTranspose1d(4, 3, 2, 2), width=24),
                     (2, 8)),
}  # fmt: skip


def net(name: str) -> tuple[nn.Module, Shape]:
    """(module, shape of one sample); its norms and slopes are not those of a new layer, and differ by channel."""
    torch.manual_seed(0)
    make, shape = NETS[name]
    module = make()
    with torch.no_grad():
        for key, tensor in module.state_dict().items():
            if tensor.ndim == 1 and tensor.is_floating_point() and not key.endswith("running_mean"):
                tensor += 0.3 * torch.rand(tensor.shape)
    return module.eval(), shape
