"""Whole networks compared with PyTorch's autograd: every gradient of every parameter."""

import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from insitu.devices.host import open_plans  # noqa: E402
from insitu.graph import Builder, build, evaluate, lookup  # noqa: E402
from insitu.importers import load  # noqa: E402
from insitu.planner import plan  # noqa: E402
from insitu.proof.differences import Run  # noqa: E402
from insitu.proof.program import keep_all  # noqa: E402
from insitu.schemes.layers import layers  # noqa: E402
from insitu.schemes.scheme import read_scheme  # noqa: E402
from insitu.training.autodiff import differentiate  # noqa: E402
from insitu.training.head import replace_head  # noqa: E402
from insitu.training.train import Recipe, train_graphs  # noqa: E402
from tests.models import families, imported  # noqa: E402

from .straight_through import simulate  # noqa: E402

CLOSENESS, FLOOR = 1e-4, 1e-3
FAMILIES = families()
SAMPLES = 4


def close(found: dict, wanted: dict) -> None:
    """max|a-b| <= 1e-4 * max(max|b|, 1e-3 * the network's largest gradient), for each parameter.

    A bias before a batch norm has no gradient: the remainder of the sum in float32 must be almost zero.
    """
    largest = max(float(np.abs(w).max()) for w in wanted.values())
    assert largest > 0
    for name, w in wanted.items():
        worst = float(np.abs(found[name] - w).max())
        nothing = float(np.abs(w).max()) < 1e-12 * largest
        allowed = 1e-6 * largest if nothing else CLOSENESS * max(float(np.abs(w).max()), FLOOR * largest)
        assert worst <= allowed, f"{name}: off by {worst:.3g}, {allowed:.3g} allowed"


@cache
def places(module, example) -> dict[str, np.ndarray]:
    """Name -> for each element of the imported parameter, the index of torch's element."""
    numbered = copy.deepcopy(module)
    with torch.no_grad():
        for p in numbered.parameters():
            p.copy_(torch.arange(p.numel()).reshape(p.shape))
    graph = load(numbered, example)
    names = dict(numbered.named_parameters())
    found = {name: a.astype(np.int64) for name, a in graph.constants.items() if name in names}
    assert found.keys() == names.keys()  # every parameter of the model exists, under its own name
    return found


def arranged(gradients: dict[str, np.ndarray], where: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """torch's gradients in the order of the graph."""
    return {name: gradients[name].reshape(-1)[index] for name, index in where.items()}


def torch_gradients(module, x: np.ndarray, target: np.ndarray, train: bool):
    """Of the mean squared error, in float64; and the module afterwards."""
    twin = copy.deepcopy(module).double().train(train)
    loss = torch.nn.functional.mse_loss(twin(torch.tensor(x, dtype=torch.float64)), torch.tensor(target).double())
    loss.backward()
    return {name: p.grad.numpy() for name, p in twin.named_parameters()}, twin


@pytest.mark.parametrize("family", FAMILIES)
def test_frozen_batch_norms_every_gradient_is_autograds(family):
    """Batch norm in eval mode; the graph as imported, one sample, in float32."""
    module, example = FAMILIES[family]
    graph = imported(family)
    where = places(module, example)
    builder = Builder.of(graph)
    with build(builder):
        target = builder.input("target", graph.outputs[0].type)
        loss = lookup("mean_squared_error")(graph.outputs[0], target, name="loss")
        grads = differentiate(builder, loss, [graph.values[name] for name in where])
    x = example[0].numpy()
    goal = np.random.default_rng(0).normal(size=graph.outputs[0].shape).astype(np.float32)
    found = evaluate(builder.graph(*grads.values()), x, goal)
    wanted, _ = torch_gradients(module, x, goal, train=False)
    close(dict(zip(grads, found)), arranged(wanted, where))


@pytest.mark.parametrize("family", FAMILIES)
def test_train_mode_every_gradient_the_c_computes_is_autograds(family):
    """Batch norm on the statistics of four samples; the generated C; no dropout, because its masks differ."""
    module, example = FAMILIES[family]
    where = places(module, example)
    module = without_dropout(module)
    graph = load(module, example)
    scheme = read_scheme("full", layers(graph))
    step = train_graphs(graph, scheme, Recipe(loss="mse"), samples=SAMPLES, head=None)["train_step"]
    rng = np.random.default_rng(0)
    x = rng.normal(size=step.inputs[0].shape).astype(np.float32)
    goal = rng.normal(size=step.inputs[1].shape).astype(np.float32)
    gradients = Run(step, {}).gradients
    assert gradients.keys() == where.keys()
    device = open_plans({"predict": plan(replace(step, outputs=tuple(gradients.values())))})
    found = dict(zip(gradients, device.run("predict", x, goal, np.float32(0.1))))
    wanted, twin = torch_gradients(module, x, goal, train=True)
    close(found, arranged(wanted, where))
    state = device.state()
    for name, buffer in twin.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            np.testing.assert_allclose(state[name], buffer.numpy(), rtol=1e-4, atol=1e-5)


def without_dropout(module):
    twin = copy.deepcopy(module)
    for layer in twin.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    return twin


# int8 -------------------------------------------------------------------------------------------

CLASSES = 10
SCHEMES = ["mcunet-5fps/49kb", pytest.param("mcunet-5fps/99kb", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=SCHEMES)
def trained(request, shared_models):
    """(graphs, the C opened with every gradient as an output, input, label, torch's simulation after backward)"""
    graph = replace_head(load(shared_models / "mcunet-5fps.pkl"), CLASSES, init="uniform")
    scheme = read_scheme(request.param, [layer for layer in layers(graph) if layer.name != "head"])
    graphs = train_graphs(graph, scheme, Recipe(arithmetic="master", clip=0.0))
    rng = np.random.default_rng(3)
    x = np.clip(np.cumsum(rng.normal(size=graph.inputs[0].shape) * 12, axis=2), -128, 127).astype(np.int8)
    label = np.array([7], np.int32)
    output, leaves, env = simulate(graphs["predict"], graphs["predict"].state, x)
    torch.nn.functional.cross_entropy(output, torch.tensor(label).long()).backward()
    step = graphs["train_step"]
    gradients = Run(step, {}).gradients
    device = open_plans({"predict": plan(graphs["predict"]), "train_step": plan(keep_all(step))})
    return graphs, device, gradients, x, label, leaves, env


def agree(name: str, a: np.ndarray, b: np.ndarray) -> None:
    a, b = (v.reshape(-1).astype(np.float64) for v in (a, b))
    norms = np.linalg.norm(a), np.linalg.norm(b)
    assert norms[1] > 0, f"{name}: no gradient arrives"
    assert a @ b / (norms[0] * norms[1]) > 0.9999, name
    assert abs(norms[0] / norms[1] - 1) < 1e-3, name


def test_the_simulation_computes_the_same_integers(trained):
    """Otherwise its gradients would belong to another network."""
    graphs, _, _, x, _, _, env = trained
    values = evaluate(graphs["predict"], x, keep=True)
    for v in graphs["predict"].values.values():
        if v.dtype == "s8" and v.name in env and v.type.quant and not v.type.quant.per_channel:
            simulated = env[v.name].detach().numpy() / v.type.scale + v.type.zero
            gap = np.abs(simulated - values[v.name])
            assert gap.max() < 1.01 and np.mean(gap > 0.5) < 0.01, v.name  # except for ties


def test_int8_gradients_are_those_of_straight_through_autograd(trained):
    _, device, gradients, x, label, leaves, _ = trained
    before = device.state()
    values = device.run("train_step", x, label, np.float32(0))
    found = {v.name: a for v, a in zip(device.routines["train_step"].outputs, values)}
    device.load_arrays(before)
    assert len(gradients) > 20 and any(name.endswith(".trained") for name in gradients)
    for name, g in gradients.items():
        agree(name, found[g.name], leaves[name].grad.numpy())


def test_scaled_int8_steps_are_those_of_the_real_parameters(trained):
    """In integers, torch's gradient times 1/scale^2: the gradient of the integer is scale times that of the real."""
    graphs, device, gradients, x, label, leaves, _ = trained
    types = graphs["train_step"].values
    before = device.state()
    steps = [stepped(device, before, x, label, np.float32(10.0**k)) for k in range(-5, 5)]
    for name in gradients:
        t = types[name].type
        if t.quant is None:
            continue
        scale = t.quant.scales(t.rank)
        wanted = scale * leaves[name].grad.numpy() / scale**2
        held, enough, most = (f"{name}.master", 0.5, 10) if t.dtype == "s8" else (name, 3e3, 1e8)
        rate, change = next((r, c[held]) for r, c in steps[::-1] if enough < np.abs(c[held]).max() < most)
        free = np.abs(before[held] - change) < 126 if t.dtype == "s8" else np.ones(t.shape, bool)
        agree(name, np.where(free, change / rate, 0), np.where(free, wanted, 0))


def stepped(device, before, x, label, rate):
    """(the rate, name -> by how much each persistent value decreased in one step)"""
    device.load_arrays(before)
    device.run("train_step", x, label, rate)
    after = device.state()
    device.load_arrays(before)
    return float(rate), {name: before[name].astype(np.float64) - after[name] for name in before}
