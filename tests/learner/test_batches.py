"""Batches that a float network takes at once on the host: the same learning as sample by sample."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.devices.device import Updates
from insitu.devices.host import HostDevice
from insitu.learner.together import faster_together
from insitu.training.parts import Parts
from tests.learners import data, learner, mlp

BATCH, COUNT = 8, 30  # the last batch of an epoch has six samples
RATE = 0.02


def dropping() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4)).eval()


def filtering() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, stride=2, groups=6), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6, 4)).eval()  # fmt: skip


def images(count: int = COUNT) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(1).standard_normal((count, 2, 6, 6)).astype(np.float32)
    return x, np.arange(count) % 4


NETWORKS = {"mlp": (None, data), "dropout": (dropping, data), "cnn": (filtering, images)}
RECIPES = {
    "sgd": insitu.Recipe(),
    "momentum, clipped": insitu.Recipe(optimizer="momentum", clip=0.3),
    "clipped by the head": insitu.Recipe(clip=0.3, clip_kind="head"),
    "adam, decay": insitu.Recipe(optimizer="adam", decay=0.01),
}


def made(network: str, recipe: insitu.Recipe, **options) -> insitu.Learner:
    module, samples = NETWORKS[network]
    if module is None:
        return learner(batch=BATCH, recipe=recipe, **options)
    example = torch.from_numpy(samples(1)[0])
    return insitu.compile(module(), example=example, precision="float", scheme="full", batch=BATCH, recipe=recipe)


def one_by_one(monkeypatch) -> None:
    """From now on, learners take samples one by one."""
    monkeypatch.setattr(Parts, "batch_graphs", lambda self, batch: None)


def shared(losses) -> np.ndarray:
    """Each sample's loss, or the mean of its batch if that is taken at once: [epochs, samples]."""
    found = np.array(losses)
    whole = found[:, : COUNT // BATCH * BATCH].reshape(len(found), -1, BATCH)
    whole[...] = whole.mean(2, keepdims=True)
    found[:, : COUNT // BATCH * BATCH] = whole.reshape(len(found), -1)
    return found


def learning(made_here: insitu.Learner) -> HostDevice:
    """The device that learned in the last fit."""
    assert made_here._pupils.whole is not None
    return made_here._pupils.whole


def near(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], tolerance: float = 2e-5) -> None:
    assert set(found) == set(wanted)
    for name, b in wanted.items():
        assert np.abs(found[name] - b).max() <= tolerance * max(np.abs(b).max(), 1e-3), name


@pytest.mark.parametrize("network, recipe", [("mlp", "sgd"), ("mlp", "clipped by the head"), ("cnn", "adam, decay"),
                                             ("dropout", "adam, decay"), ("cnn", "momentum, clipped")])  # fmt: skip
def test_a_batch_at_once_learns_what_its_samples_teach_one_by_one(monkeypatch, network, recipe):
    x, y = NETWORKS[network][1](COUNT)
    together = made(network, RECIPES[recipe])
    history = together.fit(x, y, epochs=3, rate=RATE)
    one_by_one(monkeypatch)
    alone = made(network, RECIPES[recipe])
    wanted = alone.fit(x, y, epochs=3, rate=RATE)
    near(together.device.state(), alone.device.state())
    assert together.device.state()["counters"].tolist() == alone.device.state()["counters"].tolist()
    np.testing.assert_allclose(history.losses, shared(wanted.losses), rtol=1e-5)
    np.testing.assert_allclose(history.accuracy, wanted.accuracy)


def test_whole_batches_go_through_the_network_together_and_a_rest_does_not(monkeypatch):
    """The gradients of 8, 8, 8 and 6 samples: three calls, and six that add up."""
    made_here, calls = learner(batch=BATCH), []
    made_here.fit(*data(COUNT), epochs=1, rate=RATE)
    device = learning(made_here)
    bound, batches = device.bound, device.train_batches

    def counted(verb, *arguments):
        call = bound(verb, *arguments)
        return lambda *given: (calls.append(verb), call(*given))

    def counted_batches(places, rates, *arguments):
        calls.extend(["train_step"] * len(rates))
        batches(places, rates, *arguments)

    monkeypatch.setattr(device, "bound", counted)
    monkeypatch.setattr(device, "train_batches", counted_batches)
    device._crew = None
    made_here.fit(*data(COUNT), epochs=1, rate=RATE)
    assert calls == ["train_step"] * 3 + ["accumulate"] * 6 + ["apply"]


def test_the_weights_are_those_of_torch():
    x, y = data(COUNT)
    made_here, model = learner(batch=BATCH, classes=None), mlp().train()
    made_here.fit(x, y, epochs=2, rate=RATE, schedule="constant", warmup=0, seed=5)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for epoch in range(2):
        order = np.random.default_rng((5, epoch)).permutation(COUNT)
        for start in range(0, COUNT, BATCH):
            chosen = order[start : start + BATCH]
            optimizer.zero_grad()
            nn.CrossEntropyLoss()(model(torch.from_numpy(x[chosen])), torch.from_numpy(y[chosen])).backward()
            optimizer.step()
    with torch.no_grad():
        wanted = model(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(made_here.predict(x), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_another_batch_than_compiled_for_is_taken_at_once_too():
    found = learner(batch=BATCH)
    found.fit(*data(COUNT), epochs=1, rate=RATE, batch=5)
    assert learning(found).verbs["train_step"][0][0].shape == (5, 6)
    found.fit(*data(COUNT), epochs=1, rate=RATE, batch=1)
    assert "train_step" not in learning(found).verbs


def test_a_state_moves_between_learners_that_take_batches_and_that_do_not(monkeypatch, tmp_path):
    together = learner(batch=BATCH)
    together.fit(*data(COUNT), epochs=1, rate=RATE)
    together.save(tmp_path / "state.bin")
    one_by_one(monkeypatch)
    alone = learner(batch=BATCH)
    alone.load(tmp_path / "state.bin")
    assert alone.device.save_state() == together.device.save_state()


def test_frozen_layers_are_cached_and_the_rest_takes_batches(monkeypatch):
    x, y = data(COUNT)
    found = learner(scheme="head", batch=BATCH)
    found.fit(x, y, epochs=3, rate=RATE)
    assert found._pupils.cut is not None
    assert found._pupils.cut.rest.verbs["train_step"][0][0].shape[0] == BATCH
    one_by_one(monkeypatch)
    alone = learner(scheme="head", batch=BATCH)
    alone.fit(x, y, epochs=3, rate=RATE)
    near(found.device.state(), alone.device.state())


def test_with_threads_samples_go_one_by_one(monkeypatch):
    x, y = data(COUNT)
    found = learner(batch=BATCH)
    assert found.fit(x, y, epochs=1, rate=RATE, threads=2).threads == 2
    one_by_one(monkeypatch)
    alone = learner(batch=BATCH)
    alone.fit(x, y, epochs=1, rate=RATE)
    assert found.device.save_state() == alone.device.save_state()


def working(places: int) -> nn.Module:
    """A convolution whose weights are used at this many rows and columns."""
    torch.manual_seed(4)
    return nn.Sequential(nn.Conv2d(2, 48, 3, padding=1), nn.ReLU(), nn.AvgPool2d(places), nn.Flatten(),
                         nn.Linear(48, 4)).eval()  # fmt: skip


def seen(places: int, **options) -> insitu.Learner:
    """A learner that has seen one batch."""
    x = np.random.default_rng(1).standard_normal((BATCH, 2, places, places)).astype(np.float32)
    found = insitu.compile(working(places), example=torch.from_numpy(x[:1]), precision="float", batch=BATCH, **options)
    found.fit(x, np.arange(BATCH) % 4, epochs=1, rate=RATE)
    return found


def test_threads_share_the_samples_of_a_network_with_much_work_per_weight():
    assert "train_step" in learning(seen(8, scheme="full")).verbs  # so little work that threads cost more
    assert set(learning(seen(32, scheme="full")).verbs) == {"predict", "accumulate", "apply"}


def test_a_dense_head_takes_batches_behind_cached_layers_with_much_work():
    found = seen(32, scheme="head")._pupils.cut
    assert found is not None
    assert found.rest.verbs["train_step"][0][0].shape[0] == BATCH


def test_wide_dense_layers_take_batches_however_much_work_they_are():
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(600, 1000), nn.ReLU(), nn.Linear(1000, 4)).eval()
    found = insitu.compile(model, example=torch.zeros(1, 600), precision="float", scheme="full", batch=BATCH)
    assert found.parts is not None
    graphs = found.parts.batch_graphs(BATCH)
    assert graphs is not None
    assert "train_step" in faster_together(graphs)


def test_an_int8_network_adds_up_gradients_as_on_a_board():
    x, _ = data(COUNT)
    found = learner(batch=BATCH, precision="int8", data=x)
    assert found.parts is not None
    assert found.parts.batch_graphs(BATCH) is None


@pytest.mark.parametrize("views", [1, 3])
def test_samples_need_not_be_side_by_side(views):
    """Rows are gathered from arrays with other views in between."""
    x, y = data(COUNT)
    found = learner(batch=BATCH)
    found.fit(x, y, epochs=1, rate=RATE)
    device, start = learning(found), learning(found).state()
    wanted = device.train(Updates((x, y.astype(np.int32)), range(16), [RATE] * 2, BATCH)), device.state()
    device.load_arrays(start)
    spread = np.repeat(x[:, None], views, 1)[:, views - 1]
    got = device.train(Updates((spread, y.astype(np.int32)), range(16), [RATE] * 2, BATCH)), device.state()
    assert got[0].losses.tobytes() == wanted[0].losses.tobytes()
    near(got[1], wanted[1], 0.0)


@pytest.mark.parametrize("views", [1, 3])
def test_large_samples_are_gathered_in_any_order(views):
    """Batches from anywhere in an array give the bytes of steps with the same batches side by side."""
    x, y = images()
    found = made("cnn", RECIPES["adam, decay"])
    found.fit(x, y, epochs=1, rate=RATE)
    device, start, labels = learning(found), learning(found).state(), y.astype(np.int32)
    x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).reshape(COUNT, *device.verbs["train_step"][0][0].shape[1:])
    order, rates = [7, 7, 29, 0, 3, 12, 5, 28, *range(24, 8, -1)], [RATE, RATE / 2, RATE]
    batches = [order[at : at + BATCH] for at in range(0, len(order), BATCH)]
    wanted = [device.run("train_step", x[b], labels[b], np.float32(r)) for b, r in zip(batches, rates)]
    state = device.state()
    device.load_arrays(start)
    spread = np.repeat(x[:, None], views, 1)[:, views - 1]
    got = device.train(Updates((spread, labels), order, rates, BATCH))
    assert got.losses[::BATCH].tobytes() == np.array([loss for loss, _ in wanted]).tobytes()
    assert got.outputs[0].tobytes() == np.concatenate([out for _, out in wanted]).tobytes()
    near(device.state(), state, 0.0)
