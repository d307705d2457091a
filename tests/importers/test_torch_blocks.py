"""What torch.export keeps as more than a list of ops: writes in place, views, blocks under no_grad or autocast."""

import numpy as np
import pytest
import torch
from torch import nn

from insitu.errors import Unsupported
from insitu.graph import evaluate
from insitu.importers.torch.read import read_torch
from tests.importers.torch_agrees import agrees, close, ops, reference
from tests.models import randomise


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
