"""Tables whose columns differ in range by far: no column loses its values in int8."""

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.graph import evaluate
from insitu.ops.normalize import normalize
from insitu.quantizer.columns import absorbed, uneven, with_even_columns

rng = np.random.default_rng(0)
TABLE = rng.normal((20, 600, 1013, 0.5), (5, 150, 3, 0.2), (200, 4)).astype(
    np.float32
)  # temperature, CO2, pressure, ...
EVEN = ((TABLE - TABLE.mean(0)) / TABLE.std(0)).astype(np.float32)


def module(x: np.ndarray) -> nn.Module:
    """A network that uses every column as much as any other."""
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
    with torch.no_grad():
        made[0].weight /= torch.tensor(x.std(0))
        made[0].bias -= made[0].weight @ torch.tensor(x.mean(0))
    return made


def test_int8_keeps_the_values_of_a_narrow_column():
    net = module(TABLE)
    made = insitu.compile(net, example=torch.zeros(1, 4), data=TABLE, scheme="full")
    wanted = net(torch.tensor(TABLE)).detach().numpy()
    assert np.abs(made.predict(TABLE) - wanted).max() < 0.05 * np.abs(wanted).max()
    assert any(node.op is normalize for node in made.graphs["predict"].nodes)


def test_even_columns_are_left_alone():
    assert uneven(TABLE) and not uneven(EVEN) and not uneven(np.zeros((5, 3), np.float32))
    made = insitu.compile(module(EVEN), example=torch.zeros(1, 4), data=EVEN, scheme="full")
    assert not any(node.op is normalize for node in made.graphs["predict"].nodes)


def test_in_float_nothing_changes_and_it_can_be_undone():
    graph = insitu.load(module(TABLE), torch.zeros(1, 4)).graph
    even = with_even_columns(graph, TABLE)
    wanted = [evaluate(graph, x[None], precision=np.float64) for x in TABLE[:9]]
    for other in (even, absorbed(even)):
        np.testing.assert_allclose(
            [evaluate(other, x[None], precision=np.float64) for x in TABLE[:9]], wanted, atol=1e-3
        )
    assert not any(node.op is normalize for node in absorbed(even).nodes)


def test_what_was_learned_goes_back_into_the_module():
    pytest.importorskip("onnx", reason="the exporters")
    net = module(TABLE)
    made = insitu.compile(net, example=torch.zeros(1, 4), data=TABLE, scheme="full")
    made.fit(TABLE, TABLE[:, 0] > 20, epochs=2, rate=0.01)
    insitu.export.into(net, made)
    wanted = made.predict(TABLE)
    assert np.abs(net(torch.tensor(TABLE)).detach().numpy() - wanted).max() < 0.1 * np.abs(wanted).max()
