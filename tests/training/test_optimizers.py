"""Optimizers, accumulation and clips compared with torch: ten steps, the same losses and the same parameters."""

import numpy as np
import pytest
import torch

from insitu.training.train import Recipe, usual_clip

from .programs import float_programs, opened, samples, torch_model

STEPS = 10

# name -> (recipe, torch's optimizer from its parameter groups)
CASES = {
    "sgd": (Recipe(clip=0.0), lambda p: torch.optim.SGD(p, lr=0.1)),
    "sgd, decay": (Recipe(decay=0.05, clip=0.0), lambda p: torch.optim.SGD(p, lr=0.1)),
    "momentum": (Recipe(optimizer="momentum", clip=0.0), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "momentum, decay": (
        Recipe(optimizer="momentum", momentum=0.8, decay=0.05, clip=0.0),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8),
    ),
    "nesterov": (
        Recipe(optimizer="momentum", nesterov=True, clip=0.0),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    ),
    "sgd, smooth labels": (Recipe(smoothing=0.2, clip=0.0), lambda p: torch.optim.SGD(p, lr=0.1)),
    "adam": (Recipe(optimizer="adam", clip=0.0), lambda p: torch.optim.Adam(p, lr=0.1)),
    "adam, decay": (Recipe(optimizer="adam", decay=0.05, clip=0.0), lambda p: torch.optim.AdamW(p, lr=0.1)),
}
RATE = 0.1


def groups(model, decay: float) -> list[dict]:
    """Weights decay, biases do not."""
    return [{"params": [p], "weight_decay": decay * (p.ndim > 1)} for p in model.parameters()]


def torch_step(model, optimizer, x, y, change=None, smoothing=0.0) -> float:
    optimizer.zero_grad()
    labels = torch.tensor(y).long()
    loss = torch.nn.functional.cross_entropy(model(torch.tensor(x)), labels, label_smoothing=smoothing)
    loss.backward()
    if change:
        change(model)
    optimizer.step()
    return loss.item()


def parameters(model) -> dict[str, np.ndarray]:
    """By name, with the graph's layout: NHWC, the last layer named head."""
    found = {}
    last = str(len(model) - 1)
    for name, p in model.named_parameters():
        layer, kind = name.split(".")
        array = p.detach().numpy()
        array = array.transpose(0, 2, 3, 1) if array.ndim == 4 else array
        found[f"{'head' if layer == last else layer}.{kind}"] = array
    return found


def compare(device, model) -> None:
    state = device.state()
    for name, wanted in parameters(model).items():
        np.testing.assert_allclose(state[name], wanted, rtol=0, atol=1e-4 * max(1, np.abs(wanted).max()), err_msg=name)


@pytest.mark.parametrize("name, kind", [*((name, "cnn") for name in CASES), ("sgd", "mlp"), ("adam", "mlp")])
def test_ten_steps_follow_torch(name, kind):
    recipe, make = CASES[name]
    device, model = opened(float_programs(kind, recipe)), torch_model(kind)
    optimizer = make(groups(model, recipe.decay))
    x, y = samples(kind, STEPS)
    for n in range(STEPS):
        loss, _ = device.run("train_step", x[n : n + 1], y[n : n + 1], RATE)
        theirs = torch_step(model, optimizer, x[n : n + 1], y[n : n + 1], smoothing=recipe.smoothing)
        assert abs(float(loss) - theirs) < 1e-4
    compare(device, model)
    assert not device.state()["counters"].any()


@pytest.mark.parametrize("name", ["sgd", "sgd, smooth labels", "momentum", "adam"])
def test_a_batch_at_once_follows_torch(name):
    recipe, make = CASES[name]
    device, model = opened(float_programs("mlp", recipe, batch=4)), torch_model("mlp")
    optimizer = make(groups(model, recipe.decay))
    x, y = samples("mlp", 4 * STEPS)
    for n in range(0, len(x), 4):
        loss, _ = device.run("train_step", x[n : n + 4], y[n : n + 4], RATE)
        theirs = torch_step(model, optimizer, x[n : n + 4], y[n : n + 4], smoothing=recipe.smoothing)
        assert abs(float(loss) - theirs) < 1e-4
    compare(device, model)


@pytest.mark.parametrize("name", ["sgd", "momentum, decay", "adam, decay"])
def test_gradients_added_up_over_samples_are_those_of_the_mean_loss(name):
    recipe, make = CASES[name]
    device, model = opened(float_programs("cnn", recipe, accumulate=True)), torch_model("cnn")
    optimizer = make(groups(model, recipe.decay))
    x, y = samples("cnn", 5 * STEPS)
    for n in range(0, len(x), 5):
        losses = [device.run("accumulate", x[i : i + 1], y[i : i + 1])[0] for i in range(n, n + 5)]
        device.run("apply", RATE, 1 / 5)
        assert abs(float(np.mean(losses)) - torch_step(model, optimizer, x[n : n + 5], y[n : n + 5])) < 1e-4
    compare(device, model)
    assert all(not v.any() for k, v in device.state().items() if k.endswith(".sum"))


def clip_each(limit: float, model):
    def change(model):
        for p in model.parameters():
            torch.nn.utils.clip_grad_norm_([p], limit)

    return change


def clip_by_head(limit: float, model):
    """Scale all gradients so that the last weight's norm is within the limit."""

    def change(model):
        factor = min(1.0, limit / float(model[-1].weight.grad.norm()))
        for p in model.parameters():
            p.grad *= factor

    return change


def clip_steps(share: float, model):
    """No step is longer than this share of the layer's weights before training."""
    sizes = [max(float(p.detach().norm()) for p in layer.parameters()) for layer in model if list(layer.parameters())]

    def change(model):
        layers = [layer for layer in model if list(layer.parameters())]
        for layer, size in zip(layers, sizes):
            for p in layer.parameters():
                torch.nn.utils.clip_grad_norm_([p], share * size / RATE)

    return change


@pytest.mark.parametrize("kind, clip, make", [("parameter", 0.3, clip_each), ("head", 0.3, clip_by_head),
                                              ("step", 0.003, clip_steps)])  # fmt: skip
@pytest.mark.parametrize("accumulate", [False, True])
def test_clips_do_what_their_names_say(kind, clip, make, accumulate):
    recipe = Recipe(clip=clip, clip_kind=kind)
    device, model = opened(float_programs("cnn", recipe, accumulate=accumulate)), torch_model("cnn")
    change = make(clip, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    x, y = samples("cnn", STEPS)
    for n in range(STEPS):
        one = x[n : n + 1], y[n : n + 1]
        if accumulate:
            loss, _ = device.run("accumulate", *one)
            device.run("apply", RATE, 1.0)
        else:
            loss, _ = device.run("train_step", *one, RATE)
        assert abs(float(loss) - torch_step(model, optimizer, *one, change)) < 1e-4
    compare(device, model)
    assert device.state()["counters"][1] > 0


def test_a_clip_is_on_by_default_and_keeps_one_wild_sample_from_ruining_all():
    x, y = samples("mlp", 1)
    for recipe in (usual_clip(Recipe(), untrained=False), Recipe(clip=0.0)):
        device = opened(float_programs("mlp", recipe))
        before = {k: v for k, v in device.state().items() if v.dtype == np.float32}
        device.run("train_step", 1e4 * x, y, 1.0)
        moved = {k: float(np.linalg.norm(device.state()[k] - v)) for k, v in before.items()}
        for name, norm in moved.items():
            size = float(np.linalg.norm(before[name.replace("bias", "weight")]))
            assert norm < 1.01 * 0.1 * size or not recipe.clip
        assert recipe.clip or max(moved.values()) > 100
