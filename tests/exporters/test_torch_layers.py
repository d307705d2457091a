"""Every kind of parameter comes back: into the user's module, and in a state dict that loads into it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.errors import DataError
from insitu.exporters.compared import distance

from .torch_nets import CLASSES, NETS, Computed, net

# without the module, a state dict has no batch norm that was folded, and a bare scale in another shape
OTHERWISE = {"norm_first", "scale"}


def trained(module: nn.Module, shape, precision: str = "float", **options) -> tuple[insitu.Learner, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(12, *shape)).astype(np.float32)
    options = {"scheme": "full" if precision == "float" else "last:1", **options}
    made = insitu.compile(module, example=torch.zeros(1, *shape), data=x, precision=precision, **options)
    made.fit(x, np.arange(12) % CLASSES, epochs=2, rate=0.05)
    return made, x


def outputs(module: nn.Module, x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return module.eval()(torch.from_numpy(x)).numpy()


@pytest.mark.parametrize("name", NETS)
def test_a_float_learner_goes_back_into_its_module_and_its_state_dict_loads(name: str, tmp_path):
    module, shape = net(name)
    made, x = trained(module, shape)
    if name not in OTHERWISE:
        again, _ = net(name)
        again.load_state_dict(loaded(made, tmp_path, again))
        assert distance(outputs(again, x), made.predict(x)) < 1e-5
    before = {key: t.clone() for key, t in module.state_dict().items()}
    insitu.export.into(module, made)
    assert distance(outputs(module, x), made.predict(x)) < 1e-5
    state = made.graphs["predict"].state
    kept = {"0.bias"} if name == "norm_first" else set()  # the norm behind it takes up the rest
    assert all(not torch.equal(t, before[key]) for key, t in module.state_dict().items() if key in set(state) - kept)


@pytest.mark.parametrize("name", [n for n in NETS if n != "rms_norm"])
def test_an_int8_learner_goes_back_into_its_module(name: str, tmp_path):
    module, shape = net(name)
    made, x = trained(module, shape, "int8")
    if name not in OTHERWISE | {"gamma", "prelu_of_one"}:  # folded into the next layer; part of a table
        again, _ = net(name)
        again.load_state_dict(loaded(made, tmp_path, again))
        assert distance(outputs(again, x), made.predict(x)) < 0.1
    insitu.export.into(module, made)
    assert distance(outputs(module, x), made.predict(x)) < 0.1


def loaded(made: insitu.Learner, folder, module: nn.Module) -> dict[str, torch.Tensor]:
    """The file's state dict, with the module's own name for the classifier."""
    state = torch.load(made.export(folder / "net.pt").path, weights_only=True)
    own = list(module.state_dict())[-1].rpartition(".")[0]
    names = {"head.weight": f"{own}.weight", "head.bias": f"{own}.bias"}
    return {names.get(str(key), str(key)): tensor for key, tensor in state.items()}


@pytest.mark.parametrize("scheme", ["head", "last:1"])
def test_a_scale_that_was_folded_into_the_next_layer_stays_and_the_layer_is_divided_by_it(scheme: str):
    module, shape = net("gamma")
    made, x = trained(module, shape, scheme=scheme)
    before = module.state_dict()["gamma"].clone()
    insitu.export.into(module, made)
    assert torch.equal(module.state_dict()["gamma"], before)
    assert distance(outputs(module, x), made.predict(x)) < 1e-5


def weight_normed() -> nn.Module:
    torch.manual_seed(0)
    first = nn.utils.parametrizations.weight_norm(nn.Linear(6, 8))
    return nn.Sequential(first, nn.ReLU(), nn.Linear(8, CLASSES)).eval()


def test_a_weight_that_the_module_computes_is_never_left_out_however_little_it_learned():
    """Its outputs would be off by less than what a float learner's may be."""
    module, x = weight_normed(), np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32)
    before = {key: t.clone() for key, t in module.state_dict().items()}
    options = {"precision": "float", "scheme": "full", "head_init": "own", "classes": CLASSES}
    made = insitu.compile(module, example=torch.zeros(1, 6), data=x, **options)
    made.fit(x, np.arange(12) % CLASSES, epochs=1, rate=0.0001)
    with pytest.raises(DataError, match=r"less than 1%.*_weight_norm: computed by the module"):
        insitu.export.into(module, made)
    assert all(torch.equal(t, before[key]) for key, t in module.state_dict().items())


def test_a_weight_that_the_module_computes_may_stay_if_it_learned_nothing():
    module = weight_normed()
    made, x = trained(module, (6,), scheme="head")
    insitu.export.into(module, made)
    assert distance(outputs(module, x), made.predict(x)) < 1e-5


def test_a_state_dict_says_whose_shape_it_does_not_know_and_has_it_with_the_module(tmp_path):
    module, shape = net("scale")
    made, _ = trained(module, shape)
    notes = made.export(tmp_path / "net.pt").notes
    assert "in insitu's own shape: 2.scale; module=net writes the shapes of your own module" in notes
    state = torch.load(made.export(tmp_path / "net.pt", module=module).path, weights_only=True)
    assert state["2.scale"].shape == (6, 1, 1)


def test_statistics_learned_over_batches_go_back_too(tmp_path):
    module, shape = net("norm_first")
    made, x = trained(module, shape, batch=4)
    again, _ = net("norm_first")
    again.load_state_dict(loaded(made, tmp_path, again), strict=False)  # without the counts of batches
    before = module.state_dict()["1.running_mean"].clone()
    for one in (insitu.export.into(module, made), again):
        assert distance(outputs(one, x), made.predict(x)) < 1e-5
        assert not torch.equal(one.state_dict()["1.running_mean"], before)


def test_a_factor_that_the_module_computes_is_named_in_the_refusal():
    torch.manual_seed(0)
    module = Computed().eval()
    made, _ = trained(module, (6,))
    before = {key: t.clone() for key, t in module.state_dict().items()}
    with pytest.raises(insitu.DataError, match=r"add: computed by the module, not a parameter of it"):
        insitu.export.into(module, made)
    assert all(torch.equal(t, before[key]) for key, t in module.state_dict().items())
