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


def raw_table(count: int = 200) -> tuple[np.ndarray, np.ndarray, nn.Module]:
    """Columns around 20 to 1,013, a class that depends on two narrow ones, and a network with random weights."""
    torch.manual_seed(0)
    noise = np.random.default_rng(1).normal(size=(count, 4))
    x = (noise * (5, 150, 3, 0.2) + (20, 600, 1013, 0.5)).astype(np.float32)
    return x, (noise[:, 2] > 0) + 2 * (noise[:, 3] > 0), nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4))


def test_a_random_float_network_learns_from_raw_columns():
    x, y, net = raw_table()
    made = insitu.compile(net.eval(), data=x[:120], precision="float")
    made.fit(x[:120], y[:120])
    assert made.evaluate(x[120:], y[120:])["accuracy"] > 0.85


@pytest.mark.parametrize("ending", ["torch", "onnx", "tflite"])
def test_such_a_float_network_is_exported_for_raw_columns(ending, tmp_path):
    pytest.importorskip("onnx", reason="the exporters")
    x, y, net = raw_table()
    made = insitu.compile(net.eval(), data=x[:120], precision="float")
    made.fit(x[:120], y[:120], epochs=3, rate=0.01)
    if ending == "torch":
        insitu.export.into(net, made)
        found = net(torch.tensor(x)).detach().numpy()
    else:
        path = made.export(tmp_path / f"made.{ending}")
        assert path
        found = insitu.compile(tmp_path / f"made.{ending}", precision="float", data=x).predict(x)
    np.testing.assert_allclose(found, made.predict(x), atol=2e-3 * np.abs(found).max())


def test_a_trained_float_network_takes_raw_columns_as_they_are():
    made = insitu.compile(module(TABLE), example=torch.zeros(1, 4), data=TABLE, precision="float", scheme="full")
    assert not any(node.op is normalize for node in made.graphs["predict"].nodes)
