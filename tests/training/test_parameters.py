"""`full` trains what torch would: every parameter of the model, wherever it is, and a shared one as one."""

import copy
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

import insitu  # noqa: E402
from insitu.devices.host import open_plans  # noqa: E402
from insitu.errors import GraphError  # noqa: E402
from insitu.graph import Graph  # noqa: E402
from insitu.graph.text import arrays, parse, to_text  # noqa: E402
from insitu.importers import load  # noqa: E402
from insitu.planner import plan  # noqa: E402
from insitu.proof.differences import Run  # noqa: E402
from insitu.schemes.layers import layers  # noqa: E402
from insitu.schemes.scheme import read_scheme  # noqa: E402
from insitu.training.train import Recipe, train_graphs  # noqa: E402
from tests.exports import write_onnx  # noqa: E402

SAMPLES = 3


class Norms(nn.Module):
    """Affine norms that are imported as products and sums."""

    def __init__(self):
        super().__init__()
        self.conv, self.group = nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4)
        self.instance, self.head = nn.InstanceNorm2d(4, affine=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.instance(torch.relu(self.group(self.conv(x))))).square().mean((2, 3)))


class Operands(nn.Module):
    """Parameters as terms, factors, divisors and a lone scale; a buffer beside them."""

    def __init__(self):
        super().__init__()
        self.term, self.factor = nn.Parameter(torch.randn(1, 5)), nn.Parameter(torch.randn(5))
        self.less, self.share = nn.Parameter(torch.randn(5)), nn.Parameter(1.5 + torch.rand(5))
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.register_buffer("mean", torch.randn(5))
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        y = ((x - self.mean) * self.factor + self.term) * self.scale
        y = torch.tanh((self.less - y) / self.share)
        return self.head(y) * 0.5


class Tied(nn.Module):
    """An autoencoder whose decoder is the transposed encoder."""

    def __init__(self, turned=True):
        super().__init__()
        self.code = nn.Linear(5, 4 if turned else 5)
        self.turned = turned

    def forward(self, x):
        h = torch.tanh(self.code(x))
        return F.linear(h, self.code.weight.t() if self.turned else self.code.weight)


class NormTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(torch.tanh(self.norm(x + x * x)).mean((2, 3)))


IMAGE, ROW = (1, 2, 6, 6), (1, 5)
MODELS = {
    "norms": (Norms, IMAGE),
    "operands": (Operands, ROW),
    "tied, turned": (Tied, ROW),
    "tied as it is": (lambda: Tied(turned=False), ROW),
    "a norm used twice": (NormTwice, IMAGE),
}


def model(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(3)
    made, shape = MODELS[name]
    module = made()
    with torch.no_grad():  # ones and zeros would hide a forgotten factor
        for p in module.parameters():
            p.add_(0.1 * torch.randn(p.shape))
    return module.eval(), shape


def step_of(graph: Graph, samples: int = SAMPLES) -> Graph:
    scheme = read_scheme("full", layers(graph))
    return train_graphs(graph, scheme, Recipe(loss="mse"), samples=samples, head=None)["train_step"]


def gradients(step: Graph, x: np.ndarray, goal: np.ndarray):
    """(name -> the C's gradient, the state after the step)"""
    wanted = Run(step, {}).gradients
    device = open_plans({"predict": plan(replace(step, outputs=tuple(wanted.values())))})
    return dict(zip(wanted, device.run("predict", x, goal, np.float32(0.1)))), device.state()


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_has_autograds_gradient(name):
    module, shape = model(name)
    step = step_of(load(module, torch.zeros(shape)))
    rng = np.random.default_rng(0)
    x = rng.normal(size=step.inputs[0].shape).astype(np.float32)
    goal = rng.normal(size=step.inputs[1].shape).astype(np.float32)
    found, state = gradients(step, x, goal)
    twin = copy.deepcopy(module).double().train()
    F.mse_loss(twin(torch.tensor(x).double()), torch.tensor(goal).double()).backward()
    wanted = {n: p.grad.numpy() for n, p in twin.named_parameters() if p.grad is not None}
    assert found.keys() == wanted.keys()
    largest = max(np.abs(w).max() for w in wanted.values())
    for n, w in wanted.items():
        g = found[n] if w.ndim != 4 else found[n].transpose(0, 3, 1, 2)
        worst = np.abs(g.reshape(w.shape) - w).max()
        assert worst <= 1e-4 * max(np.abs(w).max(), 1e-3 * largest), n
    for n, b in twin.named_buffers():
        if n.endswith(("running_mean", "running_var")):  # moved once per use, in order
            np.testing.assert_allclose(state[n], b.numpy(), rtol=1e-4, atol=1e-5)


def test_a_tied_weight_is_stored_once_and_moves_in_both_places():
    module, shape = model("tied, turned")
    graph = load(module, torch.zeros(shape))
    graphs = train_graphs(graph, read_scheme("full", layers(graph)), Recipe(loss="mse"), head=None)
    device = open_plans({verb: plan(g) for verb, g in graphs.items()})
    assert set(device.state()) == {"code.weight", "code.bias", "counters"}
    x = np.linspace(-1, 1, 5, dtype=np.float32)[None]
    device.run("train_step", x, x, np.float32(0.5))
    moved = copy.deepcopy(module)
    moved.load_state_dict({n: torch.tensor(device.state()[n]) for n in module.state_dict()})
    with torch.no_grad():
        np.testing.assert_allclose(device.predict(x), moved(torch.tensor(x)).numpy(), rtol=1e-5, atol=1e-6)


def test_a_tie_that_cannot_be_told_is_refused_by_name():
    module = Tied()
    module.code = nn.Linear(5, 5)
    with torch.no_grad():
        module.code.weight.fill_(0.5)
    with pytest.raises(GraphError, match="shared by") as e:
        step_of(load(module, torch.zeros(ROW)))
    assert e.value.where == "code.weight"


def test_what_is_computed_from_a_parameter_is_trained_in_its_stead():
    class Exponent(nn.Module):
        def __init__(self):
            super().__init__()
            self.log, self.head = nn.Parameter(torch.randn(5)), nn.Linear(5, 3)

        def forward(self, x):
            return self.head(x * self.log.exp())

    step = step_of(load(Exponent(), torch.zeros(ROW)))
    assert len(step.state.keys() - {"head.weight", "head.bias", "counters"}) == 1


def test_a_buffer_and_a_literal_are_not_trained():
    module, shape = model("operands")
    state = step_of(load(module, torch.zeros(shape))).state
    assert "mean" in dict(module.named_buffers()) and "mean" not in state
    assert state.keys() - {"counters"} == dict(module.named_parameters()).keys()


def test_the_text_form_keeps_what_is_a_parameter():
    module, shape = model("operands")
    graph = load(module, torch.zeros(shape))
    again = parse(to_text(graph), arrays(graph))
    assert step_of(again).state.keys() == step_of(graph).state.keys()


@pytest.mark.parametrize(("name", "beside"), [("norms", 0), ("operands", 5 - 1)])
def test_in_a_file_every_float_of_more_than_one_element_is_a_parameter(name, beside, tmp_path):
    """Exporters make up names, so elements are counted; a file does not mark the buffer, and the lone scale is lost."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    module, shape = model(name)
    path = write_onnx(module, (torch.zeros(shape),), tmp_path / "net.onnx")
    state = step_of(load(path), samples=1).state
    used = sum(p.numel() for n, p in module.named_parameters())
    assert sum(a.size for n, a in state.items() if n != "counters") == used + beside


def test_an_initializer_read_twice_is_one_parameter():
    onnx = pytest.importorskip("onnx")
    make = onnx.helper.make_node
    weight = np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32)
    nodes = [make("Gemm", ["x", "w"], ["h"], transB=1), make("Tanh", ["h"], ["t"]), make("Gemm", ["t", "w"], ["y"])]
    ends = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 5]) for n in "xy"]
    graph = onnx.helper.make_graph(nodes, "tied", ends[:1], ends[1:], [onnx.numpy_helper.from_array(weight, "w")])
    step = step_of(load(onnx.helper.make_model(graph)), samples=1)
    assert [a.shape for n, a in step.state.items() if n != "counters"] == [(4, 5)]
    x, goal = np.linspace(-1, 1, 5, dtype=np.float32)[None], np.ones((1, 5), np.float32)
    (found,) = gradients(step, x, goal)[0].values()
    w = torch.tensor(weight, requires_grad=True)
    F.mse_loss(torch.tanh(torch.tensor(x) @ w.t()) @ w, torch.tensor(goal)).backward()
    assert w.grad is not None
    np.testing.assert_allclose(found, w.grad.numpy(), rtol=1e-4, atol=1e-6)


class Twice(nn.Module):
    """One convolution, applied twice; each time with a batch norm of its own, or with none."""

    def __init__(self, norms: bool):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.fc = nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.Linear(3, 2)
        self.norms = nn.ModuleList([nn.BatchNorm2d(3), nn.BatchNorm2d(3)] if norms else [nn.Identity(), nn.Identity()])
        for norm in self.norms if norms else ():
            norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        for norm in self.norms:
            x = torch.relu(norm(self.conv(x)))
        return self.fc(x.mean((2, 3)))


def twice(norms: bool, precision: str, scheme: str):
    x = np.random.default_rng(0).normal(size=(8, 3, 5, 4)).astype(np.float32)
    module = Twice(norms).eval()
    return x, module, insitu.compile(
        module, example=torch.zeros(1, 3, 5, 4), data=x, classes=2, precision=precision, scheme=scheme
    )  # fmt: skip


@pytest.mark.parametrize(
    ("norms", "precision", "scheme", "how"),
    [
        (True, "float", "last:2", "folded into a copy"),
        (True, "int8", "last:1", "a copy in integers"),
        (False, "int8", "full", "a copy in integers"),
    ],
)
def test_a_shared_layer_of_which_each_use_has_a_copy_is_not_trained(norms, precision, scheme, how):
    """Folded with different norms, or rounded for different inputs, the copies would drift apart."""
    with pytest.raises(GraphError, match=f"is shared by conv.*, conv_1.*{how}.*drift apart") as e:
        twice(norms, precision, scheme)
    assert e.value.where == "conv.weight" and 'scheme="last:N"' in e.value.hint


@pytest.mark.parametrize("scheme", ["head", "bias:2"])
def test_a_shared_layer_whose_weight_stays_may_have_copies(scheme):
    """In torch, too, each norm has a bias of its own."""
    x, module, learner = twice(True, "float", scheme)
    assert not [name for name in learner.graphs["predict"].state if name.startswith("conv") and "weight" in name]
    folded = insitu.load(module, torch.zeros(1, 3, 5, 4)).predict(x)
    with torch.no_grad():
        np.testing.assert_allclose(folded, module(torch.tensor(x)).numpy(), rtol=1e-4, atol=1e-5)


def test_a_shared_layer_without_norms_is_trained_as_one_in_float():
    assert [name for name in twice(False, "float", "last:2")[2].graphs["predict"].state if "conv" in name] == [
        "conv.weight"
    ]


class Again(nn.Module):
    """One convolution and one norm, three times."""

    def __init__(self, bias: bool):
        super().__init__()
        torch.manual_seed(3)
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1, bias=bias), nn.BatchNorm2d(3)
        self.fc = nn.Linear(3, 2)
        for value in (self.norm.running_var, self.norm.weight.data, self.norm.bias.data):
            value.uniform_(0.5, 2)

    def forward(self, x):
        for _ in range(3):
            x = x + torch.relu(self.norm(self.conv(x)))
        return self.fc(x.mean((2, 3)))


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_shared_layer_with_one_norm_is_trained_as_one(bias, saved, tmp_path):
    """Its folded copies are equal: one weight and one bias, which the module can hold again."""
    x, module = np.random.default_rng(0).normal(size=(8, 3, 5, 4)).astype(np.float32), Again(bias).eval()
    example, source = torch.zeros(1, 3, 5, 4), module
    if saved:
        source = str(tmp_path / "again.pt2")
        torch.export.save(torch.export.export(module, (example,)), source)
    given = None if saved else example
    learner = insitu.compile(source, example=given, classes=2, head_init="own", precision="float", scheme="full")
    assert [n for n in learner.graphs["predict"].state if n.startswith("conv")] == ["conv.weight", "conv.bias"]
    learner.fit(x, np.arange(8) % 2, epochs=2, rate=0.05)
    insitu.export.into(module, learner)
    with torch.no_grad():
        np.testing.assert_allclose(learner.predict(x), module(torch.tensor(x)).numpy(), rtol=1e-4, atol=1e-5)


def test_copies_are_still_known_after_a_file(tmp_path):
    x = np.random.default_rng(0).normal(size=(8, 3, 5, 4)).astype(np.float32)
    made = insitu.load(Twice(True).eval(), torch.zeros(1, 3, 5, 4)).quantize(x)
    with pytest.raises(GraphError, match="drift apart"):
        insitu.compile(made.save(tmp_path / "net.insitu"), classes=2, scheme="last:1")
