"""torch modules become graphs that compute the same, in numpy and in the generated C."""

import numpy as np
import pytest
import torch
from torch import nn

from insitu.graph import evaluate
from insitu.importers.torch.read import read_torch
from tests.importers.torch_agrees import agrees, close, ops, reference
from tests.models import Mlp, conv_bn, families, imported, others, randomise

FAMILIES = families()


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
    device = open_host(fold(imported(name)))
    y = device.predict(*(x.numpy() for x in example))
    assert close(y, reference(module, *example))


@pytest.mark.parametrize("name", FAMILIES)
def test_one_change_of_layout_at_the_input_and_none_between(name):
    graph = imported(name)
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
    graph = imported("resnet8")
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
