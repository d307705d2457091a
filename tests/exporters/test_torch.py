"""What was learned, back in the user's own module."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.exporters.compared import distance

from ..learners import data, learner, mlp
from ..models import families

FAMILIES = ["flat_cnn", "cnn1d", *(pytest.param(name, marks=pytest.mark.slow) for name in ("resnet8", "mobilenet_v2"))]


def of_family(name: str, precision: str) -> tuple[nn.Module, insitu.Learner, np.ndarray]:
    module, example = families()[name]
    x = np.random.default_rng(0).normal(size=(12, *example[0].shape[1:])).astype(np.float32)
    scheme = "full" if precision == "float" else "last:2"
    made = insitu.compile(module, example=example[0], data=x, precision=precision, scheme=scheme)
    made.fit(x, np.arange(12) % made.classes, epochs=1, rate=0.01)
    return module, made, x


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("precision", ["float", "int8"])
def test_the_module_computes_what_the_learner_computes(name: str, precision: str):
    module, made, x = of_family(name, precision)
    names, before = list(module.state_dict()), module(torch.from_numpy(x)).detach().numpy()
    assert insitu.export.into(module, made) is module
    assert list(module.state_dict()) == names
    got, want = logits(name, module, x), made.predict(x)
    assert distance(got, want) < (1e-3 if precision == "float" else 0.25)
    assert distance(got, want) < distance(before, want) or precision == "int8"


def logits(name: str, module: nn.Module, x: np.ndarray) -> np.ndarray:
    """The module's outputs; a learner has no softmax behind its classifier."""
    if name == "flat_cnn":
        outputs = []
        module.fc2.register_forward_hook(lambda _m, _i, out: outputs.append(out.detach().numpy()))
        module(torch.from_numpy(x))
        return outputs[-1]
    return module(torch.from_numpy(x)).detach().numpy()


def test_a_module_with_other_classes_is_refused_and_stays():
    x, y = data(40)
    module, made = mlp(classes=7), learner(module=mlp())
    made.fit(x, y, epochs=1, rate=0.1)
    before = {name: t.clone() for name, t in module.state_dict().items()}
    with pytest.raises(insitu.DataError, match="the learner has 4 outputs here, the module 7"):
        insitu.export.into(module, made)
    assert all(torch.equal(t, before[name]) for name, t in module.state_dict().items())


class ZeroBranch(nn.Module):
    """A residual branch whose last norm starts at zero, as ResNets are usually built."""

    def __init__(self):
        super().__init__()
        self.stem, self.conv, self.norm = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.classifier = nn.Linear(6, 4)
        nn.init.zeros_(self.norm.weight)
        nn.init.uniform_(self.norm.running_mean)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        return self.classifier(torch.relu(x + self.norm(self.conv(x))).mean((2, 3)))


@pytest.mark.parametrize("scheme", ["head", "full"])
def test_a_branch_that_starts_at_zero_keeps_its_weights_and_takes_what_was_learned(scheme: str):
    torch.manual_seed(0)
    module, x = ZeroBranch().eval(), np.random.default_rng(0).normal(size=(12, 3, 8, 8)).astype(np.float32)
    before = module.conv.weight.detach().clone()
    made = insitu.compile(module, example=torch.zeros(1, 3, 8, 8), scheme=scheme, precision="float")
    made.fit(x, np.arange(12) % 4, epochs=2, rate=0.1)
    insitu.export.into(module, made)
    assert distance(module(torch.from_numpy(x)).detach().numpy(), made.predict(x)) < 1e-5
    assert module.conv.weight.abs().max() > 0
    assert torch.equal(module.conv.weight, before) == (scheme == "head")


def test_a_state_dict_loads_into_the_module(tmp_path):
    x, y = data(40)
    module, made = mlp(), learner(module=mlp(), classes=None)
    made.fit(x, y, epochs=1, rate=0.1)
    for options in ({"module": module}, {}):
        path = made.export(tmp_path / "net.pt", **options).path
        state = torch.load(path, weights_only=True)
        if not options:  # layers by their own names; the classifier's is `head`
            state = {name.replace("head.", "4."): t for name, t in state.items()}
        module.load_state_dict(state)
        np.testing.assert_allclose(module(torch.from_numpy(x)).detach().numpy(), made.predict(x), atol=1e-5)


def test_a_trained_layer_norm_goes_back_too(tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 9), nn.LayerNorm(9), nn.GELU(), nn.Linear(9, 3)).eval()
    x = np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32)
    made = insitu.compile(module, example=torch.zeros(1, 6), precision="float", scheme="full")
    made.fit(x, np.arange(12) % 3, epochs=2, rate=0.05)
    made.export(tmp_path / "net.pt")
    assert {"1.weight", "1.bias"} <= set(torch.load(tmp_path / "net.pt"))
    assert not torch.equal(insitu.export.into(module, made)[1].weight, torch.ones(9))
    assert distance(module(torch.from_numpy(x)).detach().numpy(), made.predict(x)) < 1e-5


@pytest.mark.parametrize(("options", "words"), [
    ({"mean": "a"}, "mean must be a number, or one per channel, not 'a'"),
    ({"std": (1, 0, 1)}, "std must be above 0, not 0"),
])  # fmt: skip
def test_a_wrong_mean_or_std_is_an_error_before_anything_is_written(options, words, tmp_path):
    with pytest.raises(insitu.DataError, match=words):
        learner().export(tmp_path / "net.pt", **options)
    assert not list(tmp_path.iterdir())


def test_a_classifier_that_is_a_convolution_before_the_mean_goes_back_too():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Conv2d(6, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x = np.random.default_rng(0).normal(size=(12, 2, 7, 6)).astype(np.float32)
    learner = insitu.compile(module.eval(), data=(x, np.arange(12) % 3), precision="float", scheme="full")
    learner.fit(x, np.arange(12) % 3, epochs=2, rate=0.05)
    with torch.no_grad():
        got = insitu.export.into(module, learner)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(got, learner.predict(x), atol=1e-5)


def relying_on_saturation() -> tuple[nn.Module, insitu.Learner, np.ndarray]:
    """An int8 learner whose features have left int8's range: every other bias of its first layer is far too large."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    x = np.random.default_rng(0).normal(size=(64, 6)).astype(np.float32)
    made = insitu.compile(module, example=torch.zeros(1, 6), data=x, scheme="full")
    bias = made.device.state()["0.bias"]
    made.device.load_arrays({"0.bias": bias + np.where(np.arange(16) % 2, 100_000, 0).astype(np.int32)})
    return module, made, x


def test_a_state_dict_that_cannot_say_what_saturates_is_refused(tmp_path):
    _, made, x = relying_on_saturation()
    with pytest.raises(insitu.DataError, match=r'off by \d+% of the largest output: \d+% of .* layer "0" sat'):
        made.export(tmp_path / "net.pt", data=x)
    assert not (tmp_path / "net.pt").exists()


def test_a_module_that_cannot_say_what_saturates_is_refused_with_this_reason():
    module, made, _ = relying_on_saturation()
    with pytest.raises(insitu.DataError, match='of the values of layer "0" saturate in int8') as e:
        insitu.export.into(module, made)
    assert 'precision="float"' in str(e.value)


def test_a_state_dict_says_how_near_a_module_of_it_comes(tmp_path):
    x, _ = data(40)
    notes = learner(precision="int8", data=x).export(tmp_path / "net.pt", data=x).notes
    assert any(note.startswith("a module of these weights computes the learner's outputs within") for note in notes)


def test_module_and_learner_in_the_wrong_order_are_told_apart():
    module = mlp()
    with pytest.raises(insitu.DataError, match="the module comes first"):
        insitu.export.into(learner(module=module), module)
