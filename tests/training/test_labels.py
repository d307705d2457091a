"""The loss and its labels: a label that is not a class is skipped and counted, and a small loss keeps its digits."""

import numpy as np
import pytest

import insitu
from insitu.demo import TARGET, digits
from insitu.devices.host import open_host
from insitu.graph import Type, build, f32, lookup


@pytest.mark.parametrize("label", [-1, 10, 2_000_000_000])
def test_a_label_that_is_no_class_changes_nothing_but_the_counter(label):
    pytest.importorskip("sklearn")
    data = digits()
    device = insitu.compile(TARGET, data=data.x_train[:50], scheme="last:1").device
    before = device.state()
    loss, _ = device.run("train_step", data.x_train[:1], np.array([label], np.int32), np.float32(0.1))
    after = device.state()
    assert np.isnan(loss)
    assert after["counters"].tolist() == [1, 0, 0]
    assert all((before[name] == after[name]).all() for name in before if name != "counters")


@pytest.mark.parametrize("margin", [5.0, 12.0, 25.0])
def test_the_loss_of_a_sample_that_is_known_well_keeps_its_digits(margin):
    """log(1 + s) of a small s, compared with torch in float64, relative to the loss itself and not to the logits."""
    torch = pytest.importorskip("torch")
    x = np.array([[0.3, margin + 0.7, -1.2, 0.1]], np.float32)
    with build("net") as b:
        logits = b.input("x", f32(1, 4))
        loss = lookup("softmax_cross_entropy")(logits, b.input("labels", Type("s32", (1,))))
    found = open_host(b.graph(loss)).predict(x, np.array([1], np.int32))
    exact = torch.nn.functional.cross_entropy(torch.tensor(x, dtype=torch.float64), torch.tensor([1]))
    assert np.asarray(found).item() == pytest.approx(float(exact), rel=1e-6)
