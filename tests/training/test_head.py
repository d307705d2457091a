"""The classifier is found, replaced, kept in float, started from class means, and grown."""

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.errors import GraphError
from insitu.graph import Graph, check, evaluate
from insitu.importers import load
from insitu.learner.model import Model
from insitu.training.head import find_head, prototypes, replace_head, widen_head
from insitu.training.integer_head import integer_head

from ..models import families, imported


class Named(nn.Module):
    """A network whose own layers have names like ours."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 5)
        self.classifier = nn.Linear(5, 3)

    def forward(self, x):
        return torch.softmax(self.classifier(torch.relu(self.head(x))), -1)


CLASSIFIERS = [name for name in families() if name != "autoencoder"]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_head_of_every_family_is_found_and_replaced(name):
    graph = check(replace_head(imported(name), 7, init="uniform", seed=3))
    assert graph.outputs[0].shape == (1, 7) and graph.outputs[0].name == "head"


def test_without_classes_the_old_weights_give_the_old_logits():
    module, example = families()["mobilenet_v2"]
    graph = replace_head(imported("mobilenet_v2"), None)
    with torch.no_grad():
        want = module(*example).numpy()
    np.testing.assert_allclose(evaluate(graph, example[0].numpy(), precision=np.float64), want, atol=1e-5)


def test_the_old_head_of_an_int8_model_is_dequantised_bias_included():
    module, example = families()["mlp"]
    x = np.random.default_rng(0).normal(size=(50, *example[0].shape[1:])).astype(np.float32)
    model = Model(load(module, example)).quantize(x)
    graph = replace_head(model.graph, None)
    step = model.graph.producer[model.graph.outputs[0].name].inputs[0].type.scale  # the old output was rounded to this
    for one in x[:9]:
        np.testing.assert_allclose(evaluate(graph, one[None]), evaluate(model.graph, one[None]), atol=step)


def positive(*end: nn.Module) -> nn.Module:
    """A classifier whose logits are all positive."""
    module = nn.Sequential(nn.Linear(6, 3), *end).eval()
    nn.init.constant_(module[0].bias, 9.0)
    return module


def test_an_int8_classifier_that_calibration_saw_positive_only_is_kept():
    x = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    graph = replace_head(Model(load(positive(), torch.zeros(1, 6))).quantize(x).graph, None)
    assert graph.outputs[0].shape == (1, 3)
    with pytest.raises(GraphError, match="ends in a ReLU"):
        replace_head(Model(load(positive(nn.ReLU()), torch.zeros(1, 6))).quantize(x).graph, None)


@pytest.mark.parametrize("precision", ["float", "int8"])
@pytest.mark.parametrize(
    "end", [[nn.Sigmoid()], [nn.Softmax(-1)], [nn.ReLU(), nn.Softmax(-1)], [nn.ReLU(), nn.Sigmoid()]]
)
def test_a_classifier_is_found_in_front_of_its_probabilities_in_both_arithmetics(precision: str, end: list[nn.Module]):
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), *end)
    x = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    model = Model(load(module, torch.zeros(1, 6)))
    graph = model.graph if precision == "float" else model.quantize(x).graph
    assert check(replace_head(graph, 5)).outputs[0].shape == (1, 5)


def biasless(precision: str) -> Graph:
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3, bias=False))
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(torch.randn(p.shape, generator=torch.Generator().manual_seed(i)))
    graph = load(module, torch.zeros(1, 6))
    x = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    return graph if precision == "float" else Model(graph).quantize(x).graph


def inputs_of_head(graph: Graph) -> list[str]:
    return [v.name for v in graph.producer["head"].inputs[1:]]


@pytest.mark.parametrize("precision", ["float", "int8"])
def test_a_classifier_without_bias_stays_without(precision):
    graph = check(replace_head(biasless(precision), None))
    assert inputs_of_head(graph) == inputs_of_head(widen_head(graph, 5)) == ["head.weight"]
    assert widen_head(graph, 5).outputs[0].shape == (1, 5)


def test_a_classifier_without_bias_stays_without_after_it_was_saved(tmp_path):
    Model(biasless("int8")).save(tmp_path / "m.insitu")
    assert inputs_of_head(replace_head(load(tmp_path / "m.insitu"), None)) == ["head.weight"]


def test_a_new_classifier_has_a_bias_though_the_old_one_had_none():
    assert inputs_of_head(replace_head(biasless("int8"), 4)) == ["head.weight", "head.bias"]


def test_an_int8_classifier_without_bias_stays_without_and_predicts_the_same():
    graph = replace_head(biasless("int8"), None)
    small = check(integer_head(graph))
    assert inputs_of_head(small) == ["head.weight"]
    for x in np.random.default_rng(1).normal(size=(9, 1, 6)).astype(np.float32):
        np.testing.assert_allclose(evaluate(small, x), evaluate(graph, x), atol=0.2)


@pytest.mark.parametrize("head", ["float", "int8"])
def test_a_classifier_without_bias_learns(head):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(120, 6)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0)
    learner = insitu.compile(Model(biasless("int8")), scheme="last:1", head=head)
    assert "head.bias" not in learner.device.state() and "head.weight" in learner.device.state()
    before = learner.evaluate(x, y)["accuracy"]
    learner.fit(x, y, epochs=5, rate=0.05)
    assert learner.evaluate(x, y)["accuracy"] > max(before, 0.6)


def test_a_model_with_a_layer_called_head_keeps_its_meaning():
    module = Named().eval()
    graph = replace_head(load(module, torch.zeros(1, 6)), None)
    x = torch.randn(1, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        want = module.classifier(torch.relu(module.head(x))).numpy()
    assert graph.outputs[0].name == "head"
    np.testing.assert_allclose(evaluate(check(graph), x.numpy()), want, atol=1e-6)


def test_head_after_takes_the_features_of_that_layer():
    graph = load(Named(), torch.zeros(1, 6))
    assert find_head(graph).name == "classifier"
    made = replace_head(graph, 4, after="head")
    assert made.constants["head.weight"].shape == (4, 5)


@pytest.mark.parametrize(
    "module, shape",
    [(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), (1, 3)), (nn.Sequential(nn.Conv2d(1, 2, 3)), (1, 1, 4, 4))],
)
def test_where_no_layer_is_the_classifier_the_candidates_are_named(module, shape):
    with pytest.raises(GraphError, match="cannot tell") as e:
        replace_head(load(module, torch.zeros(shape)), 3)
    assert "head_after=" in e.value.hint and "0" in e.value.hint


def test_a_wrong_layer_or_number_is_an_error():
    graph = load(Named(), torch.zeros(1, 6))
    for arguments in ({"classes": 0}, {"classes": 3, "after": "nowhere"}, {"classes": 3, "init": "ones"}):
        with pytest.raises(GraphError):
            replace_head(graph, **arguments)
    with pytest.raises(GraphError, match="number of classes"):
        replace_head(graph, None, after="head")


def test_the_same_seed_gives_the_same_head():
    graph = load(Named(), torch.zeros(1, 6))
    a, b, c = (replace_head(graph, 4, init="uniform", seed=s).constants["head.weight"] for s in (1, 1, 2))
    assert (a == b).all() and (a != c).any() and np.abs(a).max() <= 1 / np.sqrt(5)


def test_prototypes_pick_the_nearest_class_mean():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 9)) * 3 + 5
    labels = rng.integers(0, 4, 200)
    features = (centres[labels] + rng.normal(size=(200, 9))).astype(np.float32)
    weight, bias = prototypes(features, labels, 5)
    logits = features @ weight.T + bias
    means = np.stack([features[labels == c].mean(0) for c in range(4)])
    nearest = ((features[:, None] - means) ** 2).sum(2).argmin(1)
    assert (logits[:, :4].argmax(1) == nearest).all()
    assert not weight[4].any() and bias[4] == 0  # no sample of it was seen


def test_logits_of_prototypes_are_neither_flat_nor_wild():
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    for scale in (1e-3, 1.0, 1e3):
        features = (scale * (rng.normal(size=(60, 5)) + np.eye(3, 5)[labels] * 2)).astype(np.float32)
        weight, bias = prototypes(features, labels, 3)
        assert 0.5 < np.abs(features @ weight.T + bias).max() < 100


def test_prototypes_of_a_few_samples_leave_something_to_learn():
    """Each is close to a mean that contains it: judged by that, logits saturate and training stands still."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 5)
    features = (rng.normal(size=(50, 256)) + 0.5 * rng.normal(size=(10, 256))[labels]).astype(np.float32)
    weight, bias = prototypes(features, labels, 10)
    z = features @ weight.T + bias
    wrong = 1 - np.exp(z[np.arange(50), labels] - np.log(np.exp(z - z.max(1, keepdims=True)).sum(1)) - z.max(1))
    assert wrong.mean() > 1e-4


def test_a_wider_head_gives_the_old_logits_and_their_mean():
    graph = replace_head(load(Named(), torch.zeros(1, 6)), None)
    wide = check(widen_head(graph, 5))
    x = np.ones((1, 6), np.float32)
    old, new = evaluate(graph, x), evaluate(wide, x)
    np.testing.assert_allclose(new[:, :3], old, rtol=1e-6)  # numpy may add in another order
    np.testing.assert_allclose(new[:, 3:], np.repeat(old.mean(1, keepdims=True), 2, 1), rtol=1e-5)
    with pytest.raises(GraphError, match="cannot reduce"):
        widen_head(graph, 2)
