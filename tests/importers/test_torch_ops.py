"""Each op and each layer of torch by itself computes what torch computes; one that we do not have is named."""

import pytest
import torch
from torch import nn

from insitu.errors import Unsupported
from insitu.importers.torch.read import read_torch
from tests.importers.torch_agrees import agrees


def function(f):
    class Function(nn.Module):
        def forward(self, *xs):
            return f(*xs)

    return Function()


F = nn.functional
UNARY = {
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "clamp": lambda x: x.clamp(min=-0.1),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "celu": F.celu,
    "celu alpha": lambda x: F.celu(x, 0.4),
    "softplus": F.softplus,
    "softplus beta": lambda x: F.softplus(x, 2.0),
    "logsigmoid": F.logsigmoid,
    "mish": F.mish,
    "softsign": F.softsign,
    "exp": torch.exp,
    "log": lambda x: torch.log(x.abs() + 1),
    "sqrt": lambda x: x.abs().sqrt(),
    "rsqrt": lambda x: (x * x + 1).rsqrt(),
    "reciprocal": lambda x: 1 / (x**2 + 1),
    "pow 3": lambda x: x**3 - x**2 + x,
    "erf": torch.erf,
    "neg": lambda x: -x,
    "rsub": lambda x: 1 - x,
    "alpha": lambda x: torch.add(x, x.abs(), alpha=0.5),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: F.log_softmax(x, dim=2),
    "mean": lambda x: x.mean((1, 3)),
    "mean all": lambda x: x.mean() + x,
    "sum": lambda x: x.sum(2, keepdim=True),
    "cumsum": lambda x: x.cumsum(-1) + x.cumsum(1),
    "amax": lambda x: x.amax((2, 3)),
    "max": lambda x: x.max(1).values,
    "amin": lambda x: x.amin(3),
    "var": lambda x: x.var((2, 3)),
    "std": lambda x: x.std(1, keepdim=True, unbiased=False),
    "glu": lambda x: F.glu(x, 1),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool2d ceil": lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True),
    "max_pool2d dilated": lambda x: F.max_pool2d(x, 2, 1, dilation=2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_pool2d not counting": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "avg_pool2d ceil": lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_avg_pool2d divides": lambda x: F.adaptive_avg_pool2d(x, (5, 2)),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 1),
    "max_pool1d": lambda x: F.max_pool1d(x[0], 3, 2, 1),
    "avg_pool1d": lambda x: F.avg_pool1d(x.flatten(2), 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x.flatten(2), 1),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest size": lambda x: F.interpolate(x, (7, 3)),
    "nearest exact": lambda x: F.interpolate(x, (7, 3), mode="nearest-exact"),
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "instance_norm": lambda x: F.instance_norm(x),
    "rms_norm": lambda x: F.rms_norm(x, (6,), eps=1e-5),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=0.5),
    "pad negative": lambda x: F.pad(x, (-1, 2)),
    "permute": lambda x: x.permute(0, 2, 3, 1),
    "transpose": lambda x: x.transpose(-1, 1),
    "movedim": lambda x: x.movedim(1, -1),
    "view": lambda x: x.view(2, -1, 3),
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "squeeze": lambda x: x[:, :1].squeeze(1).unsqueeze(-1),
    "expand": lambda x: x[:, :1].expand(-1, 3, -1, -1),
    "repeat": lambda x: x.repeat(1, 2, 1, 1),
    "slice": lambda x: x[:, 1:, ::2, -3:],
    "select": lambda x: x[:, -1],
    "narrow": lambda x: x.narrow(3, 1, 2),
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "stack": lambda x: torch.stack([x, -x], -1),
    "split": lambda x: torch.mul(*x.split(2, 1)),
    "chunk": lambda x: torch.cat(x.chunk(3, 3)[::-1], 3),
    "unbind": lambda x: x.unbind(1)[2],
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "matmul": lambda x: x @ x.transpose(-1, -2),
    "normalize": lambda x: F.normalize(x, dim=1),
    "norm of order 1": lambda x: torch.linalg.vector_norm(x, 1, dim=(2, 3), keepdim=True),
    "max of two": lambda x: torch.max(x, x.flatten(2).mean(2)[..., None, None]),
    "min of two": lambda x: torch.min(x, 0.5 - x),
    "min": lambda x: x.min(1).values + x.min(),
    "baddbmm": lambda x: torch.baddbmm(x[0, :, :, :5], x[0, :, :, :5], x[0, :, :, 1:]),
    "expit": torch.special.expit,
    "tile": lambda x: x.tile(2, 1),
    "hstack": lambda x: torch.hstack([x, x * 2]),
    "roll": lambda x: x.roll((1, -2), (1, 3)).roll(6, -1),
    "mT": lambda x: x @ x.mT,
    "einsum": lambda x: torch.einsum("bchw,bdhw->bcd", x, torch.tanh(x)),
    "integers": lambda x: x + torch.tensor(4, dtype=torch.int32) * x,
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "constants": lambda x: x * torch.ones(6) + torch.arange(6.0) + torch.full((5, 1), 2.0),
}


@pytest.mark.parametrize("name", UNARY)
def test_an_op_computes_what_torch_computes(name):
    agrees(function(UNARY[name]), torch.randn(1, 4, 5, 6))


LAYERS = {
    "conv2d": (nn.Conv2d(4, 6, 3, 2, 1, groups=2), (4, 5, 6)),
    "conv2d same": (nn.Conv2d(4, 3, (4, 2), padding="same", dilation=(1, 2)), (4, 5, 6)),
    "depthwise twice": (nn.Conv2d(4, 8, 3, groups=4), (4, 5, 6)),
    "conv1d": (nn.Conv1d(4, 6, 3, 2, 1, dilation=2, groups=2), (4, 9)),
    "conv1d same": (nn.Conv1d(4, 6, 4, padding="same"), (4, 9)),
    "conv_transpose2d": (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2), (4, 3, 2)),
    "conv_transpose1d": (nn.ConvTranspose1d(4, 5, 3, 2, 1, 1), (4, 6)),
    "linear": (nn.Linear(5, 3, bias=False), (2, 5)),
    "prelu": (nn.PReLU(4), (4, 3, 2)),
    "batch_norm plain": (nn.BatchNorm1d(4, affine=False), (4, 3)),
    "layer_norm": (nn.LayerNorm((3, 2)), (4, 3, 2)),
    "group_norm": (nn.GroupNorm(2, 4), (4, 3, 2)),
    "instance_norm": (nn.InstanceNorm2d(4, affine=True), (4, 3, 2)),
    "weight_norm": (nn.utils.parametrizations.weight_norm(nn.Linear(5, 3)), (5,)),
    "decoder": (nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Unflatten(1, (4, 3, 2)), nn.Conv2d(4, 2, 2)), (5,)),
    "pad then conv": (nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(2, 3, 3, 2)), (2, 5, 6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_computes_what_torch_computes(name):
    module, shape = LAYERS[name]
    torch.manual_seed(1)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.rand_like(p) - 0.4)
    agrees(module, torch.randn(2, *shape))


def test_an_op_we_do_not_have_is_refused_by_name_and_layer():
    class Products(nn.Module):
        def forward(self, x):
            return x.cumprod(1)

    with pytest.raises(Unsupported, match=r"1\.cumprod: aten\.cumprod is not supported"):
        read_torch(nn.Sequential(nn.ReLU(), Products()), torch.randn(1, 3))


def test_an_uneven_adaptive_pool_is_refused_with_the_way_out():
    with pytest.raises(Unsupported, match="divides"):
        read_torch(nn.AdaptiveAvgPool2d(3), torch.randn(1, 2, 5, 5))


RESIZED = {
    "bilinear by 2": lambda x: nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear by 1.7": lambda x: nn.functional.interpolate(x, scale_factor=1.7, mode="bilinear"),
    "bilinear to a size": lambda x: nn.functional.interpolate(x, size=(5, 9), mode="bilinear"),
    "bilinear down": lambda x: nn.functional.interpolate(x, size=(3, 2), mode="bilinear"),
    "bilinear corners": lambda x: nn.functional.interpolate(x, size=(7, 11), mode="bilinear", align_corners=True),
    "bilinear to one": lambda x: nn.functional.interpolate(x, size=(1, 1), mode="bilinear", align_corners=True),
    "nearest 1-D": lambda x: nn.functional.interpolate(x[:, :, 0], scale_factor=2),
    "nearest 1-D to a size": lambda x: nn.functional.interpolate(x[:, :, 0], size=9),
    "nearest exact 1-D": lambda x: nn.functional.interpolate(x[:, :, 0], size=4, mode="nearest-exact"),
    "linear": lambda x: nn.functional.interpolate(x[:, :, 0], scale_factor=2, mode="linear"),
    "linear by 1.7": lambda x: nn.functional.interpolate(x[:, :, 0], scale_factor=1.7, mode="linear"),
    "linear corners": lambda x: nn.functional.interpolate(x[:, :, 0], size=4, mode="linear", align_corners=True),
    "reflect": lambda x: nn.functional.pad(x, (2, 1, 0, 3), mode="reflect"),
    "circular": lambda x: nn.functional.pad(x, (1, 2, 3, 0), mode="circular"),
    "replicate": lambda x: nn.functional.pad(x, (1, 2, 0, 1), mode="replicate"),
    "unshuffle": lambda x: nn.functional.pixel_unshuffle(x, 2),
    "average of a ragged end": lambda x: nn.functional.avg_pool1d(x[:, :, 0], 4, 4, ceil_mode=True),
}


@pytest.mark.parametrize("name", RESIZED)
def test_resizing_and_padding_compute_what_torch_computes(name):
    class Net(nn.Module):
        def forward(self, x):
            return RESIZED[name](x)

    agrees(Net(), torch.randn(1, 3, 4, 6))
