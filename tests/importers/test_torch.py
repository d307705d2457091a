"""torch modules become graphs that compute the same, in numpy and in the generated C."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from insitu.errors import ModelError, Unsupported
from insitu.graph import check, evaluate
from insitu.importers.safe.child import read_in_child
from insitu.importers.torch.read import read_program, read_pt2, read_torch
from tests.models import Mlp, conv_bn, families, others, randomise

FAMILIES = families()


def close(a, b, tolerance=1e-5):
    """The tolerance for floats everywhere here; b is the reference, in float64."""
    assert a.shape == b.shape
    return np.max(np.abs(a - b)) <= tolerance * max(np.max(np.abs(b)), 1e-6)


def reference(module, *inputs):
    """torch's result in float64."""
    with torch.no_grad():
        return deepcopy(module).double().eval()(*(x.double() for x in inputs)).numpy()


def agrees(module, *inputs):
    """The import, after a check that it computes the same as torch."""
    graph = check(read_torch(module, inputs), "float")
    y = evaluate(graph, *(x.numpy() for x in inputs), precision=np.float64)
    assert close(y, reference(module, *inputs)), graph
    return graph


def ops(graph):
    return [n.op.name for n in graph.nodes]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_computes_what_torch_computes(name):
    module, example = FAMILIES[name]
    agrees(module, *example)


@pytest.mark.parametrize("name", others())
def test_other_networks_do_too(name):
    module, example = others()[name]
    agrees(module, *example)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_generated_c_computes_what_torch_computes(name):
    from insitu.devices.host import open_host
    from insitu.quantizer.fold import fold

    module, example = FAMILIES[name]
    device = open_host(fold(read_torch(module, example)))
    y = device.predict(*(x.numpy() for x in example))
    assert close(y, reference(module, *example))


@pytest.mark.parametrize("name", FAMILIES)
def test_one_change_of_layout_at_the_input_and_none_between(name):
    module, example = FAMILIES[name]
    graph = read_torch(module, example)
    moved = [n for n in graph.nodes if n.op.name == "transpose"]
    assert all(n.inputs[0] in graph.inputs for n in moved) and len(moved) <= 1


def test_batch_norm_and_dropout_survive_and_the_mode_does_not_matter():
    module = nn.Sequential(conv_bn(2, 3), nn.Dropout(0.3))
    randomise(module)
    x = torch.randn(1, 2, 5, 5)
    in_eval = read_torch(module, x)
    module.train()
    module[0][1].eval()
    in_train = read_torch(module, x)
    assert str(in_eval) == str(in_train)
    assert {"batch_norm", "dropout"} <= set(ops(in_train))
    assert module.training and not module[0][1].training, "the module's own modes are given back"


def test_values_are_named_after_layers_and_parameters_keep_their_names():
    module, example = FAMILIES["resnet8"]
    graph = read_torch(module, example)
    assert {"stem.0", "stem.1", "layers.0.conv1", "layers.0.bn1", "fc"} <= set(graph.producer)
    assert {"stem.0.weight", "layers.1.downsample.0.weight", "fc.weight", "fc.bias"} <= set(graph.constants)


def test_a_tied_weight_stays_one_constant():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    graph = agrees(Tied(), torch.randn(1, 3, 4, 4))
    a, b = (n for n in graph.nodes if n.op.name == "conv2d")
    assert a.inputs[1] == b.inputs[1] and a.inputs[2] != b.inputs[2]


def test_a_write_through_a_view_is_seen():
    class Writes(nn.Module):
        def forward(self, x):
            y = x * 2
            y.flatten(1).add_(1.0)
            return y * y

    agrees(Writes(), torch.randn(2, 3, 2))


def test_in_place_ops_are_the_plain_ones():
    class InPlace(nn.Module):
        def forward(self, x):
            y = x * 2
            y.relu_()
            y += x
            return y

    graph = agrees(InPlace(), torch.randn(2, 3))
    assert ops(graph) == ["mul", "relu", "add"]


class Blocks(nn.Module):
    """A frozen body under no_grad, with autocast off and on inside and after it."""

    def __init__(self, forward):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Conv2d(4, 4, 1))
        self.fc, self.how = nn.Linear(4, 3), forward

    def forward(self, x):
        return self.how(self, x)


def under_no_grad(m, x):
    with torch.no_grad():
        y = m.body(x)
    return m.fc(y.mean((2, 3)))


def no_grad_inside_no_grad(m, x):
    with torch.no_grad():
        y = m.body[0](x)
        with torch.set_grad_enabled(True):
            y = m.body[1:](y)
            with torch.autocast("cpu", enabled=False):
                z = y.mean((2, 3))
    return m.fc(z)


def several_results(m, x):
    with torch.no_grad():
        y = m.body(x)
        a, b = y.amax((2, 3)), y.mean((2, 3))
    return m.fc(a) + m.fc(b)


def at_the_end(m, x):
    y = m.body(x).mean((2, 3))
    with torch.autocast("cpu", enabled=False):
        return m.fc(y)


def writes_what_it_was_given(m, x):
    y = m.body(x)
    with torch.no_grad():
        y.clamp_(-0.2, 0.2)
    return m.fc(y.mean((2, 3)))


def writes_what_it_gave(m, x):
    y = m.body(x)
    with torch.autocast("cpu", enabled=False):
        z = y.flatten(2)
    z.add_(1.0)
    return m.fc(y.mean((2, 3)))


BLOCKS = (under_no_grad, no_grad_inside_no_grad, several_results, at_the_end, writes_what_it_was_given,
          writes_what_it_gave)  # fmt: skip


@pytest.mark.parametrize("how", BLOCKS, ids=lambda f: f.__name__)
def test_blocks_without_gradients_or_with_autocast_are_their_ops(how):
    graph = agrees(randomise(Blocks(how)), torch.randn(1, 2, 6, 5))
    assert {"body.0.weight", "body.3.bias", "fc.weight"} <= set(graph.constants)
    noted = [note for note in graph.notes if "torch.no_grad" in note]
    assert bool(noted) == (how not in (at_the_end, writes_what_it_gave))
    assert how not in (under_no_grad, at_the_end) or "dropout" in ops(graph)


def test_autocast_is_left_out_and_noted():
    def how(m, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return m.fc(m.body(x).mean((2, 3)))

    module, x = randomise(Blocks(how)), torch.randn(1, 2, 6, 5)
    graph = read_torch(module, x)
    assert graph.notes == ("torch.autocast in its forward is ignored: everything is computed in float32",)
    y = evaluate(graph, x.numpy(), precision=np.float64)
    assert close(y, reference(module, x), 0.05)  # torch's own is rounded to bfloat16


def test_a_branch_on_data_is_refused_by_name():
    def how(m, x):
        y = m.body(x)
        return m.fc(torch.cond(torch.tensor(True), lambda a: a.mean((2, 3)), lambda a: a.amax((2, 3)), (y,)))

    with pytest.raises(Unsupported, match="cond is not supported"):
        read_torch(Blocks(how), torch.zeros(1, 2, 6, 5))


def test_several_inputs_and_outputs():
    class Two(nn.Module):
        def forward(self, a, b):
            return a + b, torch.cat([a, b], 1)

    a, b = torch.randn(2, 3), torch.randn(2, 3)
    graph = read_torch(Two(), (a, b))
    total, both = evaluate(graph, a.numpy(), b.numpy())
    assert np.allclose(total, (a + b).numpy()) and np.allclose(both, torch.cat([a, b], 1).numpy())


def test_the_batch_can_be_chosen():
    graph = read_torch(Mlp().eval(), torch.randn(1, 10), batch=3)
    assert graph.inputs[0].shape == (3, 10) and graph.outputs[0].shape == (3, 4)


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
    class Sums(nn.Module):
        def forward(self, x):
            return x.cumsum(1)

    with pytest.raises(Unsupported, match=r"1\.cumsum: aten\.cumsum is not supported"):
        read_torch(nn.Sequential(nn.ReLU(), Sums()), torch.randn(1, 3))


def test_an_uneven_adaptive_pool_is_refused_with_the_way_out():
    with pytest.raises(Unsupported, match="divides"):
        read_torch(nn.AdaptiveAvgPool2d(3), torch.randn(1, 2, 5, 5))


def exported(module, example, axes):
    return torch.export.export(module.eval(), (example,), dynamic_shapes=(axes,))


def test_a_dynamic_batch_is_fixed_and_another_dynamic_axis_refused_by_name():
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(2))
    x = torch.randn(2, 2, 6, 6)
    batch, height = torch.export.Dim("batch"), torch.export.Dim("height", min=4)
    graph = read_program(exported(module, x, {0: batch}), batch=5)
    assert graph.inputs[0].shape == (5, 2, 6, 6) and graph.outputs[0].shape == (5, 3, 16)
    with pytest.raises(Unsupported, match="input input: dimension 2"):
        read_program(exported(module, x, {2: height}))


def test_a_decomposed_program_is_read_as_well():
    module, example = FAMILIES["mobilenet_v2"]
    program = torch.export.export(module, example).run_decompositions()
    y = evaluate(read_program(program), *(x.numpy() for x in example), precision=np.float64)
    assert close(y, reference(module, *example))


def test_a_program_exported_in_train_mode_is_the_same_graph():
    module = randomise(nn.Sequential(conv_bn(2, 3), nn.Dropout(0.3))).train()
    x = torch.randn(2, 2, 5, 5)
    trained = read_program(torch.export.export(module, (x,)), name="net")
    assert str(trained) == str(read_torch(module, x, name="net"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("pt2") / "net.pt2"
    module, example = FAMILIES["flat_cnn"]
    torch.export.save(torch.export.export(module, example), path)
    return path


def test_a_saved_program_is_the_same_graph_and_says_whom_it_trusts(saved):
    module, example = FAMILIES["flat_cnn"]
    graph, direct = read_pt2(saved), read_torch(module, example, name="net")
    assert str(graph).splitlines()[2:] == str(direct).splitlines()[1:]
    assert any("as trusted as its author" in note for note in graph.notes)


def test_a_broken_saved_program_is_one_error(saved, tmp_path):
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(saved.read_bytes()[:2000])
    with pytest.raises(ModelError, match=r"broken\.pt2"):
        read_pt2(broken)


def test_reading_a_saved_program_takes_bounded_time(saved):
    with pytest.raises(ModelError, match="not done after"):
        read_in_child(saved, seconds=0.05)


def test_reading_a_saved_program_takes_bounded_memory(saved):
    with pytest.raises(ModelError):
        read_in_child(saved, memory_bytes=1 << 20)


RESIZED = {
    "bilinear by 2": lambda x: nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear by 1.7": lambda x: nn.functional.interpolate(x, scale_factor=1.7, mode="bilinear"),
    "bilinear to a size": lambda x: nn.functional.interpolate(x, size=(5, 9), mode="bilinear"),
    "bilinear down": lambda x: nn.functional.interpolate(x, size=(3, 2), mode="bilinear"),
    "bilinear corners": lambda x: nn.functional.interpolate(x, size=(7, 11), mode="bilinear", align_corners=True),
    "bilinear to one": lambda x: nn.functional.interpolate(x, size=(1, 1), mode="bilinear", align_corners=True),
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
